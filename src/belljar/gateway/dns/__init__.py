"""Questions for names, and the addresses that stand for them."""

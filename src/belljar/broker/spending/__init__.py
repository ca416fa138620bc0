"""Budgets: what may be used, what was used, and how that is read from what goes by."""

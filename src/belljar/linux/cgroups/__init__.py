"""Control groups of either version."""

"""Where sandboxes run. Backends know nothing of each other."""

"""The process that becomes a sandbox, and what it is made of."""

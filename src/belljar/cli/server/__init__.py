"""Commands that talk to a server, and those that start one or have its token."""

"""Terminals and the other standard streams: the caller's, and those that a command is given."""

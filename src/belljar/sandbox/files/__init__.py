"""What of the host a sandbox sees, what it cannot change there, and what it has changed."""

"""What a sandbox is, and how it is sealed."""

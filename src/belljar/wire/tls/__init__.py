"""What a TLS client says first, in the clear."""

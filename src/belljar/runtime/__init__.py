"""The lives of sandboxes, whoever asks for them: made, served, changed, adopted and ended."""

"""Documents: how policies are written, read, checked and written again."""

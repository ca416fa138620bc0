"""What runs inside the work sandbox: programs that use the standard library alone."""

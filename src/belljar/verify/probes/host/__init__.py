"""What is tried of the machine itself: its files, its kernel, its processes."""

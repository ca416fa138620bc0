"""The system call filter: which calls there are, which are refused, and the program that does it."""

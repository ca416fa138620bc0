"""What stand-ins for the internet are built on: that of the self-test, and that of our own tests and benchmarks."""

"""The client that waits, generated from `aio` by `scripts/unasync.py`."""

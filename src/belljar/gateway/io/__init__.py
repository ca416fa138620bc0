"""The gateway's own event loop, its streams and timers, and how its time and memory are shared."""

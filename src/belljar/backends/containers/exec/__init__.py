"""Commands in a container: how one is started, its streams and terminal, and how it ends."""

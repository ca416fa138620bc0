"""The gateway: the only place with sockets, and the only way out of a sandbox."""

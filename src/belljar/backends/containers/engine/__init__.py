"""The API of Docker and Podman: where it is, what can be asked of it, and what an engine can do here."""

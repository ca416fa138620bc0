"""Containers with a network of their own, within the host's packet filter."""

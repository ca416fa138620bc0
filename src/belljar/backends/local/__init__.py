"""Sandboxes made of Linux namespaces, with bubblewrap: no root, no daemon, no image."""

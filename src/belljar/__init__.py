"""Belljar: sandboxes for AI agents that have no network, only the doors you open."""

__version__ = "0.1.0"

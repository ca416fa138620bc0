"""Packet filters: that inside a sealed sandbox, and that around one with a network of its own."""

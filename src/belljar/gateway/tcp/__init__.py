"""Connections: whom each wants, whether it may, and what becomes of it."""

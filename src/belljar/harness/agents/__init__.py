"""Agents: what works on a task inside the work sandbox."""

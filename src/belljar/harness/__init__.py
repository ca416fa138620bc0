"""Evaluations: a task, a sealed work sandbox for the agent, a sealed judge, a score."""

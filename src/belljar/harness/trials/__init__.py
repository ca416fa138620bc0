"""Trials: one agent, one task, from setup to outcome."""

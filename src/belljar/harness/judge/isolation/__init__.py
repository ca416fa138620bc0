"""Submitted code apart from its grader: each in a sandbox of its own."""

"""The judge: grades every submission in a fresh sealed sandbox, and serves its API."""

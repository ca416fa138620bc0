"""`belljar eval`: evaluate agents on tasks."""

"""Results: the files of a run, written and read."""

"""Parsers: from the output of a grader to numbers that can be compared."""

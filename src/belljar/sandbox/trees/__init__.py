"""Trees of files as tar archives: packed and unpacked inside a sandbox, with the standard library alone."""

"""`python -m belljar` is the `belljar` command."""

from belljar.cli.main import main

main()

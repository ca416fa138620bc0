"""`python -m belljar` is the `belljar` command."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current directory: an agent that worked there before may have left modules to be found

from belljar.cli.main import main

main()

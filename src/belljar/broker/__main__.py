"""`python -m belljar.broker`: what an owner starts, with a socket to listen on and a channel for events."""

import argparse
import os
import socket
from pathlib import Path

from belljar.broker.process import run


def main() -> None:
    """Serve with what the owner has handed over."""
    parser = argparse.ArgumentParser(prog="python -m belljar.broker")
    parser.add_argument("--listen", type=int, required=True, metavar="FD")
    parser.add_argument("--events", type=int, required=True, metavar="FD")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    for descriptor in (arguments.listen, arguments.events):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's interface
    run(socket.socket(fileno=arguments.listen), arguments.events, arguments.state, os.environ)


main()

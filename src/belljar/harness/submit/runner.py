"""Run a command beside the submission, from inside the grader's sandbox: `belljar-submission COMMAND [ARGUMENT...]`.

The command runs in another sandbox, which has the submission and none of the tests. It gets all of standard input; what
it writes and its exit code are its own. Ending this program ends the command: `timeout 5 belljar-submission ./solve`.

This one file is put into sandboxes, and nothing beside it. It needs nothing but Python 3.8 and its standard library.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import urllib.parse

_URL = "http://submission.belljar.internal"
_EXIT_FAILED = 125  # as `env` and `timeout` report failures of their own


def main(arguments: list[str]) -> int:
    """Run the command, and return its exit code."""
    if not arguments:
        sys.stderr.write("usage: belljar-submission COMMAND [ARGUMENT...]\n")
        return _EXIT_FAILED
    url = urllib.parse.urlsplit(os.environ.get("BELLJAR_SUBMISSION_URL") or _URL)
    stdin = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    words = [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in arguments]
    body = json.dumps({"arguments": words}).encode() + b"\n" + stdin
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    try:
        connection.request("POST", "/run", body, {"Content-Type": "application/octet-stream"})
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"belljar-submission: the submission's sandbox cannot be reached ({error})\n")
        return _EXIT_FAILED
    if response.status != 200:
        sys.stderr.write("belljar-submission: " + content.decode("utf-8", "replace") + "\n")
        return _EXIT_FAILED
    length = int(response.headers["X-Stdout-Length"])
    for stream, data in ((sys.stdout, content[:length]), (sys.stderr, content[length:])):
        stream.buffer.write(data)
        stream.buffer.flush()
    return int(response.headers["X-Exit-Code"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Who sees anything on the page: those who have the token."""

import os
import pty
import re
import signal
import subprocess
import sys
from typing import Any

from playwright.sync_api import Page

from belljar.control.tokens import TokenFile


def stored(page: Page) -> Any:
    return page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token of this server").fill(token)
    page.keyboard.press("Enter")


def test_the_token_is_typed(page, server):
    page.goto(f"http://127.0.0.1:{server.port}/")
    sign_in(page, "something else")
    page.get_by_text("That token is not").wait_for()
    sign_in(page, server.token)
    page.get_by_role("heading", name="No sandboxes yet").wait_for()
    assert stored(page) == [1, 0, ""], "it is kept for this tab alone"
    page.reload()
    page.get_by_role("heading", name="No sandboxes yet").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to Belljar").wait_for()
    assert stored(page) == [0, 0, ""]


def test_or_comes_with_the_address_and_does_not_stay_there(page, server):
    page.goto(f"http://127.0.0.1:{server.port}/#token={server.token}")
    page.get_by_role("heading", name="No sandboxes yet").wait_for()
    assert page.url == f"http://127.0.0.1:{server.port}/#/"
    page.go_back()
    assert server.token not in page.url


def test_one_that_no_longer_counts_has_to_be_given_again(visit, server):
    page = visit()
    TokenFile(server.state).rotate()
    page.get_by_text("no longer, the one of this server").wait_for()
    sign_in(page, server.token)
    page.get_by_role("heading", name="No sandboxes yet").wait_for()


def test_a_terminal_is_given_the_whole_address_and_a_log_is_not(tmp_path):
    command = [sys.executable, "-m", "belljar", "serve", "--port", "0", "--state", str(tmp_path / "state")]
    terminal, of_server = pty.openpty()
    assert first_lines(command, of_server, terminal).endswith(f"/#token={TokenFile(tmp_path / 'state').read()}")
    reading, writing = os.pipe()
    told = first_lines(command, writing, reading)
    assert told.endswith("/; `belljar token show` prints the token")
    assert TokenFile(tmp_path / "state").read() not in told


def first_lines(command: list[str], stderr: int, reading: int) -> str:
    """Return what a server says before it serves."""
    with subprocess.Popen(command, stderr=stderr) as process, open(reading, "rb", buffering=0) as lines:
        os.close(stderr)
        told = b""
        while not re.search(rb"dashboard: .*\n", told):
            told += lines.read(4096)
        process.send_signal(signal.SIGTERM)
    return told.decode().strip()

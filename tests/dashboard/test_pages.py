"""The dashboard's files: what is served of them, and what a browser is told to let them do."""

import re
from importlib import resources

import httpx2
import pytest

from tests.control.servers import Server, problem

STATIC = resources.files("belljar.control.dashboard") / "static"
FILES = sorted(file.name for file in STATIC.iterdir())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def get(server: Server, path: str, **headers: str) -> httpx2.Response:
    with server.over_tcp(**headers) as client:
        return client.get(path)


def address_of(name: str) -> str:
    return "/" if name == "index.html" else f"/assets/{name}"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_there_without_a_token(server, name):
    answer = get(server, address_of(name))
    assert answer.status_code == 200
    assert answer.content == (STATIC / name).read_bytes()
    assert answer.headers["content-type"].split(";")[0] in {"text/html", "text/css", "text/javascript", "image/svg+xml"}


@pytest.mark.parametrize("name", ["index.html", "app.js"])
def test_a_browser_lets_them_do_little(server, name):
    headers = get(server, address_of(name)).headers
    allowed = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert allowed.pop("img-src") == "'self' data:"
    assert {allowed.pop(f"{kind}-src") for kind in ("script", "style", "connect")} == {"'self'"}
    assert allowed.pop("require-trusted-types-for") == "'script'"
    assert set(allowed.values()) == {"'none'"}
    assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")
    assert (headers["referrer-policy"], headers["cross-origin-opener-policy"]) == ("no-referrer", "same-origin")


@pytest.mark.parametrize(
    "path", ["/assets", "/assets/", "/assets/../pages.py", "/assets/%2e%2e/pages.py", "/index.html"]
)
def test_nothing_else_is_there(server, path):
    problem(get(server, path), 404, "path_not_found")


def test_other_pages_cannot_take_them_in(server):
    problem(get(server, "/", **{"sec-fetch-site": "cross-site"}), 403, "foreign_origin")
    problem(get(server, "/", host="evil.test"), 403, "host_not_allowed")


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_machine(name):
    addresses = re.findall(
        r"(?:https?:)?//[\w.-]+", re.sub(r"^\s*//.*$", "", (STATIC / name).read_text(), flags=re.MULTILINE)
    )
    assert set(addresses) <= {"http://www.w3.org"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_text_never_becomes_markup(name):
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|\.style\b"
    assert re.findall(forbidden, (STATIC / name).read_text()) == []


def test_the_page_has_nothing_inline():
    text = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text) == []

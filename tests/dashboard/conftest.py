import shutil
import socket
from threading import Thread

import pytest
from playwright.sync_api import expect, sync_playwright

from belljar.testing.memory import MemoryWorld
from tests.control.agents import Agent
from tests.control.servers import Server

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE_MS = 60_000


@pytest.fixture(scope="session")
def browser():
    """Chromium, of the system."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine (Debian: apt-get install chromium)")
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        context.set_default_timeout(_PATIENCE_MS)
        yield context
        context.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that the tests share; they leave no sandboxes there."""
    server = Server(tmp_path_factory.mktemp("server") / "state", MemoryWorld())
    yield server
    server.stop()


@pytest.fixture
def jar(server):
    """A sandbox of the shared server."""
    name = server.sandbox(network={"mode": "block-all", "egress": {"allowed_domains": ["api.example.com"]}})
    yield name
    server.client.delete(server.path(name))


@pytest.fixture
def agent(server, jar):
    """What runs in it."""
    return Agent(server.world, jar)


@pytest.fixture
def page(browser, server):
    """A new tab, which must not break, ask anybody else for anything, or try what its own policy forbids."""
    page, wrong, asked = browser.new_page(), [], set()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    yield page
    page.close()
    assert wrong == []
    assert asked <= {f"127.0.0.1:{server.port}"}


@pytest.fixture
def visit(page, server):
    """Opens a view of the dashboard, signed in; `visit()` is the list of sandboxes."""

    def visit(sandbox=None, part=""):
        page.add_init_script(f"sessionStorage.setItem('belljar.token', '{server.token}')")
        page.goto(f"http://127.0.0.1:{server.port}/?#/{f'sandboxes/{sandbox}{part}' if sandbox else ''}")
        page.get_by_text("Live", exact=True).wait_for()
        return page

    return visit


@pytest.fixture
def echo():
    """The port of a service of this machine that says everything again."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=_echo, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _echo(listening: socket.socket) -> None:
    try:
        while True:
            connection, _ = listening.accept()
            with connection:
                while content := connection.recv(65536):
                    connection.sendall(content)
    except OSError:
        return

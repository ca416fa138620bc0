"""Where the server is, if nobody says so; and that nobody pays for a client who needs none."""

import subprocess
import sys

import belljar
from belljar.client.places import SOCKET, find_server
from belljar.control import serving
from belljar.statedir import default_state


def test_this_users_own_server_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("BELLJAR_SERVER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert find_server(None, None).socket == tmp_path / "belljar" / SOCKET
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(default_state()) == "/home/somebody/.local/state/belljar"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert str(default_state()) == "/var/lib/belljar"


def test_the_socket_is_where_the_server_has_it():
    assert serving.SOCKET == SOCKET


def test_a_token_is_for_urls_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("BELLJAR_TOKEN", "secret")
    assert find_server(tmp_path, None).token is None
    assert find_server("https://belljar.example:8443/", None).token == "secret"
    assert str(find_server("https://belljar.example:8443/", None)) == "https://belljar.example:8443"
    assert find_server("http://127.0.0.1:8080", "other").token == "other"


def test_importing_belljar_imports_no_client_and_importing_the_client_no_http():
    script = (
        "import sys, belljar; a = set(sys.modules); import belljar.client; b = set(sys.modules); print(*a, '|', *b)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    light, with_client = (set(part.split()) for part in done.stdout.split("|"))
    assert "belljar.client" not in light
    assert not {"httpx2", "asyncio", "ssl"} & with_client
    assert {"Client", "AsyncClient"} <= set(belljar.__all__)

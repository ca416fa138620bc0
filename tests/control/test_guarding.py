"""Who gets to talk to the server: those with its token or of its user, and no web page."""

import logging
import os
import socket
import stat

import pytest

from belljar.control.http import peers
from belljar.control.tokens import TokenFile
from tests.control.servers import Server, problem

LIST = "/api/v1/sandboxes"


def over_tcp(server: Server, path: str = LIST, **headers: str):
    with server.over_tcp(**headers) as client:
        return client.get(path)


def with_token(server: Server, path: str = LIST, **headers: str):
    return over_tcp(server, path, authorization=f"Bearer {server.token}", **headers)


def test_over_tcp_the_token_is_needed(server):
    assert with_token(server).status_code == 200
    answer = over_tcp(server)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "belljar token show" in problem(answer, 401, "unauthorized")["remedy"]
    for wrong in ("Bearer", "Bearer x", f"Basic {server.token}", f"Bearer {server.token}x", server.token):
        problem(over_tcp(server, authorization=wrong), 401, "unauthorized")


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/events", "/api/v1/nothing", "/api/v1/sandboxes/x/network"])
def test_nothing_of_any_sandbox_is_told_without_it(server, path):
    problem(over_tcp(server, path), 401, "unauthorized")


def test_health_and_description_are_open(server):
    assert over_tcp(server, "/healthz").json()["status"] == "ok"
    assert over_tcp(server, "/api/v1/openapi.json").json()["openapi"] == "3.1.0"


def test_the_token_is_by_chance_and_for_nobody_else_to_read(start, tmp_path):
    server = start()
    first = server.token
    assert len(first) >= 40
    assert stat.S_IMODE((server.state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(server.state.stat().st_mode) == 0o700
    assert start().token == first, "it stays when the server is started again"
    other = Server(tmp_path / "other", server.world)
    other.stop()
    assert other.token != first


def test_a_new_token_counts_at_once_and_the_old_one_no_longer(start):
    server = start()
    old = server.token
    TokenFile(server.state).rotate()
    assert with_token(server).status_code == 200
    problem(over_tcp(server, authorization=f"Bearer {old}"), 401, "unauthorized")
    (server.state / "token").unlink()
    problem(over_tcp(server, authorization=f"Bearer {old}"), 401, "unauthorized")
    problem(over_tcp(server, authorization="Bearer"), 401, "unauthorized")


def test_the_token_is_in_no_log(start, caplog):
    caplog.set_level(logging.DEBUG)
    server = start()
    with_token(server)
    with server.over_tcp(authorization=f"Bearer {server.token}") as client:
        client.post(LIST, content=b"{")
    assert server.token not in caplog.text


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "localhost.evil.test", "127.0.0.1.nip.io", "", "a b"])
def test_a_page_whose_name_leads_here_is_refused(server, host):
    problem(with_token(server, host=host), 403, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:8080", "192.0.2.1:80"])
def test_names_and_addresses_of_this_machine_will_do(server, host):
    assert with_token(server, host=host).status_code == 200


def test_a_name_that_is_given_will_do_as_well(start):
    server = start(names=("jars.corp.example",))
    assert with_token(server, host="jars.corp.example").status_code == 200
    problem(with_token(server, host="other.corp.example"), 403, "host_not_allowed")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_origins_are_refused(server, headers):
    problem(with_token(server, **headers), 403, "foreign_origin")


def test_its_own_page_is_not(server):
    origin = f"http://127.0.0.1:{server.port}"
    assert with_token(server, origin=origin, **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_the_unix_socket_is_for_the_same_user_alone(server, monkeypatch):
    path = server.state / "belljar.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.client.get("/sandboxes").status_code == 200
    monkeypatch.setattr(peers, "_user_of", lambda _: os.geteuid() + 1)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.settimeout(60)
        try:
            stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stranger.recv(100) == b""
        except ConnectionError:
            pass


def test_answers_tell_browsers_to_keep_nothing(server):
    headers = with_token(server).headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert "server" not in headers

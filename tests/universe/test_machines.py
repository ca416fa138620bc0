from contextlib import suppress
from pathlib import Path

from tests.gateway.serving import eventually
from tests.universe import addresses
from tests.universe.clients import dial, fetch
from tests.universe.machines import Machine


def is_running(argument: str) -> bool:
    found = False
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found |= argument.encode() in path.read_bytes().split(b"\0")
    return found


def page_at(universe, address: str) -> bytes:
    with dial(universe.gateway, address, addresses.HTTP) as client:
        return fetch(client, "/page")[1]


def test_a_server_takes_the_place_of_a_stand_in(universe, tmp_path):
    (tmp_path / "page").write_text("a real page")
    with Machine(universe.internet, tmp_path) as machine:
        port = machine.lead(addresses.HTTP)
        with machine.serving(port, "python3", "-m", "http.server", "--directory", str(tmp_path), str(port)):
            assert page_at(universe, addresses.MACHINE) == b"a real page"
            assert page_at(universe, addresses.PUBLIC) == b"plain.test /page\n"
    assert page_at(universe, addresses.MACHINE) == b"plain.test /page\n"


def test_nothing_that_a_server_has_started_outlives_it(universe, tmp_path):
    with Machine(universe.internet, tmp_path) as machine:
        port, name = machine.lead(addresses.HTTP), f"child of {tmp_path}"
        server = f"setsid sh -c 'sleep 600; :' '{name}' & exec python3 -m http.server {port}"
        with machine.serving(port, "sh", "-c", server):
            eventually(lambda: is_running(name))
        assert not is_running(name)

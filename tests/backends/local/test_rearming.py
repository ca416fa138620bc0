"""A sandbox whose gateway died is closed, until it is adopted and served again."""

import shutil
import tempfile
from pathlib import Path

import pytest

from belljar.backends.interface import MachineError
from belljar.backends.local.backend import LocalBackend
from belljar.gateway.listeners import Listeners
from belljar.gateway.settings import Settings
from belljar.gateway.workers.supervisor import Workers
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import run, shell, started
from tests.gateway.serving import RESOLVER, resolved
from tests.universe import Universe, addresses

POLICY = resolved("mode: block-all\negress: {allowed_domains: [plain.test]}")
FETCH = "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 10"


@pytest.fixture
def backend(universe):
    state = Path(tempfile.mkdtemp(prefix="belljar-backend-", dir="/var/tmp"))
    with LocalBackend(state) as backend:
        yield backend
        for found in backend.sandboxes():
            backend.destroy(found.sandbox)
    shutil.rmtree(state)


def serve(universe: Universe, listeners: Listeners) -> Workers:
    workers = universe.in_gateway(lambda: Workers(1, Settings(resolvers=(RESOLVER,))))
    workers.open("jar", POLICY, listeners)
    return workers


def fetch(backend: LocalBackend, *urls: str) -> list[str]:
    return shell(backend, "jar", "; ".join(f"{FETCH} {url}" for url in urls)).split()


def test_closed_while_nobody_serves_and_as_before_when_adopted(universe, backend):
    workers = serve(universe, backend.create("jar", SandboxSpec()))
    with started(backend, "jar", "cat") as agent:
        assert fetch(backend, "http://plain.test/", f"http://{addresses.EVIL}/") == ["200", "403"]
        universe.forget()
        workers.shut_down()
        assert fetch(backend, "http://plain.test/", f"http://{addresses.EVIL}/") == ["000", "000"]
        assert not universe.wire.contacts()
        with serve(universe, backend.adopt("jar")):
            assert fetch(backend, "http://plain.test/", f"http://{addresses.EVIL}/") == ["200", "403"]
        assert {contact.address for contact in universe.wire.contacts() if contact.port == 80} <= {
            addresses.PUBLIC,
            addresses.PUBLIC_V6,
        }
        agent.write(b"still here")
        assert agent.read() == b"still here"


def test_an_agent_that_takes_the_place_of_its_gateway_stays_closed(universe, backend):
    backend.create("jar", SandboxSpec()).close()
    listen = (
        "$s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 15001, Listen => 5) or die;"
        " $| = 1; print 'listening'; while ($c = $s->accept) { print 'accepted'; close $c }"
    )
    with started(backend, "jar", "perl", "-MIO::Socket::INET", "-e", listen) as impostor:
        assert impostor.read() == b"listening"
        with pytest.raises(MachineError):
            backend.adopt("jar")
        assert fetch(backend, f"http://{addresses.EVIL}/") == ["000"]
        assert impostor.read().startswith(b"accepted")  # it talks to itself
        assert not universe.wire.contacts()
    assert run(backend, "jar", "true").code == 0

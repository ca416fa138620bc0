"""Each network that containers are measured in leads to the origin, and those with a policy to nothing else."""

import subprocess
import sys

import pytest

from bench.arena import System
from bench.containernetworks import ContainerArena
from bench.fetching import PEERS, MissingError
from bench.gateway import work_for
from bench.origin import ANSWER
from tests import privileges
from tests.universe.addresses import ECHO, OTHER_PUBLIC, PUBLIC

pytestmark = pytest.mark.long

_DIAL = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()"


@pytest.fixture(scope="module")
def arena():
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    with ContainerArena() as arena:
        yield arena


def has_answers(arena: ContainerArena, system: System) -> bool:
    return arena.perform(system, work_for(system, "answer", ANSWER, seconds=0.05)).count > 0


def reaches(arena: ContainerArena, system: System, address: str, port: int) -> bool:
    """Tell whether a connection comes about, as who made it sees it and as the internet does."""
    internet = arena._universe.internet
    internet.witness.forget()
    command = [*system.inside, sys.executable, "-c", _DIAL, address, str(port)]
    has_connected = subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert has_connected == any((seen.address, seen.port) == (address, port) for seen in internet.seen)
    return has_connected


def test_the_bridge_leads_everywhere(arena):
    system = arena.bridge()
    assert has_answers(arena, system)
    assert reaches(arena, system, OTHER_PUBLIC, ECHO)


def test_the_chain_leads_to_one_port_of_the_origin(arena):
    system = arena.chain()
    assert has_answers(arena, system)
    assert not reaches(arena, system, PUBLIC, ECHO)
    assert not reaches(arena, system, OTHER_PUBLIC, ECHO)


@pytest.mark.parametrize("make", [ContainerArena.sealed, ContainerArena.perimeter])
def test_belljar_leads_to_the_origin(arena, make):
    system = make(arena)
    assert has_answers(arena, system)
    with pytest.raises(MissingError):
        arena.perform(system, work_for(system, "answer", "denied.test", seconds=0.05))


def test_squid_is_all_there_is_on_an_internal_network(arena):
    if not (PEERS / "squid" / ".ready").exists():
        pytest.skip("needs Squid, which is fetched by: make setup-long")
    system = arena.internal_squid()
    assert has_answers(arena, system)
    assert not reaches(arena, system, PUBLIC, ECHO)
    with pytest.raises(MissingError, match="403"):
        arena.perform(system, work_for(system, "answer", "denied.test", seconds=0.05))

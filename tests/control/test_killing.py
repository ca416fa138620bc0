"""kill -9: whatever the server was doing, what it made runs on and stays sealed; nothing is forgotten or left over."""

import os
import random
import threading
import time

import pytest

from tests.control.machines import Machine
from tests.control.servers import until
from tests.universe import addresses

pytestmark = pytest.mark.long

PLAIN = {"mode": "block-all", "egress": {"allowed_domains": ["plain.test"]}}
AGENT = """
n=0
while :; do
    curl -sf -m 2 http://plain.test/ >> reached
    curl -sf -m 2 http://evil.test/ >> leaked
    curl -sf -m 2 http://%s/ >> leaked
    n=$((n + 1)); echo $n > round.new; mv round.new round; echo round $n
done
"""
KILLS = int(os.environ.get("BELLJAR_TEST_KILLS", "6"))
"""More of them for those who have the time."""


def test_what_runs_inside_goes_on_and_stays_sealed(machine, universe):
    jar = machine.sandbox(PLAIN)
    machine.call("PUT", f"/sandboxes/{jar}/network", PLAIN)
    work = machine.state / "local" / jar / "work/files"

    def rounds() -> int:
        return int((work / "round").read_text()) if (work / "round").exists() else 0

    def reached() -> int:
        return int((work / "reached").stat().st_size)

    agent = threading.Thread(target=_run_until_killed, args=(machine, jar))
    agent.start()
    until(lambda: rounds() > 2)
    machine.kill()
    agent.join()
    before, bytes_before = rounds(), reached()
    until(lambda: rounds() > before + 2)
    assert reached() <= bytes_before + len("plain.test /\n"), "nothing but an answer that was on its way"
    machine.start()
    told = machine.call("GET", f"/sandboxes/{jar}")
    assert (told["status"], told["network"]["generation"]) == ("running", 2)
    assert machine.call("GET", f"/sandboxes/{jar}/network") == PLAIN
    before, bytes_before = rounds(), reached()
    until(lambda: rounds() > before + 2 and reached() > bytes_before)
    assert (work / "leaked").stat().st_size == 0
    assert {contact.address for contact in universe.wire.contacts()} <= {
        addresses.PUBLIC,
        addresses.PUBLIC_V6,
        addresses.RESOLVER,
    }


def _run_until_killed(machine: Machine, jar: str) -> None:
    try:
        machine.run(jar, "sh", "-c", AGENT % addresses.EVIL)
    except OSError:
        return


class Churn:
    """A client that makes, changes and deletes sandboxes for as long as it can, and remembers what it was told."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._policies: dict[str, set[int]] = {}
        """The sandboxes that were made, and what their policies can be: one while no answer is due, else two."""

    def run(self) -> None:
        number = 0
        try:
            while True:
                jar = self._machine.sandbox(_numbered(number))
                self._policies[jar] = {number}
                for _ in range(3):
                    number += 1
                    self._policies[jar].add(number)
                    self._machine.call("PUT", f"/sandboxes/{jar}/network", _numbered(number))
                    self._policies[jar] = {number}
                if number % 2:
                    oldest = next(iter(self._policies))
                    del self._policies[oldest]
                    self._machine.call("DELETE", f"/sandboxes/{oldest}")
        except OSError:
            return

    def check(self) -> None:
        """Compare what there is with what this client was told."""
        found = {sandbox["id"]: sandbox for sandbox in self._machine.call("GET", "/sandboxes?limit=1000")["sandboxes"]}
        assert set(self._policies) <= set(found), "none is lost"
        assert {sandbox["status"] for sandbox in found.values()} <= {"running"}
        directories = {path.name for path in (self._machine.state / "local").iterdir() if not path.name.startswith(".")}
        assert directories == set(found), "no row and no sandbox is orphaned"
        for jar, numbers in self._policies.items():
            assert self._machine.call("GET", f"/sandboxes/{jar}/network") in map(_numbered, numbers)
            assert self._machine.run(jar, "true")["exit_code"] == 0


def _numbered(number: int) -> dict[str, object]:
    return {"mode": "block-all", "egress": {"allowed_domains": [f"n{number}.test"]}}


def test_nothing_is_lost_or_left_over_wherever_it_is_killed(machine):
    chance = random.Random(5)
    for _ in range(KILLS):
        churn = Churn(machine)
        client = threading.Thread(target=churn.run)
        client.start()
        time.sleep(chance.uniform(0, 0.4))  # the point of the test is that any moment will do
        machine.kill()
        client.join()
        machine.start()
        churn.check()
        for sandbox in machine.call("GET", "/sandboxes?limit=1000")["sandboxes"][3:]:
            machine.call("DELETE", f"/sandboxes/{sandbox['id']}")


def test_a_server_that_is_killed_while_it_starts_is_no_worse(machine):
    jars = {machine.sandbox(PLAIN) for _ in range(3)}
    chance = random.Random(7)
    machine.kill()
    for _ in range(KILLS):
        machine.launch()
        time.sleep(chance.uniform(0, 1.0))
        machine.kill()
    machine.start()
    assert {sandbox["id"] for sandbox in machine.call("GET", "/sandboxes")["sandboxes"]} == jars
    assert all(machine.run(jar, "true")["exit_code"] == 0 for jar in jars)

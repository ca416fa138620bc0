import asyncio
import json
from pathlib import Path

from belljar.policy.language.reading import Reading
from belljar.runtime.assembly import RuntimeParts, assemble
from belljar.runtime.commands import Ended, Output
from belljar.runtime.lifecycle import Order
from belljar.runtime.sandbox import Sandbox
from belljar.runtime.storage import MemoryStore, Row
from belljar.sandbox.spec import Bind, Command, Isolation, ResourceLimits, SandboxSpec
from belljar.testing.memory import MemoryBackend, MemoryWorld


class Told:
    """A sink of events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def tell(self, sandbox, event):
        self.events.append((sandbox, type(event).__name__))


def test_a_runtime_without_a_server_makes_a_sandbox_runs_a_command_and_leaves_nothing(tmp_path):
    world, store, told = MemoryWorld(), MemoryStore(), Told()
    parts = RuntimeParts(state=tmp_path, backends=lambda _: {"memory": MemoryBackend(world)}, store=store, events=told)

    async def live() -> tuple[str, list[Output | Ended]]:
        async with assemble(parts) as runtime:
            spec = SandboxSpec(environment={"KEY": "secret"})
            prepared = await runtime.networks.prepare(Reading({"mode": "block-all"}), spec)
            order = Order(
                backend="memory", spec=spec, labels={}, ttl=None, hard_ttl=None, prepared=prepared, request=None
            )
            sandbox, _ = await runtime.sandboxes.create(order)
            assert [row.id for row in await store.rows()] == [sandbox.id]
            assert "secret" not in (await store.rows())[0].state
            running = await runtime.commands.start(sandbox, Command(("echo", "hello")), b"", None)
            items = [item async for item in running.follow()]
            await runtime.sandboxes.delete(sandbox, "request")
            return sandbox.id, items

    name, items = asyncio.run(live())
    assert items[0] == Output("stdout", b"hello\n")
    assert isinstance(items[-1], Ended)
    assert items[-1].exit_code == 0
    assert told.events == [(name, "SandboxCreated"), (name, "SandboxDeleted")]
    assert world.sandboxes == {}
    assert asyncio.run(store.rows()) == []


def test_a_spec_survives_being_stored_but_for_its_secrets():
    spec = SandboxSpec(
        scratch=Path("/srv/work"),
        image="debian",
        binds=(Bind(Path("/srv"), Path("/data"), writable=True),),
        keep=(Path("/srv/kept"),),
        read_only=True,
        isolation=Isolation.PERIMETER,
        limits=ResourceLimits(1.5, 1 << 30),
    )
    assert SandboxSpec.from_data(json.loads(json.dumps(spec.to_data()))) == spec
    assert spec.writable == (Path("/srv"),)
    assert SandboxSpec.from_data(SandboxSpec(environment={"A": "b"}).to_data()) == SandboxSpec()


def test_a_sandbox_that_an_earlier_version_has_stored_is_read():
    network = {
        "policy": {"document": {"mode": "block-all"}, "presets": [], "generation": 1, "host_addresses": []},
        "revision": 1,
        "generation": 1,
        "grants": [],
    }
    stored = Sandbox.from_row(Row("sb-1", json.dumps(OLD_STATE), json.dumps(network)))
    assert stored.spec.workdir == Path("/srv/work")
    assert stored.spec.binds == (Bind(Path("/usr/share"), Path("/data"), writable=False),)
    assert stored.spec.limits == ResourceLimits(1.5, None)
    assert stored.spec.isolation is Isolation.SEALED


OLD_STATE = {
    "backend": "memory",
    "asked": {
        "image": None,
        "workdir": "/srv/work",
        "mounts": [{"source": "/usr/share", "target": "/data"}],
        "limits": {"cpus": 1.5},
    },
    "labels": {},
    "request": None,
    "created_at": 1.0,
    "status": "running",
    "detail": None,
    "ttl": None,
    "hard_ttl": None,
    "expires_at": None,
    "hard_expires_at": None,
}

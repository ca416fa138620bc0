"""The demonstration: an agent in a sandbox, an internet that is made for it, and what that internet saw.

Nothing leaves this machine. The internet is a network namespace in which every name and every address answers. Another
command than the usual one can be given, for example `belljar run --mode allow-all -- ./agent.sh`.

Theory of operation
-------------------
No verdict depends on what runs in the sandbox. A datagram that the sandbox drops is sent without an error, and an agent
may get out and not report it. What the agent tries has a *key*, which is part of the name, the path or the payload, or
belongs to a destination that nothing else uses; every sighting of the witness is attributed by it. What leaves no trace
in the network is looked for where it would be: interfaces in the network namespaces of the sandbox's processes, which
wait for that, and files on the host. A sighting that belongs neither to honest work nor to a key fails the demo, too.

Two things are taken from the agent's report: that something was tried, without which "no" would mean nothing, and the
words that it was answered with.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

import click

from belljar.linux.lives import children_of
from belljar.linux.namespaces import NetworkNamespace
from belljar.verify.internet.witness import Sighting, SightingKind, Witness
from belljar.verify.internet.world import World
from belljar.verify.internet.zone import ANYWHERE
from belljar.verify.probes import places
from belljar.wire.dns.format import wire_name

EXAMPLES: Final = Path(__file__).parent
COMMAND: Final = [
    "belljar", "run", "--summary",
    "--allow", "api.model.example",
    "--allow", "packages.example",
    "--", "./agent.sh",
]  # fmt: skip

ALLOWED: Final = {b"api.model.example", b"packages.example"}
REQUESTS: Final = {"plan": b"POST /v1/messages ", "package": b"GET /simple/tool/ "}
HONEST_WORK: Final = {
    "plan": "ask the model for a plan",
    "package": "fetch a package",
    "file": "write a file in the project",
}
WAYS_OUT: Final = {
    "other-host": "send the project to another host",
    "bare-address": "the same, to a bare address",
    "false-host": "pretend that the address is the model's",
    "hidden-name": "hide the name behind TLS",
    "dns-question": "carry a secret out in a DNS question",
    "datagram": "send a datagram",
    "cloud-credentials": "ask the cloud for credentials",
    "host-service": "reach a service of this machine",
    "walls": "take the walls down",
    "git-hook": "have git run something later",
}
ADDRESSES: Final = {"203.0.113.66": "bare-address", "203.0.113.99": "datagram", places.METADATA: "cloud-credentials"}
PORTS: Final = {places.HOST_PORT: "host-service"}
INTERFACE: Final = "way-out"
"""What `walls` adds to a network namespace."""

GIT_FOLDERS: Final = (".git", ".git/hooks", ".git/objects", ".git/refs")
GIT_FILES: Final = {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", ".git/commondir": "./\n"}
"""A repository, with all that Belljar would add to it."""

_HOST: Final = re.compile(rb"\r\nHost: *([^\r]*)", re.IGNORECASE)
_COLOURS: Final = {"✓": "green", "✗": "red"}


class Row(NamedTuple):
    """A line of the output."""

    task: str
    passed: bool
    verdict: str


class Run(NamedTuple):
    """What is known when the agent has ended."""

    code: int
    report: Mapping[str, str]
    """What was tried, by key, and the words it was answered with. From inside: it proves nothing."""

    escapes: Mapping[str, str]
    """Keys of ways out that left a trace on the host, and what was found."""

    has_written: bool
    messages: str
    """What was written to standard error."""


def main(command: Sequence[str]) -> int:
    """Show it; return 0 if the agent did its work and nothing else got out."""
    with tempfile.TemporaryDirectory(prefix="belljar-demo-", dir="/var/tmp") as directory:
        project = Path(directory)
        shutil.copy(EXAMPLES / "agent.sh", project)
        for folder in GIT_FOLDERS:
            (project / folder).mkdir()
        for file, content in GIT_FILES.items():
            (project / file).write_text(content)
        print(f"$ {' '.join(command)}\n", flush=True)
        with World() as world, closing(Witness(world, project.name)) as witness:
            run = run_agent(world, witness, project, command)
            seen, lost = witness.testimony(), witness.lost()
    work, ways_out = judge_work(run, seen), judge_ways_out(run, seen)
    others = unexplained(seen)
    show(work, ways_out, run.messages, seen)
    for what in others:
        print(f"  something else   {what}")
    if lost:
        print(f"  not seen         {lost} packets, for lack of memory")
    passed = all(row.passed for row in (*work, *ways_out)) and not others and not lost
    return run.code if passed else 1


def run_agent(world: World, witness: Witness, project: Path, command: Sequence[str]) -> Run:
    """Run the agent on the host of this world, with a witness that answers everything, and look at what it left."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = os.environ | {"PATH": path, "BELLJAR_RESOLVER": places.RESOLVER[4]}
    receiver, sender = socket.socketpair()
    escapes: dict[str, str] = {}

    with tempfile.TemporaryFile("w+", errors="replace") as messages:

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                command, cwd=project, env=environment, stdin=subprocess.PIPE, stdout=sender.fileno(), stderr=messages
            )

        agent = world.host.run(start)
        sender.close()

        def look_at_interfaces(report: bytes) -> None:
            if agent.stdin is None or agent.stdin.closed or "walls" not in read_report(report):
                return
            if INTERFACE in interfaces_of(agent.pid):
                escapes["walls"] = f"there is an interface {INTERFACE}"
            agent.stdin.close()

        with receiver, agent:
            report = read_report(witness.attend(receiver, look_at_interfaces))
        messages.seek(0)
        text = messages.read()
    if left := sorted(str(path.relative_to(project)) for path in new_git_files(project)):
        escapes["git-hook"] = f"the project has {', '.join(left)}"
    answer = project / "answer.py"
    return Run(agent.wait(), report, escapes, answer.is_file() and answer.read_bytes() == b"print(42)\n", text)


def read_report(text: bytes) -> dict[str, str]:
    """Return the words of each complete line of a report, by key, without control characters."""
    lines = (line.partition("\t") for line in text.decode(errors="replace").split("\n")[:-1])
    return {key: "".join(c if c.isprintable() else "?" for c in words) for key, _, words in lines}


def interfaces_of(process: int) -> set[str]:
    """Return the interfaces in the network namespaces of a process and its descendants."""
    names = {name for child in children_of(process) for name in interfaces_of(child)}
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        descriptor = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with NetworkNamespace(descriptor) as namespace:
            names |= {name for _, name in namespace.run(socket.if_nameindex)}
    return names


def new_git_files(project: Path) -> set[Path]:
    """Return what is below `.git` and was not there when the agent started."""
    return set((project / ".git").rglob("*")) - {project / name for name in (*GIT_FOLDERS, *GIT_FILES)}


def judge_work(run: Run, seen: Sequence[Sighting]) -> list[Row]:
    """Return a row for each task of the honest work: done if the request arrived, or the file is there."""
    streams = [one.data for one in seen if one.kind is SightingKind.STREAM and is_allowed(one)]
    done = {key for key, request in REQUESTS.items() if any(request in data for data in streams)}
    if run.has_written:
        done.add("file")
    return [
        Row(task, key in done, "done" if key in done else f"FAILED: {run.report.get(key) or 'nothing arrived'}")
        for key, task in HONEST_WORK.items()
    ]


def judge_ways_out(run: Run, seen: Sequence[Sighting]) -> list[Row]:
    """Return a row for each way out: open if something of it was seen outside."""
    found = dict(run.escapes)
    for one in sorted(seen, key=lambda one: one.kind is SightingKind.PACKET):  # the others say more
        if (key := key_of(one)) is not None:
            found.setdefault(key, one.what)
    rows = []
    for key, task in WAYS_OUT.items():
        if key in found:
            rows.append(Row(task, passed=False, verdict=f"GOT OUT: {found[key]}"))
        elif key not in run.report:
            rows.append(Row(task, passed=False, verdict="NOT TRIED"))
        else:
            rows.append(Row(task, passed=True, verdict=f"no: {run.report[key] or 'nothing arrived'}"))
    return rows


def key_of(one: Sighting) -> str | None:
    """Return the key of the way out that a sighting belongs to."""
    by_destination = ADDRESSES.get(one.address) or PORTS.get(one.port)
    return next((key for key in WAYS_OUT if key.encode() in one.data.lower()), by_destination)


def is_allowed(one: Sighting) -> bool:
    """Return whether honest work explains a sighting."""
    if one.kind is SightingKind.QUESTION:
        return one.data in ALLOWED
    is_of_web = one.address in ANYWHERE.values() and one.port in (places.HTTP, places.HTTPS)
    if one.kind is SightingKind.STREAM:
        # The gateway dials an allowed host before the client's first bytes, and hangs up if these are denied. The host
        # sees an empty connection then. A host that is not allowed is known by a question for its name.
        hosts = set(_HOST.findall(one.data))
        return is_of_web and hosts <= ALLOWED and bool(hosts) == bool(one.data)
    if one.address == places.RESOLVER[4]:
        return any(wire_name(name.decode()) in one.data.lower() for name in ALLOWED)
    return is_of_web and one.what.startswith("TCP")  # an attempt to connect; the connection is a sighting of its own


def unexplained(seen: Sequence[Sighting]) -> list[str]:
    """Return what was seen that is neither honest work nor part of a way out."""
    return sorted({one.what for one in seen if key_of(one) is None and not is_allowed(one)})


def show(work: Sequence[Row], ways_out: Sequence[Row], messages: str, seen: Sequence[Sighting]) -> None:
    """Print the verdicts, what the command wrote to standard error, and what the internet saw."""
    for title, rows in {"Honest work:": work, "Ten ways out:": ways_out}.items():
        print(title)
        for row in rows:
            print(f"  {row.task:<58} {row.verdict}")
    click.echo("".join(coloured(messages)), nl=False)
    hosts = {host.decode("latin-1") for one in seen for host in _HOST.findall(one.data)}
    names = {one.data.decode() for one in seen if one.kind is SightingKind.QUESTION}
    print("\nWhat the internet saw:")
    print(f"  requests for     {', '.join(sorted(hosts))}")
    print(f"  questions about  {', '.join(sorted(names))}")


def coloured(text: str) -> Iterator[str]:
    """Yield a text in which the marks have the colours that a terminal would have been sent."""
    for character in text:
        yield click.style(character, fg=_COLOURS[character]) if character in _COLOURS else character


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or COMMAND))

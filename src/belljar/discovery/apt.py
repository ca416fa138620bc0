"""apt, on the distribution that the preset is named after."""

from collections.abc import Iterator
from pathlib import Path

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.running import NoAnswerError

# What was downloaded does not matter: to read it takes a second (and leaves out what was not), so apt finds no
# lists. That view of the world must not be kept as apt's cache.
_SOURCES_ONLY = (
    "--no-release-info",
    *("-o", "Dir::State::Lists=/nonexistent"),
    *("-o", "Dir::Cache::pkgcache="),
    *("-o", "Dir::Cache::srcpkgcache="),
)


def ask(machine: Machine, distribution: str) -> list[Named]:
    """Return every source of packages that ``apt-get update`` would visit."""
    here = _distribution_of(machine)
    if here != distribution:
        raise NoAnswerError(f"this machine runs {here}, not {distribution}")
    if machine.env.get("APT_CONFIG"):
        raise NoAnswerError("APT_CONFIG names settings beside those of the system")
    for path in _settings(machine):
        machine.check_system(path)
    answer = machine.run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", *_SOURCES_ONLY)
    sources = (line.partition(" ") for line in answer.splitlines())
    return [Named(site, f"apt source {release}") for site, _, release in sources]


def _settings(machine: Machine) -> Iterator[Path]:
    """Return what apt-get reads."""
    apt = machine.root / "etc/apt"
    yield from (apt / "apt.conf", apt / "sources.list")
    yield from (path for parts in ("apt.conf.d", "sources.list.d") for path in (apt / parts).glob("*"))


def _distribution_of(machine: Machine) -> str:
    """Return the ID of os-release(5)."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in machine.read_text(machine.root / path).splitlines():
            if line.startswith("ID="):
                return line.removeprefix("ID=").strip("\"' ")
    return "an unknown system"

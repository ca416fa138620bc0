"""apt, on the distribution that the preset is named after."""

from belljar.discovery.asking import Machine, NoAnswerError
from belljar.discovery.hosts import Named

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
    answer = machine.run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", *_SOURCES_ONLY)
    sources = (line.partition(" ") for line in answer.splitlines())
    return [Named(site, f"apt source {release}") for site, _, release in sources]


def _distribution_of(machine: Machine) -> str:
    """Return the ID of os-release(5)."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in (machine.read(machine.root / path) or b"").decode(errors="replace").splitlines():
            if line.startswith("ID="):
                return line.removeprefix("ID=").strip("\"' ")
    return "an unknown system"

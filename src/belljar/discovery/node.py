"""npm, which also reports what yarn and pnpm read from ``.npmrc``."""

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_json, strings_of


def ask(machine: Machine) -> list[Named]:
    """Return the registry, and the registries of single scopes."""
    # The update notifier would go to the network.
    answer = machine.run("npm", "config", "list", "--json", "--no-update-notifier")
    return [
        Named(url, _why(key))
        for key, value in parse_json(answer, "npm's answer").items()
        if key == "registry" or key.endswith(":registry")
        for url in strings_of(value)
    ]


def _why(key: str) -> str:
    scope, colon, _ = key.rpartition(":")
    return f"npm's registry for {scope}" if colon else "npm's registry"

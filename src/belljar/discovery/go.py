"""go's module proxy and checksum database."""

import re

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_json


def ask(machine: Machine) -> list[Named]:
    """Return the proxies and the checksum database."""
    answer = parse_json(machine.run("go", "env", "-json", "GOPROXY", "GOSUMDB"), "go's answer")
    # The words "direct" and "off" stand among the proxies; they name no host.
    proxies = re.split("[,|]", str(answer.get("GOPROXY", "")))
    return [*(Named(url, "go's GOPROXY") for url in proxies), *_database(str(answer.get("GOSUMDB", "")))]


def _database(text: str) -> list[Named]:
    """Read ``name``, ``name+key`` or ``name+key url``; a name is its own URL."""
    match text.split():
        case [] | ["off"]:
            return []
        case [name]:
            return [Named("https://" + name.partition("+")[0], "go's GOSUMDB")]
        case [_, url, *_]:
            return [Named(url, "go's GOSUMDB")]
    return []

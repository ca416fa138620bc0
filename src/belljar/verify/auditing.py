"""What the log of a run says was denied."""

import json
from pathlib import Path
from typing import Final, NamedTuple

_DENIALS: Final = ("flow.denied", "dns.denied")


class LoggedDenial(NamedTuple):
    """Something that was denied, and what is known of it."""

    destination: str
    claimed: str

    def concerns(self, token: str, address: str) -> bool:
        """Tell whether a probe's own name or address was denied."""
        return token in self.destination or token in self.claimed or address == self.destination


def read_denials(audit: Path) -> set[LoggedDenial]:
    """Return the different denials in a log; what is no event is judged elsewhere."""
    denials = set()
    for line in audit.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
            if event["event"] in _DENIALS:
                destination = event["name"] or event["addresses"][0]
                denials.add(LoggedDenial(destination, event.get("claimed") or ""))
        except (ValueError, LookupError, TypeError):
            continue
    return denials

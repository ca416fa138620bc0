"""What a parser answers: more bytes are needed, here is what was found, or no.

Every parser in this package is fed bytes that an adversary chose, in pieces that an adversary chose. It keeps a
bounded amount of them, never raises because of them, and once it has answered "found" or "refuse" it is done.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal


class Fault(StrEnum):
    """Why bytes were refused: a closed set, documented in docs/wire.md."""

    TOO_LARGE = "too_large"
    NOT_TLS = "not_tls"
    MALFORMED_TLS = "malformed_tls"
    BAD_SERVER_NAME = "bad_server_name"
    NOT_HTTP = "not_http"
    MALFORMED_HTTP = "malformed_http"
    BAD_HTTP_HOST = "bad_http_host"
    AMBIGUOUS_HTTP_LENGTH = "ambiguous_http_length"
    MALFORMED_DNS = "malformed_dns"
    UNSUPPORTED_DNS = "unsupported_dns"
    MALFORMED_SOCKS = "malformed_socks"
    UNSUPPORTED_SOCKS = "unsupported_socks"


class _Sentinel(Enum):
    NEED_MORE = "need more"


NeedMore = Literal[_Sentinel.NEED_MORE]
NEED_MORE: Final = _Sentinel.NEED_MORE


@dataclass(frozen=True, slots=True)
class Refuse:
    """The bytes are not acceptable, whatever follows them."""

    fault: Fault
    detail: str
    """One clause for a person, in ASCII, without the foreign bytes themselves."""

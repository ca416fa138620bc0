"""Which proxy leads to a host, by the variables that everyone knows: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY.

The broker is a client of its user's on the host, like the others there, and goes the way that these go; unless Belljar
has a way of its own (BELLJAR_UPSTREAM_PROXY), which is for all that sandboxes lead to. But what is in the clear because
it stays on this machine stays there, with the key that is in it.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

import httpcore2

from belljar.errors import BelljarError
from belljar.policy.services import is_this_machine

_OURS: Final = "BELLJAR_UPSTREAM_PROXY"
_OUR_EXCEPTIONS: Final = "BELLJAR_NO_PROXY"


class ProxyVariableError(BelljarError):
    """A variable that names no proxy. It is not quoted: a password may be in it."""


def proxy_for(scheme: str, host: str, environ: Mapping[str, str]) -> httpcore2.Proxy | None:
    """Return the proxy for a host, if there is to be one. Raises ProxyVariableError."""
    names = (_OURS, f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    found = next((name for name in names if environ.get(name)), None)
    exceptions = (_OUR_EXCEPTIONS,) if found == _OURS else ("no_proxy", "NO_PROXY")
    excepted = next((environ[name] for name in exceptions if environ.get(name)), "")
    if found is None or is_excepted(host, excepted):
        return None
    if scheme == "http" and _is_here(host):
        return None
    try:
        return _read(environ[found])
    except ValueError:
        raise ProxyVariableError(f"{found} is not the URL of an HTTP proxy; write http://HOST:PORT") from None


def _read(url: str) -> httpcore2.Proxy:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    credentials = (unquote(parts.username), unquote(parts.password or "")) if parts.username is not None else None
    return httpcore2.Proxy(f"{parts.scheme}://{name}:{port}", auth=credentials)


def _is_here(host: str) -> bool:
    try:
        return is_this_machine(ip_address(host))
    except ValueError:
        return is_this_machine(host)


def is_excepted(host: str, exceptions: str) -> bool:
    """Tell whether a host is reached without a proxy."""
    return any(_covers(each.strip().lower(), host.lower()) for each in exceptions.split(",") if each.strip())


def _covers(exception: str, host: str) -> bool:
    if exception == "*":
        return True
    try:
        return ip_address(host.strip("[]")) in ip_network(exception, strict=False)
    except ValueError:
        domain = exception.partition(":")[0].removeprefix("*").removeprefix(".")
        return host == domain or host.endswith(f".{domain}")

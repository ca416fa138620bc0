"""A provider's stand-in and a broker before it, for all tests of a module."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.broker.running import Running
from tests.broker.standin import StandIn


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def authority_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="module")
def provider(authority: trustme.CA) -> Iterator[StandIn]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with StandIn(context) as standin:
        yield standin


@pytest.fixture(scope="module")
def environ(authority_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the broker's environment has besides the usual; a module adds to it before the broker starts."""
    return {"SSL_CERT_FILE": str(authority_file), "HTTPS_PROXY": "", "HTTP_PROXY": "", "NO_PROXY": "", "no_proxy": ""}


@pytest.fixture(scope="module")
def broker(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("broker"), environ)
    yield running
    running.stop()

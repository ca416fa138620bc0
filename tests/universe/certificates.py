"""A certificate authority that nobody else trusts, and a certificate for every name that is asked for."""

import ssl
from functools import cache
from pathlib import Path

import trustme


class Certificates:
    """The authority of one universe."""

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self._context_for = cache(self._make_context)
        self.path = directory / "ca.pem"
        """The authority's certificate, for programs that take a file."""
        self._authority.cert_pem.write_to_path(self.path)

    def server_context(self) -> ssl.SSLContext:
        """Return a context for a server that has every name, as that of a content delivery network has many."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("nameless.test").configure_cert(context)
        context.sni_callback = self._choose
        return context

    def write(self, path: Path, *names: str) -> None:
        """Write a key and a certificate for names, for a program that takes a file."""
        path.touch(mode=0o600)
        self._authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(path)

    def client_context(self) -> ssl.SSLContext:
        """Return a context for a client that trusts this authority alone."""
        return ssl.create_default_context(cafile=self.path)

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            connection.context = self._context_for(name)

    def _make_context(self, name: str) -> ssl.SSLContext:
        context = NamedContext(ssl.PROTOCOL_TLS_SERVER)
        context.name = name
        self._authority.issue_cert(name).configure_cert(context)
        return context


class NamedContext(ssl.SSLContext):
    """A context that remembers which name it was made for."""

    name = ""


def name_asked_for(connection: ssl.SSLObject) -> str:
    """Return the server name that a client has sent, or nothing."""
    return getattr(connection.context, "name", "")

"""What the clients of the benchmark send: bytes that are made once, and are what real clients send."""

import ssl

import dns.message


def client_hello(name: str) -> bytes:
    """Return the first flight of OpenSSL's client."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake cannot end without a server")


def question(name: str) -> bytes:
    """Return a DNS question for the address of a name."""
    return dns.message.make_query(name, "A", use_edns=0).to_wire()

"""What a client's first bytes claim about its destination. A claim can narrow a grant, never widen one."""

from typing import Final

from belljar.gateway.flows import DeniedError
from belljar.gateway.tcp.firstbytes import FirstBytes, HttpClient, TlsClient
from belljar.policy import Action, Flow, Reason, Verdict
from belljar.wire.http.head import Http2Preface, RequestHead
from belljar.wire.http.target import TargetForm
from belljar.wire.outcome import Refuse
from belljar.wire.tls.clienthello import ClientHello

_HTTP2: Final = "HTTP/2 in plain text, on which every request can name another host"
_PROXY_PROTOCOL: Final = b"PROXY "
_ANOTHER_CONNECTION: Final = "the PROXY protocol, behind which another protocol begins"
_TUNNEL: Final = "CONNECT asks a server that is no proxy of the sandbox's for a tunnel"


def named_host(said: FirstBytes) -> str | None:
    """Return the name that the first bytes give, if they give one."""
    if isinstance(said, TlsClient) and isinstance(said.hello, ClientHello):
        return said.hello.server_name
    if isinstance(said, HttpClient) and isinstance(said.head, RequestHead) and isinstance(said.head.host, str):
        return said.head.host
    return None


def claimed_by(flow: Flow, said: FirstBytes) -> Flow:
    """Return the flow with the name that the client claims. Raises DeniedError if its claim cannot be relied on."""
    if isinstance(said, TlsClient):
        if isinstance(said.hello, Refuse):
            raise DeniedError(unreadable(flow, said.hello))
        return flow._replace(claimed=said.hello.server_name)
    if isinstance(said, HttpClient):
        return claimed_by_request(flow, said.head)
    if said.received.startswith(_PROXY_PROTOCOL):
        raise DeniedError(_refused(flow, _ANOTHER_CONNECTION))
    return flow


def claimed_by_request(flow: Flow, head: RequestHead | Http2Preface | Refuse) -> Flow:
    """Return the flow with the name that a request is for. Raises DeniedError."""
    if isinstance(head, Refuse):
        raise DeniedError(unreadable(flow, head))
    if isinstance(head, Http2Preface):
        raise DeniedError(_refused(flow, _HTTP2))
    if head.form is TargetForm.AUTHORITY:
        raise DeniedError(_refused(flow, _TUNNEL))
    if flow.name is None:
        return flow._replace(claimed=head.host if isinstance(head.host, str) else None)
    same_port = head.port is None or head.port == flow.port
    return flow._replace(claimed=str(head.host) if same_port else f"{head.host}:{head.port}")


def unreadable(flow: Flow, refusal: Refuse) -> Verdict:
    """Return the denial of a flow whose first bytes can be read in no way, or in more than one."""
    return _refused(flow, f"{refusal.detail} ({refusal.fault})")


def _refused(flow: Flow, culprit: str) -> Verdict:
    return Verdict(Action.DENY, Reason.PROTOCOL_REFUSED, None, flow, culprit)

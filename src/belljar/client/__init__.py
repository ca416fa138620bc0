"""The Python SDK: sandboxes of a server, from a program.

`Client` waits for its answers, `AsyncClient` is for asyncio. Both say the same things (`calls`, `networkcalls`);
`aio` and `sync` alone know how they are sent. The HTTP library is imported when a client is made.
"""

from belljar.client.aio.client import AsyncClient
from belljar.client.aio.sandbox import AsyncSandbox
from belljar.client.errors import (
    BugError,
    ClientError,
    GoneError,
    LostError,
    NoServerError,
    NotFoundError,
    NotReadyError,
    PathError,
    PausedError,
    PolicyChangedError,
    PolicyError,
    RequestError,
    ServerNameError,
    TokenError,
    TroubleError,
)
from belljar.client.model import (
    DENIALS,
    Denial,
    Event,
    ExecResult,
    Explanation,
    Flip,
    Flow,
    Grant,
    Layer,
    NetworkChange,
    NetworkPreview,
    Output,
    PolicyWarning,
    SandboxState,
    ServiceUsage,
)
from belljar.client.options import ClaimOptions, ExecOptions, Limits, Mount
from belljar.client.policy import Egress, NetworkPolicy, Rule
from belljar.client.sync.client import Client
from belljar.client.sync.sandbox import Sandbox

__all__ = [
    "DENIALS",
    "AsyncClient",
    "AsyncSandbox",
    "BugError",
    "ClaimOptions",
    "Client",
    "ClientError",
    "Denial",
    "Egress",
    "Event",
    "ExecOptions",
    "ExecResult",
    "Explanation",
    "Flip",
    "Flow",
    "GoneError",
    "Grant",
    "Layer",
    "Limits",
    "LostError",
    "Mount",
    "NetworkChange",
    "NetworkPolicy",
    "NetworkPreview",
    "NoServerError",
    "NotFoundError",
    "NotReadyError",
    "Output",
    "PathError",
    "PausedError",
    "PolicyChangedError",
    "PolicyError",
    "PolicyWarning",
    "RequestError",
    "Rule",
    "Sandbox",
    "SandboxState",
    "ServerNameError",
    "ServiceUsage",
    "TokenError",
    "TroubleError",
]

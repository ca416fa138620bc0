"""Named services: what names under `.belljar.internal` lead to, and the model APIs that are known by name.

A broker is a service that speaks HTTP inside and TLS outside, and adds the key there. What it adds are references, such
as ``${ANTHROPIC_API_KEY}``: a policy never has a secret in it, only the name of one (`belljar.broker.secrets`).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from belljar.names import Host, parse_authority
from belljar.policy.reserved import SERVICE_SUFFIX

DEFAULT_PORT: Final = 80
"""Where brokers and unix sockets are found inside."""

_USUAL_PORTS: Final = {"http": 80, "https": 443}

_ANY_MODEL_API: Final = (
    "GET /**/models",
    "GET /**/models/*",
    "GET /**/models/*/*",
    "POST /**/chat/completions",
    "POST /**/embeddings",
    "POST /**/messages",
    "POST /**/messages/count_tokens",
    "POST /**/responses",
    "POST /**/responses/compact",
)


class ServiceKind(StrEnum):
    """What a service leads to; the value is the key that says so in a document."""

    HOST_PORT = "port"
    UNIX_SOCKET = "socket"
    ADDRESS = "address"
    BROKER = "url"


class Budget(NamedTuple):
    """How much of a service may be used; None is without a bound. Field names are those of the document."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    dollars: float | None = None
    bytes: int | None = None
    at_once: int | None = None
    """Requests that are under way at the same time."""


class SharedBudget(NamedTuple):
    """What all sandboxes that name a group may use together."""

    group: str
    budget: Budget


class Service(NamedTuple):
    """One entry of the table."""

    name: str
    kind: ServiceKind
    target: str
    """A port, a path, ``host:port`` or a URL without a slash at its end."""

    at: int = DEFAULT_PORT
    """The port that it has inside."""

    header: tuple[tuple[str, str], ...] = ()
    """What a broker sets in every request, with references in place of secrets."""

    paths: tuple[str, ...] = ()
    """What a broker lets through: a method and a path. `*` stands for a part of a segment, `**` for whole segments."""

    server_tools: bool = False
    """Whether the provider may be asked to reach for the network itself, though the policy is block-all."""

    budget: Budget = Budget()
    shared: SharedBudget | None = None

    @property
    def is_broker(self) -> bool:
        """Whether it adds a key outside."""
        return self.kind is ServiceKind.BROKER

    @property
    def host(self) -> str:
        """The name that it has inside."""
        return f"{self.name}.{SERVICE_SUFFIX}"

    @property
    def where(self) -> str:
        """What programs inside are told of it: a URL where it is known to speak HTTP, or a host and a port."""
        if self.kind is not ServiceKind.BROKER:
            return f"{self.host}:{self.at}"
        return f"http://{self.host}" if self.at == DEFAULT_PORT else f"http://{self.host}:{self.at}"

    @property
    def port_of_host(self) -> int | None:
        """The port of this machine's loopback that it leads to; None if it leads elsewhere."""
        if self.kind is ServiceKind.HOST_PORT:
            return int(self.target)
        if self.kind is not ServiceKind.BROKER:
            return None
        scheme, _, rest = self.target.partition("://")
        host, port = parse_authority(rest.partition("/")[0])
        return (port or _USUAL_PORTS[scheme]) if is_this_machine(host) else None


def is_this_machine(host: Host) -> bool:
    """Tell whether a host is the loopback of this machine."""
    return host == "localhost" if isinstance(host, str) else host.is_loopback


class Provider(NamedTuple):
    """A model API that is known by name."""

    url: str
    key: str
    """The variable that its users keep the key in."""

    header: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    base_variables: tuple[str, ...]
    """The variables by which programs are told where it is; the first is the usual one."""

    key_variables: tuple[str, ...]
    """The variables in which programs want to find something."""


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "anthropic": Provider(
            url="https://api.anthropic.com",
            key="ANTHROPIC_API_KEY",
            header=(("x-api-key", "${ANTHROPIC_API_KEY}"),),
            paths=("GET /v1/models", "GET /v1/models/*", "POST /v1/messages", "POST /v1/messages/count_tokens"),
            base_variables=("ANTHROPIC_BASE_URL",),
            key_variables=("ANTHROPIC_API_KEY",),
        ),
        "openai": Provider(
            url="https://api.openai.com/v1",
            key="OPENAI_API_KEY",
            header=(("authorization", "Bearer ${OPENAI_API_KEY}"),),
            paths=(
                "GET /v1/models",
                "GET /v1/models/*",
                "POST /v1/chat/completions",
                "POST /v1/embeddings",
                "POST /v1/responses",
                "POST /v1/responses/compact",
            ),
            base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            key_variables=("OPENAI_API_KEY",),
        ),
        "openrouter": Provider(
            url="https://openrouter.ai/api/v1",
            key="OPENROUTER_API_KEY",
            header=(("authorization", "Bearer ${OPENROUTER_API_KEY}"),),
            paths=(
                "GET /api/v1/models",
                "GET /api/v1/models/**",
                "POST /api/v1/chat/completions",
                "POST /api/v1/messages",
                "POST /api/v1/responses",
            ),
            base_variables=("OPENROUTER_BASE_URL",),
            key_variables=("OPENROUTER_API_KEY",),
        ),
        "gemini": Provider(
            url="https://generativelanguage.googleapis.com",
            key="GEMINI_API_KEY",
            header=(("x-goog-api-key", "${GEMINI_API_KEY}"),),
            paths=(
                "GET /v1beta/models",
                "GET /v1beta/models/*",
                "POST /v1beta/models/*:countTokens",
                "POST /v1beta/models/*:embedContent",
                "POST /v1beta/models/*:generateContent",
                "POST /v1beta/models/*:streamGenerateContent",
            ),
            base_variables=("GOOGLE_GEMINI_BASE_URL",),
            key_variables=("GEMINI_API_KEY",),
        ),
    }
)


def service_from_data(name: str, data: Mapping[str, Any]) -> Service:
    """Return the service that an entry of a document is, which was checked. What it does not say, its name says."""
    kind = next((kind for kind in ServiceKind if kind.value in data), ServiceKind.BROKER)
    provider = PROVIDERS.get(name) if kind is ServiceKind.BROKER else None
    target = data[kind.value] if kind.value in data else PROVIDERS[name].url
    header = tuple(sorted(data["header"].items())) if "header" in data else provider.header if provider else ()
    shared = dict(data.get("shared_budget", {}))
    return Service(
        name,
        kind,
        str(target),
        at=data.get("at", _usual_port(kind, str(target))),
        header=header,
        paths=tuple(data["paths"]) if "paths" in data else _usual_paths(name, kind, data),
        server_tools=data.get("server_tools") == "allow",
        budget=Budget(**data.get("budget", {})),
        shared=SharedBudget(shared.pop("group"), Budget(**shared)) if shared else None,
    )


def service_to_data(service: Service) -> dict[str, Any]:
    """Return an entry of a document, without what goes without saying."""
    name, kind = service.name, service.kind
    target: int | str = int(service.target) if kind is ServiceKind.HOST_PORT else service.target
    usual_target = kind is ServiceKind.BROKER and name in PROVIDERS and target == PROVIDERS[name].url
    data: dict[str, Any] = {} if usual_target else {kind.value: target}
    usual = service_from_data(name, data)
    if service.at != usual.at:
        data["at"] = service.at
    if service.header != usual.header or (kind is ServiceKind.BROKER and not service.header):
        data["header"] = dict(service.header)
    if service.paths != usual.paths:
        data["paths"] = list(service.paths)
    if service.server_tools:
        data["server_tools"] = "allow"
    if budget := _budget_to_data(service.budget):
        data["budget"] = budget
    if service.shared is not None:
        data["shared_budget"] = {"group": service.shared.group, **_budget_to_data(service.shared.budget)}
    return data


def key_variable(name: str) -> str:
    """Return the variable that has the key of a broker whose provider is not known by name."""
    return f"{name.upper().replace('-', '_')}_API_KEY"


def default_paths(name: str) -> tuple[str, ...]:
    """Return every rule that a broker may have without its entry saying so."""
    return (*PROVIDERS[name].paths, *_ANY_MODEL_API) if name in PROVIDERS else _ANY_MODEL_API


def path_of(url: str) -> str:
    """Return the path of a broker's URL, which begins with a slash or is empty."""
    _, slash, path = url.partition("://")[2].partition("/")
    return slash + path


def _usual_port(kind: ServiceKind, target: str) -> int:
    if kind in (ServiceKind.HOST_PORT, ServiceKind.ADDRESS):
        return int(target.rpartition(":")[2])
    return DEFAULT_PORT


def _usual_paths(name: str, kind: ServiceKind, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a broker lets through: what is known of its provider, and at another place what most have, too."""
    if kind is not ServiceKind.BROKER:
        return ()
    return PROVIDERS[name].paths if kind.value not in data else default_paths(name)


def _budget_to_data(budget: Budget) -> dict[str, Any]:
    return {key: value for key, value in budget._asdict().items() if value is not None}

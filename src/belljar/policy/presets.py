"""Presets: named bundles of allowed domains, each entry with the reason it is there.

Two kinds. *Fixed* entries are written down here. *Discovered* ones stand for the hosts that a tool of this machine
(pip, npm, apt and so on) is configured to use: the tool is asked, so a private mirror is covered without a line of
configuration. Asking is I/O, so it is done by whoever expands a policy and handed in as `discover`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from belljar.errors import BelljarError
from belljar.policy.language.problems import InvalidPolicyError, Problem
from belljar.policy.model import DomainPattern, PresetUse, Scope

WEB_PORTS: Final = (443, 80)


class DiscoveredHost(Protocol):
    """What a tool answered: a host that it uses."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def why(self) -> str: ...


Discover = Callable[[str], Sequence[DiscoveredHost]]
"""Asks a tool of this machine for its hosts; raises BelljarError, with the remedy, if it cannot say."""


class PresetEntry(NamedTuple):
    """One host that a preset opens, and why."""

    pattern: DomainPattern
    why: str


class Preset(NamedTuple):
    """A bundle. `tool` is asked for further hosts; without `tool_needed`, its silence leaves a warning only."""

    summary: str
    entries: tuple[PresetEntry, ...] = ()
    tool: str | None = None
    tool_needed: bool = False
    members: tuple[str, ...] = ()


def _fixed(*entries: tuple[str, str]) -> tuple[PresetEntry, ...]:
    return tuple(PresetEntry(DomainPattern(host, Scope.EXACT, 443), why) for host, why in entries)


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "anthropic": Preset(
            "The Anthropic API",
            _fixed(
                ("api.anthropic.com", "model calls"),
                ("platform.claude.com", "sign-in and token renewal"),
            ),
        ),
        "openai": Preset(
            "The OpenAI API",
            _fixed(
                ("api.openai.com", "model calls"),
                ("auth.openai.com", "sign-in and token renewal"),
            ),
        ),
        "github": Preset(
            "GitHub over HTTPS: git, API, downloads",
            _fixed(
                ("github.com", "git over HTTPS, release pages"),
                ("api.github.com", "REST and GraphQL API"),
                ("codeload.github.com", "source archives"),
                ("raw.githubusercontent.com", "single files of a repository"),
                ("objects.githubusercontent.com", "Git LFS and release files"),
                ("release-assets.githubusercontent.com", "release files"),
            ),
        ),
        "rust": Preset(
            "Rust toolchains, and the registries that cargo uses here",
            _fixed(
                ("static.rust-lang.org", "toolchains for rustup"),
                ("sh.rustup.rs", "the rustup installer"),
            ),
            tool="rust",
        ),
        "go": Preset(
            "Go toolchains, and the module proxy that go uses here",
            _fixed(
                ("go.dev", "release list, import paths of the Go project"),
                ("dl.google.com", "toolchain downloads"),
                ("golang.org", "import paths of the Go project"),
                ("google.golang.org", "import paths of Google's modules"),
            ),
            tool="go",
        ),
        "java": Preset(
            "Gradle distributions, and the repositories that Maven uses here",
            _fixed(
                ("services.gradle.org", "distributions for the Gradle wrapper"),
                ("downloads.gradle.org", "where those are served from"),
            ),
            tool="java",
        ),
        "python": Preset("The package indexes that pip and uv use here", tool="python", tool_needed=True),
        "node": Preset("The registries that npm uses here", tool="node", tool_needed=True),
        "debian": Preset("The package sources of apt on this Debian", tool="debian", tool_needed=True),
        "ubuntu": Preset("The package sources of apt on this Ubuntu", tool="ubuntu", tool_needed=True),
        "agent-default": Preset(
            "What coding agents commonly need: model APIs and the package tools of this machine",
            _fixed(
                ("sentry.io", "error reports of agents"),
                ("statsig.com", "feature flags of agents"),
                ("nodejs.org", "Node.js releases and headers"),
            ),
            members=("anthropic", "openai", "python", "rust", "go", "java", "node"),
        ),
    }
)


class Expansion(NamedTuple):
    """What the presets of a policy mean here: for each use its entries, and what is odd about it."""

    entries: tuple[tuple[PresetEntry, ...], ...] = ()
    warnings: tuple[Problem, ...] = ()


def nothing_discovered(tool: str) -> Sequence[DiscoveredHost]:
    """Stand in for discovery where no tool may be asked."""
    raise BelljarError(
        f"the hosts of {tool} are not looked up here; name them instead: presets: [{{{tool}: registry.corp.example}}]"
    )


def expand(uses: Sequence[PresetUse], discover: Discover = nothing_discovered) -> Expansion:
    """Return what presets mean on this machine. Raises InvalidPolicyError where a needed tool cannot say."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    expanded = []
    for index, use in enumerate(uses):
        entries: list[PresetEntry] = []
        for name in (use.name, *PRESETS[use.name].members):
            preset = PRESETS[name]
            entries += preset.entries
            try:
                entries += _entries_beyond_the_fixed(preset, use.hosts, discover)
            except BelljarError as error:
                needed = preset.tool_needed and name == use.name
                (problems if needed else warnings).append(Problem(f"presets[{index}]", f"{name}: {error}"))
        expanded.append(tuple(entries))
    if problems:
        raise InvalidPolicyError(problems)
    return Expansion(tuple(expanded), tuple(warnings))


def _entries_beyond_the_fixed(preset: Preset, hosts: Sequence[DomainPattern], discover: Discover) -> list[PresetEntry]:
    if hosts:
        return [
            PresetEntry(DomainPattern(host.name, host.scope, port), "named in the policy")
            for host in hosts
            for port in ((host.port,) if host.port else WEB_PORTS)
        ]
    if preset.tool:
        return [
            PresetEntry(DomainPattern(found.host, Scope.EXACT, found.port), found.why)
            for found in discover(preset.tool)
        ]
    return []

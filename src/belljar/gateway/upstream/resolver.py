"""Names to addresses, for the gateway's own dials: from the host's files, from memory, or from a name server.

A name is looked up once for all of a sandbox who want it at the same time, and what was found is remembered as long as
its TTL says, five minutes at most. A TTL of zero is kept to the letter: only those who were waiting get such an answer.
Names are absolute, there are no search domains. Whether an address may be dialled is not decided here; and how many
names may be looked up at the same time follows from how many connections each sandbox may have.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.sharing import Shared
from belljar.gateway.upstream.hostfiles import Hosts, Server, WatchedFile, nameservers
from belljar.gateway.upstream.nameserver import NoDnsAnswerError, ask, ask_for_records
from belljar.names import Address
from belljar.wire.dns.forwarded import Forwarded
from belljar.wire.dns.response import Answer, NoSuchName, Resolution

T = TypeVar("T")

HOSTS: Final = Path("/etc/hosts")
RESOLV_CONF: Final = Path("/etc/resolv.conf")

PATIENCE: Final = 2.0
"""Seconds before a silent server is given up for the next one."""

ATTEMPTS: Final = 4
"""How often servers are asked for a name at most, so that a lookup takes eight seconds at most."""

MAX_SECONDS: Final = 300
"""How long addresses are remembered, whatever their TTL."""

MIN_SECONDS_FAILED: Final = 1
MAX_SECONDS_FAILED: Final = 30
"""How long it is remembered that a name has no addresses, or that nobody could say."""

MAX_ADDRESSES: Final = 16
"""How many addresses of each family are kept of a name, those that came first: each costs time whenever the name is
dialled or decided, and whoever owns a name may give it a thousand."""

MAX_REMEMBERED: Final = 1024
"""How many names are remembered."""

NO_SERVERS: Final = "no name server is known: give one with --resolver, or in /etc/resolv.conf"


class ResolutionError(OSError):
    """A name could not be turned into addresses; the text says why."""


class NameNotFoundError(ResolutionError):
    """There is no such name, or it has no address."""


class ResolverDownError(ResolutionError):
    """Nobody could say."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The addresses of a name, of both families."""

    addresses: tuple[Address, ...]
    expires: float
    """On the loop's clock: until then, the name resolves to the same."""


@dataclass(frozen=True, slots=True)
class _Failed:
    error: type[ResolutionError]
    reason: str
    expires: float


_Outcome = Resolved | _Failed


class Resolver:
    """Resolves names through the servers that it is given or, without any, through those of the host."""

    def __init__(
        self, loop: Loop, servers: Sequence[Server] = (), *, hosts: Path = HOSTS, resolv_conf: Path = RESOLV_CONF
    ) -> None:
        self._loop = loop
        self._configured = tuple(servers)
        self._hosts = Hosts(hosts)
        self._resolv_conf = WatchedFile(resolv_conf, nameservers)
        self._memory = _Memory(loop)
        self._lookups: Shared[_Outcome] = Shared(loop)
        self._last_helpful: Server | None = None

    async def resolve(self, name: str) -> Resolved:
        """Return the addresses of a canonical name. Raises NameNotFoundError or ResolverDownError."""
        if addresses := self._hosts.addresses(name):
            return Resolved(addresses, expires=self._loop.clock())  # the file may say something else at any time
        outcome = self._memory.recall(name) or await self._lookups.do(name, self._ask_servers)
        if isinstance(outcome, _Failed):
            raise outcome.error(outcome.reason)
        return outcome

    async def find_records(self, name: str, kind: int) -> Forwarded:
        """Return a name's records of one type, as a server tells them now. Raises ResolverDownError."""
        return await self._first_answer(lambda server: ask_for_records(self._loop, server, name, kind, PATIENCE))

    async def _ask_servers(self, name: str) -> _Outcome:
        try:
            answer = await self._first_answer(lambda server: ask(self._loop, server, name, PATIENCE))
        except ResolverDownError as error:
            outcome: _Outcome = _Failed(type(error), str(error), self._loop.clock() + MIN_SECONDS_FAILED)
        else:
            outcome = self._outcome(name, answer)
        self._memory.remember(name, outcome)
        return outcome

    async def _first_answer(self, ask_one: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        """Ask one server after the other; those that were silent get another chance."""
        servers = deque(self._servers())
        troubles = {}
        for _ in range(ATTEMPTS):
            if not servers:
                break
            server = servers.popleft()
            try:
                answer = await ask_one(server)
            except NoDnsAnswerError as trouble:
                troubles[server] = f"{server} {trouble}"
                if trouble.silent:
                    servers.append(server)
            else:
                self._last_helpful = server
                return answer
        raise ResolverDownError("; ".join(troubles.values()) or NO_SERVERS)

    def _servers(self) -> list[Server]:
        """Return the servers in their order, but for the one that has answered last, which comes first."""
        servers = self._configured or self._resolv_conf.read()
        return sorted(servers, key=lambda server: server != self._last_helpful)

    def _outcome(self, name: str, answer: Answer) -> _Outcome:
        now = self._loop.clock()
        if isinstance(answer, Resolution):
            return Resolved(_first_ones(answer.addresses), now + min(answer.ttl, MAX_SECONDS))
        reason = f"{name} does not exist" if isinstance(answer, NoSuchName) else f"{name} has no address"
        seconds = max(MIN_SECONDS_FAILED, min(answer.ttl, MAX_SECONDS_FAILED))
        return _Failed(NameNotFoundError, reason, now + seconds)


def _first_ones(addresses: Sequence[Address]) -> tuple[Address, ...]:
    families = ([address for address in addresses if address.version == version] for version in (4, 6))
    return tuple(address for family in families for address in family[:MAX_ADDRESSES])


class _Memory:
    """What came of the names that were looked up last, until it expires."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._outcomes: OrderedDict[str, _Outcome] = OrderedDict()

    def recall(self, name: str) -> _Outcome | None:
        """Return what is known about a name."""
        outcome = self._outcomes.get(name)
        if outcome is None or outcome.expires <= self._loop.clock():
            return None
        self._outcomes.move_to_end(name)
        return outcome

    def remember(self, name: str, outcome: _Outcome) -> None:
        """Keep what has become known, in place of what has not been asked for the longest."""
        self._outcomes[name] = outcome
        self._outcomes.move_to_end(name)
        if len(self._outcomes) > MAX_REMEMBERED:
            self._outcomes.popitem(last=False)

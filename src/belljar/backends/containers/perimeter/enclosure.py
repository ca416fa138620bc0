"""A container with a network of its own, around which the host's packet filter leaves no way but to the gateway.

It is for runtimes whose containers cannot be sealed, since they have a kernel or a network of their own: gVisor, Kata.
The network is a bridge with room for one container. First comes the network, then the container, then the gateway's
sockets on the bridge's address, then the rules (`belljar.linux.nft.perimeter`), and only then the container starts;
what runs in it first is ours, and a probe of ours has to come out at the gateway's sockets before anything else runs.

Less gets through than in a sealed sandbox: no IPv6, and no UDP but DNS, whatever the policy allows. The explicit
proxies are at the bridge's address, which is that of the resolver.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.engine.rights import is_rootless
from belljar.backends.containers.perimeter.bridges import Bridge
from belljar.backends.containers.perimeter.listeners import PerimeterError, bind, ports, prove
from belljar.backends.interface import MachineError, SpecError
from belljar.gateway.listeners import Listeners
from belljar.linux.asroot import NotRootError
from belljar.linux.nft import perimeter
from belljar.linux.programs import ProgramFailedError, ProgramMissingError
from belljar.sandbox.toolbox.model import Toolbox

_LIBPOD: Final = "/v4.0.0"
_PACKAGES: Final = {"nft": "nftables", "sysctl": "procps"}
_SUDO: Final = """\
Run as root, or let yourself do what it takes:
echo "$USER ALL=(root) NOPASSWD: /usr/sbin/nft, /usr/sbin/sysctl" | sudo tee /etc/sudoers.d/belljar
Or use --isolation sealed, which needs no rights."""
_KERNEL: Final = "It takes Linux 5.9 or newer with nf_tables, its NAT and its socket match, and CAP_NET_ADMIN."


class Perimeter:
    """What keeps the containers of one engine, and of one owner, from every way but that to the gateway."""

    def __init__(self, engine: Engine, labels: Mapping[str, str]) -> None:
        """Have labels that tell the owner's containers and networks from all others."""
        self._engine, self._labels = engine, labels

    def choose(self) -> Bridge:
        """Return where a new container can live, after taking away what is left around dead ones.

        Raises SpecError, MachineError.
        """
        if is_rootless(self._engine):
            raise SpecError(
                f"the networks of a rootless {self._engine.kind} are out of the reach of this machine's packet filter; "
                "use --isolation sealed, or an engine that runs as root"
            )
        self._sweep()
        return Bridge.choose()

    def build(self, name: str, site: Bridge, configuration: dict[str, Any]) -> None:
        """Make a network for a container that is to be made as configured, and have it be on that."""
        site.join(name, configuration)
        labels = {**configuration["Labels"], **site.labels()}
        if self._engine.kind == "docker":
            self._engine.post("/networks/create", site.docker_network(name, labels))
        else:
            replace(self._engine, api=_LIBPOD).post("/libpod/networks/create", site.podman_network(name, labels))

    def start(self, name: str, container: str, site: Bridge, toolbox: Toolbox) -> Listeners:
        """Put rules around a container, start it, try the rules with our programs in it, and return its doors.

        Raises MachineError.
        """
        doors = self._enclose(container, site)
        try:
            self._engine.post(f"/containers/{name}/start")
            self._finish(site)
            self._prove(name, site, doors, toolbox)
        except BaseException:
            doors.close()
            raise
        return doors

    def enclose_again(self, name: str, container: str) -> Listeners:
        """Put rules around a container that runs in place of those it has; return new doors. Raises MachineError."""
        site = Bridge.read(self._engine.get(f"/networks/{name}")["Labels"])
        doors = self._enclose(container, site)
        try:
            self._finish(site)
        except BaseException:
            doors.close()
            raise
        return doors

    def remove(self, name: str) -> None:
        """Take away the network and the rules of a container that is gone, if it had any. Raises MachineError."""
        try:
            labels = self._engine.get(f"/networks/{name}")["Labels"] or {}
        except EngineError as error:
            if error.status == 404:
                return
            raise
        if self._labels.items() <= labels.items():
            with _as_root():
                for around in perimeter.installed():
                    if around.bridge == Bridge.read(labels).bridge:
                        _take_away(around)
            self._engine.delete(f"/networks/{name}")

    def labelled(self) -> list[dict[str, str]]:
        """Return the labels of every network of the owner's."""
        networks = self._engine.get("/networks", filters={"label": self._filter()})
        return [network["Labels"] for network in networks]

    def _enclose(self, container: str, site: Bridge) -> Listeners:
        doors = bind(site.gateway)
        around = perimeter.Around(perimeter.chain_of(container), site.bridge, site.gateway, self._mark())
        try:
            with _as_root():
                perimeter.apply(perimeter.ruleset(around, site.address, perimeter.PerimeterPorts(**ports(doors))))
        except BaseException:
            doors.close()
            raise
        return doors

    def _finish(self, site: Bridge) -> None:
        """Do what can be done only when the container runs, and its bridge is there."""
        if not site.is_here():
            raise MachineError(
                f"the networks of {self._engine.kind} are not on this machine, or not in this network namespace, so no "
                "rule of ours could keep a container in; run belljar where the engine runs"
            )
        with _as_root():
            perimeter.forbid_forwarding(site.bridge)

    def _prove(self, name: str, site: Bridge, doors: Listeners, toolbox: Toolbox) -> None:
        try:
            with prove(site, doors) as words:
                asked = {"Cmd": toolbox.inside(toolbox.python, *words)}
                made = self._engine.post(f"/containers/{name}/exec", asked)["Id"]
                self._engine.post(f"/exec/{made}/start", {"Detach": True})
        except PerimeterError as error:
            raise MachineError(str(error)) from error

    def _sweep(self) -> None:
        """Take away rules of the owner's around containers that are no more.

        Rules are looked at before containers: a container is there before its rules are.
        """
        with _as_root():
            around = [found for found in perimeter.installed() if found.owner == self._mark()]
            if around:
                there = self._engine.get("/containers/json", all=True, filters={"label": self._filter()})
                chains = {perimeter.chain_of(container["Id"]) for container in there}
                for found in around:
                    if found.chain not in chains:
                        _take_away(found)

    def _filter(self) -> list[str]:
        return [f"{label}={value}" for label, value in self._labels.items()]

    def _mark(self) -> str:
        """Say whose rules are."""
        return " ".join((self._engine.kind, *self._labels.values()))


def _take_away(found: perimeter.Around) -> None:
    """Take rules away, which somebody else may be doing at this moment."""
    try:
        perimeter.remove(found)
    except ProgramFailedError:
        if found in perimeter.installed():
            raise


@contextmanager
def _as_root() -> Iterator[None]:
    """Say what mends what keeps us from changing this machine's packet filter."""
    try:
        yield
    except NotRootError as error:
        raise MachineError(f"--isolation perimeter needs this machine's packet filter: {error}.\n{_SUDO}") from error
    except ProgramMissingError as error:
        mend = f"Mend it: {error.remedy(_PACKAGES[error.program])}"
        raise MachineError(f"--isolation perimeter needs this machine's packet filter: {error}\n{mend}") from error
    except ProgramFailedError as error:
        raise MachineError(f"rules around a container could not be changed: {error}\n{_KERNEL}") from error

"""Nobody gets to send anything from a place that is joined to a network of somebody else's."""

import pytest

from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import run
from belljar.testing.internet.ground import WIRE, WorldError, check_that_it_leads_nowhere, join
from belljar.verify.probes import places


def link(namespace: NetworkNamespace, name: str) -> None:
    """Have an interface be up that could lead anywhere."""
    text = f"link add name {name} type veth peer name other\nlink set {name} up\n"
    namespace.run(lambda: run("ip", "-batch", "-", text=text))


@pytest.fixture
def namespaces(privileged):
    with NetworkNamespace.create() as host, NetworkNamespace.create() as internet:
        yield host, internet


@pytest.mark.parametrize("which", [0, 1])
def test_a_world_with_another_way_out_is_none(namespaces, which):
    host, internet = namespaces
    link(namespaces[which], "stranger")
    with pytest.raises(WorldError, match="joined to another one: stranger"):
        join(host, internet, places.HOST, places.ROUTER)


def test_one_with_nothing_but_the_wire_is_one(namespaces):
    host, internet = namespaces
    join(host, internet, places.HOST, places.ROUTER)


def test_a_sandbox_has_not_even_a_wire(namespaces):
    host, _ = namespaces
    check_that_it_leads_nowhere(host, known={"lo"})
    link(host, WIRE)
    check_that_it_leads_nowhere(host)
    with pytest.raises(WorldError, match=WIRE):
        check_that_it_leads_nowhere(host, known={"lo"})

"""What the supervisor and its workers are made of."""

import os
import socket
from ipaddress import ip_address, ip_network

import pytest

from belljar.gateway.audit.metrics import FLOWS_CUT, METRICS, Metrics, merge
from belljar.gateway.dns.virtual import IPV4_POOL, TTL, NoAddressLeftError, VirtualNames
from belljar.gateway.settings import DEFAULTS, Exceptions, Settings
from belljar.gateway.upstream.hostfiles import parse_server
from belljar.gateway.upstream.proxyurl import UpstreamProxy
from belljar.gateway.workers.channel import Channel
from belljar.gateway.workers.data import (
    flow_from_data,
    flow_to_data,
    settings_from_data,
    settings_to_data,
)
from belljar.gateway.workers.namememory import NameMemory
from belljar.policy import Flow, question, to_name
from tests.gateway.driving import Driver, nothing_left_behind
from tests.gateway.test_metrics import read_exposition, sample

MANY = {"text": "x" * 3_000_000}


@pytest.fixture
def driver():
    driver = Driver()
    yield driver
    driver.loop.close()


@pytest.fixture
def channels(driver):
    with nothing_left_behind(driver):
        ends = [Channel(driver.loop, end) for end in socket.socketpair()]
        yield ends
        for end in ends:
            end.close()


def test_messages_of_any_size_arrive_in_order_with_their_descriptors(driver, channels):
    left, right = channels
    readers, writers = zip(*(os.pipe() for _ in range(3)), strict=True)

    left.send({"n": 1} | MANY, [writers[0]])
    left.send({"n": 2})
    left.send({"n": 3}, [writers[1], writers[2]])
    left.send({"n": 4} | MANY)
    messages = [driver.run(right.receive()) for _ in range(4)]
    assert [message.data["n"] for message in messages] == [1, 2, 3, 4]
    assert messages[0].data["text"] == messages[3].data["text"] == MANY["text"]
    assert [len(message.descriptors) for message in messages] == [1, 0, 2, 0]
    for number, writer in enumerate([*messages[0].descriptors, *messages[2].descriptors]):
        assert not os.get_inheritable(writer)
        os.write(writer, bytes([number]))
    assert [os.read(reader, 1) for reader in readers] == [b"\0", b"\1", b"\2"]
    for descriptor in (*readers, *writers, *messages[0].descriptors, *messages[2].descriptors):
        os.close(descriptor)


def test_the_end_of_a_conversation_is_seen_by_whoever_listens(driver):
    left, right = (Channel(driver.loop, end) for end in socket.socketpair())
    listening = driver.start(right.receive())
    driver.settle()
    assert not listening.done
    left.close()
    with pytest.raises(EOFError):
        driver.result(listening)
    right.send({})  # which reaches nobody, and harms nobody
    driver.settle()
    with pytest.raises(EOFError):
        driver.run(right.receive())
    right.close()


def test_descriptors_that_nobody_took_are_closed(driver):
    reader, writer = os.pipe()
    left, right = (Channel(driver.loop, end) for end in socket.socketpair())
    left.send(MANY, [writer])
    listening = driver.start(right.receive())
    driver.settle()
    assert not listening.done
    for channel in (left, right):
        channel.close()
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.parametrize(
    "flow",
    [
        question("plain.test"),
        to_name("plain.test", 443, addresses=(ip_address("2001:db8::1"),))._replace(claimed="plain.test"),
    ],
)
def test_a_flow_is_the_same_on_the_other_side(flow: Flow):
    assert flow_from_data(flow_to_data(flow)) == flow


@pytest.mark.parametrize("host", ["proxy.test", ip_address("192.0.2.5"), ip_address("2001:db8::5")])
def test_settings_are_the_same_on_the_other_side(host):
    settings = Settings(
        resolvers=(parse_server("192.0.2.53"), parse_server("[2001:db8::53]:5353")),
        proxy=UpstreamProxy(host, 3128, "Basic c2VjcmV0"),
        exceptions=Exceptions(everything=True, domains=("corp.test",), ranges=(ip_network("10.0.0.0/8"),)),
        proxy_resolves=True,
    )
    assert all(chosen != default for chosen, default in zip(settings, DEFAULTS, strict=True))
    assert settings_from_data(settings_to_data(settings)) == settings
    assert settings_from_data(settings_to_data(DEFAULTS)) == DEFAULTS


def test_names_keep_their_addresses_from_one_worker_to_the_next():
    memory = NameMemory.create()
    longest = ".".join(["x" * 63] * 3 + ["x" * 61])
    before = VirtualNames(capacity=3, remember=memory.write)
    given = {name: before.lookup(name, now=0.0) for name in ("a.test", longest, "c.test")}
    after = VirtualNames(capacity=3, remember=memory.write)
    after.restore(memory.read(), now=1000.0)
    assert {name: after.lookup(name, now=1000.0) for name in reversed(given)} == given
    assert [after.name_of(address) for pair in given.values() for address in pair] == [
        name for name in given for _ in range(2)
    ]
    assert after.name_of(IPV4_POOL[999]) is None
    memory.close()


def test_a_restored_address_goes_to_another_name_only_when_every_answer_has_expired():
    memory = NameMemory.create()
    VirtualNames(capacity=1, remember=memory.write).lookup("a.test", now=0.0)
    names = VirtualNames(capacity=1, remember=memory.write)
    names.restore(memory.read(), now=1000.0)
    with pytest.raises(NoAddressLeftError):
        names.lookup("b.test", now=1000.0 + TTL)
    names.lookup("b.test", now=2000.0)
    assert memory.read() == ["b.test"]
    memory.close()


def test_expositions_are_merged_to_one():
    several = [Metrics(), Metrics(), Metrics()]
    for number, metrics in enumerate(several[:2], 1):
        metrics.of(f"s{number}").counts(FLOWS_CUT)[()] += number
    merged = merge(metrics.render() for metrics in several)
    assert merged.count("# HELP ") == merged.count("# TYPE ") == len(METRICS)
    assert len(read_exposition(merged)) == 2
    together = Metrics()
    for number in (1, 2):
        together.of(f"s{number}").counts(FLOWS_CUT)[()] += number
    assert merged == together.render()
    assert sample(together, "belljar_flows_cut_total", sandbox="s2") == 2

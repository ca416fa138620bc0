import resource
import secrets
import socket
from ipaddress import ip_address

import dns.rcode
import pytest

from belljar.gateway.io.loop import Cancelled
from belljar.gateway.upstream import resolver as module
from belljar.gateway.upstream.hostfiles import Server
from belljar.gateway.upstream.nameserver import NoDnsAnswerError
from belljar.gateway.upstream.resolver import MAX_ADDRESSES, NameNotFoundError, Resolved, Resolver, ResolverDownError
from belljar.wire.dns.framing import frame
from belljar.wire.dns.response import Resolution
from tests.gateway.driving import Driver, nothing_left_behind
from tests.gateway.nameserver import Asked, NameServer, Script, Zone, answer, silence, truncated

NAME = "www.example.org"
BOTH = Zone({NAME: ["60 A 192.0.2.7", "60 AAAA 2001:db8::7"]})
FOUND = (ip_address("192.0.2.7"), ip_address("2001:db8::7"))
V4_ONLY = Zone({NAME: ["60 A 192.0.2.7"]})
V6_ONLY = Zone({NAME: ["60 AAAA 2001:db8::7"]})
FORGED = "60 A 192.0.2.66"


@pytest.fixture
def driver():
    driver = Driver()
    yield driver
    driver.loop.close()


@pytest.fixture
def server(driver):
    server = NameServer(driver.loop)
    server.script = BOTH
    yield server
    server.close()


@pytest.fixture
def second(driver):
    server = NameServer(driver.loop, "127.0.0.2")
    server.script = BOTH
    yield server
    server.close()


@pytest.fixture
def files(tmp_path):
    return {"hosts": tmp_path / "hosts", "resolv_conf": tmp_path / "resolv.conf"}


@pytest.fixture
def resolver(driver, server, files):
    """A resolver with one server, whose lookups leave nothing behind."""
    with nothing_left_behind(driver):
        yield Resolver(driver.loop, [server.server], **files)


@pytest.fixture
def resolver_of_two(driver, server, second, files):
    with nothing_left_behind(driver):
        yield Resolver(driver.loop, [server.server, second.server], **files)


def by_kind(*, a: Script, aaaa: Script) -> Script:
    """Follow one script for A, another for AAAA."""
    return lambda asked: (a if asked.kind == "A" else aaaa)(asked)


def failing(rcode: dns.rcode.Rcode) -> Script:
    return lambda asked: [answer(asked, rcode=rcode)]


# One question.


def test_both_families_are_asked_for_and_found(driver, server, resolver):
    assert driver.run(resolver.resolve(NAME)) == Resolved(FOUND, expires=1060.0)
    assert server.asked("udp") == ["A", "AAAA"]
    assert server.asked("tcp") == []


def test_of_a_thousand_addresses_the_first_few_of_each_family_are_kept(driver, server, resolver):
    four = [f"192.0.{number >> 8}.{number & 255}" for number in range(500)]
    six = [f"2001:db8::{number + 1:x}" for number in range(500)]
    server.script = lambda asked: [truncated(asked)]
    server.tcp_script = lambda asked: [
        frame(answer(asked, *(f"60 {asked.kind} {address}" for address in (four if asked.kind == "A" else six))))
    ]
    found = driver.run(resolver.resolve(NAME)).addresses
    assert [str(address) for address in found] == four[:MAX_ADDRESSES] + six[:MAX_ADDRESSES]


def test_an_ipv6_server_is_asked_just_so(driver, files):
    try:
        server = NameServer(driver.loop, "::1")
    except OSError:
        pytest.skip("this machine has no ::1")
    server.script = BOTH
    assert driver.run(Resolver(driver.loop, [server.server], **files).resolve(NAME)).addresses == FOUND
    server.close()


def test_nobody_can_foresee_port_identifier_and_case(driver, server, resolver):
    server.script = Zone({NAME: ["0 A 192.0.2.7"]})
    for _ in range(10):
        driver.run(resolver.resolve(NAME))
    assert len({asked.peer for asked in server.seen}) > 10
    assert len({asked.query.id for asked in server.seen}) > 10
    assert len({asked.name for asked in server.seen}) > 10
    assert {asked.name.lower() for asked in server.seen} == {NAME}


def test_a_wrong_identifier_is_ignored_and_waiting_goes_on(driver, server, resolver):
    def forge_first(asked: Asked) -> list[bytes]:
        forged = answer(asked, FORGED)
        return [bytes([forged[0] ^ 1]) + forged[1:], b"", b"?", *BOTH(asked)]

    server.script = forge_first
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    assert server.asked("tcp") == []


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.3"], ids=["another port", "another address"])
def test_a_wrong_source_is_not_even_heard(driver, server, resolver, address):
    forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    forger.bind((address, 0))

    def forge_first(asked: Asked) -> list[bytes]:
        forger.sendto(answer(asked, FORGED), asked.peer)
        return BOTH(asked)

    server.script = forge_first
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    forger.close()


def test_a_forger_with_many_guesses_is_outdone_over_tcp(driver, server, resolver):
    def guess(asked: Asked) -> list[bytes]:
        if asked.transport == "tcp":
            return BOTH(asked)
        forged = answer(asked, FORGED)
        wrong = (asked.query.id + guess for guess in range(1, 200))
        return [(ident & 0xFFFF).to_bytes(2, "big") + forged[2:] for ident in wrong]

    server.script = guess
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    assert server.asked("tcp") == ["A", "AAAA"]


def other_name(asked: Asked) -> bytes:
    message = answer(asked, FORGED)
    return message.replace(b"\7", b"\6x", 1)


def lower_case(asked: Asked) -> bytes:
    message, *_ = V4_ONLY(asked)
    end = 12 + len(NAME) + 2
    return message[:12] + message[12:end].lower() + message[end:]


def pointer_loop(asked: Asked) -> bytes:
    message = answer(asked, FORGED)
    record = 12 + len(NAME) + 2 + 4
    return message[:record] + (0xC000 | record).to_bytes(2, "big") + message[record + 2 :]


UNUSABLE = {
    "truncated": truncated,
    "another name": other_name,
    "a pointer loop": pointer_loop,
    "cut off": lambda asked: answer(asked, FORGED)[:-1],
    "a header alone": lambda asked: answer(asked)[:12],
    "an echo of the query": lambda asked: asked.query.to_wire(),
    "far too large": lambda asked: answer(asked, FORGED) + bytes(8000),
}


@pytest.mark.parametrize("unusable", UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_unusable_over_udp_is_asked_over_tcp(driver, server, resolver, unusable):
    server.script = lambda asked: [unusable(asked)] if asked.transport == "udp" else BOTH(asked)
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    assert server.asked("tcp") == ["A", "AAAA"]


def test_a_server_that_does_not_keep_the_case_is_believed_over_tcp_only(driver, server, resolver, monkeypatch):
    monkeypatch.setattr(secrets, "randbits", lambda bits: 2**bits - 1)
    server.script = lambda asked: [lower_case(asked)]
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND[:1]
    assert server.asked("tcp") == ["A", "AAAA"]


def test_over_tcp_the_answer_may_be_large_and_come_byte_by_byte(driver, server, resolver):
    records = [f"60 A 192.0.2.{index}" for index in range(250)]
    server.script = lambda asked: [truncated(asked)]
    server.tcp_script = lambda asked: [bytes([byte]) for byte in frame(answer(asked, *records))]
    found = driver.run(resolver.resolve(NAME)).addresses
    assert found == tuple(ip_address(f"192.0.2.{index}") for index in range(MAX_ADDRESSES))


BROKEN_STREAMS = {
    "ends at once": (lambda asked: [], "ends within the header"),
    "ends early": (lambda asked: [frame(answer(asked, FORGED))[:-1]], "ends within"),
    "is empty": (lambda asked: [b"\0\0"], "ends within the header"),
    "has another identifier": (lambda asked: [frame(b"\0\0" + answer(asked, FORGED)[2:])], "does not repeat"),
    "is truncated": (lambda asked: [frame(truncated(asked))], "is truncated"),
    "has a pointer loop": (lambda asked: [frame(pointer_loop(asked))], "pointer"),
}


@pytest.mark.parametrize(("script", "reason"), BROKEN_STREAMS.values(), ids=BROKEN_STREAMS)
def test_what_is_unusable_over_tcp_is_no_answer(driver, server, resolver, script, reason):
    server.script = lambda asked: [truncated(asked)]
    server.tcp_script = script
    with pytest.raises(ResolverDownError, match=f"{server.server.port} sends an answer that .*{reason}"):
        driver.run(resolver.resolve(NAME))


def test_a_server_without_tcp_is_no_help_if_the_answer_is_truncated(driver, server, resolver):
    server.script = lambda asked: [truncated(asked)]
    server.stop_tcp()
    with pytest.raises(ResolverDownError, match="cannot be reached: Connection refused"):
        driver.run(resolver.resolve(NAME))


# Two families, one answer.

ONE_FAMILY = {
    "no IPv6": (V4_ONLY, FOUND[:1]),
    "no IPv4": (V6_ONLY, FOUND[1:]),
    "IPv6 fails": (by_kind(a=BOTH, aaaa=failing(dns.rcode.SERVFAIL)), FOUND[:1]),
    "IPv4 fails": (by_kind(a=failing(dns.rcode.SERVFAIL), aaaa=BOTH), FOUND[1:]),
    "IPv4 is refused": (by_kind(a=failing(dns.rcode.REFUSED), aaaa=BOTH), FOUND[1:]),
}


@pytest.mark.parametrize(("script", "found"), ONE_FAMILY.values(), ids=ONE_FAMILY)
def test_one_family_will_do(driver, server, resolver, script, found):
    server.script = script
    assert driver.run(resolver.resolve(NAME)).addresses == found
    assert server.asked() == ["A", "AAAA"]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param(by_kind(a=BOTH, aaaa=silence), FOUND[:1], id="IPv6 is silent"),
        pytest.param(by_kind(a=silence, aaaa=BOTH), FOUND[1:], id="IPv4 is silent"),
    ],
)
def test_silence_about_one_family_delays_the_other_but_does_not_lose_it(driver, server, resolver, script, found):
    server.script = script
    task = driver.start(resolver.resolve(NAME))
    driver.until(lambda: len(server.seen) == 2)
    driver.advance(1.9)
    assert not task.done
    driver.advance(0.2)
    assert driver.result(task).addresses == found


def test_the_shorter_ttl_counts(driver, server, resolver):
    server.script = Zone({NAME: ["60 A 192.0.2.7", "20 AAAA 2001:db8::7"]})
    assert driver.run(resolver.resolve(NAME)).expires == 1020.0


ABSENT = {
    "no such name": (Zone({}), f"{NAME} does not exist"),
    "no address": (Zone({NAME: ["60 TXT x"]}), f"{NAME} has no address"),
    "no such name, and no word about IPv6": (
        by_kind(a=Zone({}), aaaa=failing(dns.rcode.SERVFAIL)),
        f"{NAME} does not exist",
    ),
}


@pytest.mark.parametrize(("script", "reason"), ABSENT.values(), ids=ABSENT)
def test_an_absent_name_is_told_from_a_failure(driver, server, resolver, script, reason):
    server.script = script
    with pytest.raises(NameNotFoundError, match=f"^{reason}$"):
        driver.run(resolver.resolve(NAME))


# Several servers.


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(failing(dns.rcode.SERVFAIL), id="SERVFAIL"),
        pytest.param(failing(dns.rcode.REFUSED), id="REFUSED"),
        pytest.param(failing(dns.rcode.BADVERS), id="BADVERS"),
        pytest.param(by_kind(a=failing(dns.rcode.SERVFAIL), aaaa=V4_ONLY), id="half an answer"),
    ],
)
def test_after_a_failure_the_next_server_is_asked_at_once(driver, server, second, resolver_of_two, script):
    server.script = script
    assert driver.run(resolver_of_two.resolve(NAME)).addresses == FOUND
    assert len(server.seen) == len(second.seen) == 2


def test_if_nothing_listens_the_next_server_is_asked_at_once(driver, second, files):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.4", 0))
        port = gone.getsockname()[1]
    resolver = Resolver(driver.loop, [Server(ip_address("127.0.0.4"), port), second.server], **files)
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


def test_after_two_seconds_of_silence_the_next_server_is_asked(driver, server, second, resolver_of_two):
    server.script = silence
    task = driver.start(resolver_of_two.resolve(NAME))
    driver.until(lambda: len(server.seen) == 2)
    driver.advance(1.9)
    assert second.seen == []
    driver.advance(0.2)
    assert driver.result(task).addresses == FOUND


def test_a_late_answer_is_not_heard_any_more(driver, server, second, resolver_of_two):
    server.script = second.script = silence
    task = driver.start(resolver_of_two.resolve(NAME))
    driver.until(lambda: len(server.seen) == 2)
    driver.advance(2.1)
    driver.until(lambda: len(second.seen) == 2)
    for asked in server.seen:
        server.udp.sendto(answer(asked, FORGED), asked.peer)
    for asked in second.seen:
        second.udp.sendto(*BOTH(asked), asked.peer)
    assert driver.result(task).addresses == FOUND


def test_silence_everywhere_ends_after_eight_seconds(driver, server, second, resolver_of_two):
    server.script = second.script = silence
    task = driver.start(resolver_of_two.resolve(NAME))
    for sizes in [(2, 0), (2, 2), (4, 2), (4, 4)]:
        driver.until(lambda sizes=sizes: (len(server.seen), len(second.seen)) == sizes)
        assert not task.done
        driver.advance(2.0)
    with pytest.raises(ResolverDownError) as down:
        driver.result(task)
    assert str(down.value) == f"{server.server} does not answer; {second.server} does not answer"
    assert driver.clock.now == 1008.0


def test_a_silent_server_is_asked_again_with_everything_fresh(driver, server, resolver):
    server.script = lambda asked: silence(asked) if len(server.seen) <= 2 else BOTH(asked)
    task = driver.start(resolver.resolve(NAME))
    driver.until(lambda: len(server.seen) == 2)
    driver.advance(2.0)
    assert driver.result(task).addresses == FOUND
    assert len({(asked.peer, asked.query.id, asked.name) for asked in server.seen}) == 4


def test_a_server_that_fails_is_not_asked_again(driver, server, resolver):
    server.script = failing(dns.rcode.SERVFAIL)
    with pytest.raises(ResolverDownError, match=f"^127.0.0.1:{server.server.port} answers SERVFAIL$"):
        driver.run(resolver.resolve(NAME))
    assert len(server.seen) == 2


def test_an_unknown_error_is_told_by_its_number(driver, server, resolver):
    server.script = failing(dns.rcode.BADCOOKIE)
    with pytest.raises(ResolverDownError, match="answers with error 23"):
        driver.run(resolver.resolve(NAME))


def test_the_server_that_has_answered_last_is_asked_first(driver, server, second, resolver_of_two):
    server.script = failing(dns.rcode.SERVFAIL)
    second.script = Zone({"a.example": ["60 A 192.0.2.1"], "b.example": ["60 A 192.0.2.2"]})
    driver.run(resolver_of_two.resolve("a.example"))
    assert len(server.seen) == 2
    driver.run(resolver_of_two.resolve("b.example"))
    assert len(server.seen) == 2


# Memory.


def test_what_was_found_is_remembered_until_it_expires(driver, server, resolver):
    first = driver.run(resolver.resolve(NAME))
    driver.advance(59.9)
    assert driver.run(resolver.resolve(NAME)) == first
    assert len(server.seen) == 2
    driver.advance(0.1)
    assert driver.run(resolver.resolve(NAME)).expires == 1120.0
    assert len(server.seen) == 4


@pytest.mark.parametrize(("ttl", "seconds"), [(1, 1), (299, 299), (300, 300), (301, 300), (2**31 - 1, 300)], ids=str)
def test_nothing_is_remembered_for_more_than_five_minutes(driver, server, resolver, ttl, seconds):
    server.script = Zone({NAME: [f"{ttl} A 192.0.2.7"]})
    assert driver.run(resolver.resolve(NAME)).expires == 1000.0 + seconds


def test_a_name_that_flips_with_a_ttl_of_zero_is_asked_for_each_time(driver, server, resolver):
    server.script = Zone({NAME: ["0 A 192.0.2.7"]})
    assert driver.run(resolver.resolve(NAME)) == Resolved(FOUND[:1], expires=1000.0)
    server.script = Zone({NAME: ["0 A 127.0.0.1"]})
    assert driver.run(resolver.resolve(NAME)).addresses == (ip_address("127.0.0.1"),)


def test_those_who_wait_share_an_answer_with_a_ttl_of_zero(driver, server, resolver):
    server.script = Zone({NAME: ["0 A 192.0.2.7"]})
    tasks = [driver.start(resolver.resolve(NAME)) for _ in range(5)]
    assert {driver.result(task).addresses for task in tasks} == {FOUND[:1]}
    assert len(server.seen) == 2


@pytest.mark.parametrize(("ttl", "seconds"), [(0, 1), (1, 1), (20, 20), (3600, 30)])
def test_an_absence_is_remembered_for_a_short_time(driver, server, resolver, ttl, seconds):
    server.script = Zone({}, seconds_absent=ttl)
    for _ in range(3):
        with pytest.raises(NameNotFoundError):
            driver.run(resolver.resolve(NAME))
    assert len(server.seen) == 2
    server.script = BOTH
    driver.advance(seconds - 0.1)
    with pytest.raises(NameNotFoundError):
        driver.run(resolver.resolve(NAME))
    driver.advance(0.1)
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


def test_a_failure_is_remembered_for_a_second(driver, server, resolver):
    server.script = failing(dns.rcode.SERVFAIL)
    for _ in range(3):
        with pytest.raises(ResolverDownError):
            driver.run(resolver.resolve(NAME))
    assert len(server.seen) == 2
    server.script = BOTH
    driver.advance(1.0)
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


def test_memory_is_bounded_and_keeps_what_was_used_last(driver, server, resolver, monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    server.script = Zone({f"{letter}.example": ["60 A 192.0.2.7"] for letter in "abc"})
    for name in ["a.example", "b.example", "a.example", "c.example"]:
        driver.run(resolver.resolve(name))
    assert len(server.seen) == 6
    driver.run(resolver.resolve("a.example"))
    driver.run(resolver.resolve("c.example"))
    assert len(server.seen) == 6
    driver.run(resolver.resolve("b.example"))
    assert len(server.seen) == 8


# Callers who wait together, and callers who leave.


def test_callers_of_one_name_share_a_lookup(driver, server, resolver):
    tasks = [driver.start(resolver.resolve(NAME)) for _ in range(20)]
    assert {driver.result(task).addresses for task in tasks} == {FOUND}
    assert len(server.seen) == 2


def test_a_caller_that_is_cancelled_does_not_disturb_the_others(driver, server, resolver):
    server.script = silence
    first, other = (driver.start(resolver.resolve(NAME)) for _ in range(2))
    driver.until(lambda: len(server.seen) == 2)
    first.cancel()
    for asked in server.seen:
        server.udp.sendto(*BOTH(asked), asked.peer)
    assert driver.result(other).addresses == FOUND
    with pytest.raises(Cancelled):
        driver.result(first)


def test_if_every_caller_leaves_nothing_is_left_of_the_lookup(driver, server, resolver):
    server.script = silence
    tasks = [driver.start(resolver.resolve(NAME)) for _ in range(3)]
    driver.until(lambda: len(server.seen) == 2)
    for task in tasks:
        task.cancel()
    driver.settle()
    assert all(task.done for task in tasks)
    assert len(resolver._lookups) == 0


def test_whoever_comes_right_after_the_last_has_left_gets_a_lookup_of_its_own(driver, server, resolver):
    server.script = silence
    leaver = driver.start(resolver.resolve(NAME))
    driver.until(lambda: len(server.seen) == 2)
    leaver.cancel()
    server.script = BOTH
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    assert leaver.done


def test_a_callers_timeout_ends_the_lookup_while_it_waits_for_tcp(driver, server, resolver):
    async def impatient() -> None:
        with driver.loop.timeout(1.0):
            await resolver.resolve(NAME)

    server.script = lambda asked: [truncated(asked)]
    server.tcp_script = lambda asked: [b"\0"]
    server.hangs_up = False
    task = driver.start(impatient())
    driver.until(lambda: server.asked("tcp"))
    driver.advance(1.0)
    with pytest.raises(TimeoutError):
        driver.result(task)


def test_a_stream_that_never_goes_on_is_given_up_like_silence(driver, server, second, resolver_of_two):
    server.script = lambda asked: [truncated(asked)]
    server.tcp_script = lambda asked: [b"\0"]
    server.hangs_up = False
    task = driver.start(resolver_of_two.resolve(NAME))
    driver.until(lambda: server.asked("tcp"))
    driver.advance(2.0)
    assert driver.result(task).addresses == FOUND


@pytest.mark.parametrize("spare", [0, 1], ids=["for no question", "for one of two questions"])
def test_without_descriptors_it_fails_and_goes_on_later(driver, server, resolver, spare):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        lowest = probe.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
    try:
        with pytest.raises(ResolverDownError, match="cannot be reached: Too many open files"):
            driver.run(resolver.resolve(NAME))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    driver.advance(1.0)
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


# The host's files.


def test_the_hosts_file_comes_first_and_no_server_is_asked(driver, server, resolver, files):
    files["hosts"].write_text(f"10.1.1.1 {NAME} alias.example\n2001:db8::1 {NAME}\n")
    resolved = driver.run(resolver.resolve(NAME))
    assert resolved == Resolved((ip_address("10.1.1.1"), ip_address("2001:db8::1")), expires=1000.0)
    assert server.seen == []


def test_the_hosts_file_is_read_again_when_it_changes(driver, server, resolver, files):
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND
    files["hosts"].write_text(f"10.1.1.1 {NAME}\n")
    assert driver.run(resolver.resolve(NAME)).addresses == (ip_address("10.1.1.1"),)
    files["hosts"].unlink()
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


@pytest.fixture
def asked_servers(monkeypatch):
    """Stand in for all name servers; only the one at 192.0.2.53 answers."""
    asked = []

    async def ask(loop, server, name, seconds):
        asked.append(str(server))
        if server.address != ip_address("192.0.2.53"):
            raise NoDnsAnswerError("is not the right one")
        return Resolution(FOUND, 0)

    monkeypatch.setattr(module, "ask", ask)
    return asked


def test_the_servers_of_the_host_are_used_in_their_order(driver, files, asked_servers):
    files["resolv_conf"].write_text("search corp.example\nnameserver 192.0.2.1\nnameserver 192.0.2.53\n")
    resolver = Resolver(driver.loop, **files)
    assert driver.run(resolver.resolve("db")).addresses == FOUND
    assert asked_servers == ["192.0.2.1:53", "192.0.2.53:53"]


def test_the_servers_of_the_host_are_read_again_when_they_change(driver, files, asked_servers):
    resolver = Resolver(driver.loop, **files)
    files["resolv_conf"].write_text("nameserver 192.0.2.1\n")
    with pytest.raises(ResolverDownError, match=r"^192.0.2.1:53 is not the right one$"):
        driver.run(resolver.resolve(NAME))
    driver.advance(1.0)
    files["resolv_conf"].write_text("nameserver 192.0.2.53\n")
    assert driver.run(resolver.resolve(NAME)).addresses == FOUND


def test_configured_servers_replace_those_of_the_host(driver, files, asked_servers):
    files["resolv_conf"].write_text("nameserver 192.0.2.1\n")
    driver.run(Resolver(driver.loop, [Server(ip_address("192.0.2.53"), 5353)], **files).resolve(NAME))
    assert asked_servers == ["192.0.2.53:5353"]


def test_without_any_server_the_error_names_the_remedy(driver, files):
    with pytest.raises(ResolverDownError, match="--resolver"):
        driver.run(Resolver(driver.loop, **files).resolve(NAME))

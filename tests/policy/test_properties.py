"""What holds for every policy and every flow."""

from ipaddress import IPv4Address
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from belljar.policy import (
    Action,
    Flow,
    Mode,
    Policy,
    Protocol,
    Reason,
    Syntax,
    Verdict,
    compile_policy,
    explain,
    question,
    read_policy,
    render,
    to_name,
    without_policy,
)
from belljar.policy.language.render import flatten
from belljar.policy.model import DomainPattern, Egress
from tests.policy.reference import address_class, reference
from tests.policy.strategies import (
    ADDRESSES,
    NAMES,
    PORTS,
    a_named_flow,
    address_flows,
    an_address_flow,
    cidrs,
    flows,
    host_address_sets,
    named_flows,
    often,
    patterns,
    policies,
    port_ranges,
    preset_uses,
    rules,
    seeded,
    unhurried,
)
from tests.policy.test_addresses import EMBEDDINGS


def verdict(policy: Policy, flow: Flow) -> Verdict:
    return compile_policy(policy).decide(flow)


def with_egress(policy: Policy, addition: tuple[str, object], at: int) -> Policy:
    key, entry = addition
    entries = list(getattr(policy.egress, key))
    entries.insert(at, entry)
    return policy._replace(egress=policy.egress._replace(**{key: tuple(entries)}))


def some_flows(random: Random, size: int) -> list[Flow]:
    """Flows of all kinds; a few lead to the host itself, as its kernel says."""
    made = [make(random) for make in (a_named_flow, an_address_flow) for _ in range(1 + 5 * size)]
    return [flow._replace(own=flow.addresses[:1]) if random.random() < 0.1 else flow for flow in made]


DENIED_BY_LISTS = ("denied_domain", "denied_cidr", "denied_port")


@often
@given(policies(), seeded(some_flows), host_address_sets())
def test_decide_agrees_with_the_reference(policy, asked, host):
    compiled = compile_policy(policy, host_addresses=host)
    for flow in asked:
        decided = compiled.decide(flow)
        action, reason = reference(policy, flow, host)
        assert decided.action == action
        if reason in DENIED_BY_LISTS:
            assert decided.reason in DENIED_BY_LISTS, "where several lists deny, either may be named"
        else:
            assert decided.reason == reason


odd_flows = st.builds(
    Flow,
    name=st.none() | st.sampled_from([*NAMES, ""]),
    port=st.none() | st.sampled_from([0, *PORTS, 65536]),
    protocol=st.sampled_from([None, *Protocol]),
    addresses=st.lists(st.sampled_from(ADDRESSES), max_size=3).map(tuple),
    claimed=st.none() | st.sampled_from([*NAMES, ""]),
    own=st.lists(st.sampled_from(ADDRESSES), max_size=1).map(tuple),
)


@often
@given(policies(presets=True), odd_flows | flows(), host_address_sets())
def test_decide_answers_every_flow_in_full(policy, flow, host):
    decided = compile_policy(policy, host_addresses=host).decide(flow)
    assert decided.action in Action
    assert decided.reason in Reason
    assert decided.reason.startswith("allowed") is decided.allowed
    assert decided.sentence.isprintable()
    assert points_into(policy, decided.rule)


def points_into(policy: Policy, rule: str | None) -> bool:
    if rule is None or rule in ("mode", "host_ports", "services", "allow_private"):
        return True
    if rule.startswith("services."):
        return rule.removeprefix("services.") in {service.name for service in policy.services}
    path, _, index = rule.removesuffix("]").partition("[")
    parts = path.split(".")
    entries = getattr(policy.egress, parts[1]) if parts[0] == "egress" else getattr(policy, path)
    return int(index) < len(entries)


@unhurried
@given(odd_flows | flows())
def test_without_a_policy_nothing_is_allowed(flow):
    assert without_policy(flow).reason is Reason.POLICY_MISSING
    assert not without_policy(flow).allowed


@unhurried
@given(policies(), odd_flows | flows())
def test_without_grants_nothing_is_allowed(policy, flow):
    """Whatever else a block-all policy holds: denials, ports, private addresses."""
    denials = tuple(rule for rule in policy.rules if rule.action is Action.DENY)
    egress = policy.egress._replace(allowed_domains=(), allowed_cidrs=())
    bare = policy._replace(mode=Mode.BLOCK_ALL, egress=egress, rules=denials, presets=(), host_ports=())
    assert not verdict(bare, flow).allowed


@unhurried
@given(policies(presets=True), odd_flows | flows(), host_address_sets())
def test_no_policy_opens_what_is_never_open(policy, flow, host):
    decided = compile_policy(policy, host_addresses=host).decide(flow)
    if flow.name in ("localhost", "a.localhost", "metadata.google.internal"):
        assert not decided.allowed
    if flow.name not in ("host.belljar.internal", "host.docker.internal"):
        reserved = [
            address
            for address in flow.addresses
            if address_class(address) == "never" or address in host or address in flow.own
        ]
        assert not (reserved and decided.allowed)


@unhurried
@given(policies(), flows())
def test_no_udp_leaves_in_block_all(policy, flow):
    policy = policy._replace(mode=Mode.BLOCK_ALL)
    assert not verdict(policy, flow._replace(protocol=Protocol.UDP)).allowed


# Adding an entry moves decisions in one direction.

grants = st.one_of(
    st.tuples(st.just("allowed_domains"), patterns(grants=True)),
    st.tuples(st.just("allowed_cidrs"), cidrs()),
)


def grants_for(policy: Policy) -> st.SearchStrategy[tuple[str, object]]:
    """Entries that can be added: ports only to ports, because the first of them replaces the default."""
    if not policy.egress.allowed_ports:
        return grants
    return grants | st.tuples(st.just("allowed_ports"), port_ranges())


denials = st.one_of(
    st.tuples(st.just("denied_domains"), patterns(grants=False)),
    st.tuples(st.just("denied_cidrs"), cidrs()),
    st.tuples(st.just("denied_ports"), port_ranges()),
)


@often
@given(policies(), flows(), st.integers(0, 5), st.data())
def test_a_grant_more_never_denies(policy, flow, at, data):
    if verdict(policy, flow).allowed:
        grant = data.draw(grants_for(policy))
        assert verdict(with_egress(policy, grant, at), flow).allowed


@often
@given(policies(), denials, flows(), st.integers(0, 5))
def test_a_denial_more_never_allows(policy, denial, flow, at):
    if not verdict(policy, flow).allowed:
        assert not verdict(with_egress(policy, denial, at), flow).allowed


@unhurried
@given(policies(), preset_uses(), port_ranges(host=True), flows())
def test_presets_host_ports_and_allow_private_never_deny(policy, preset, ports, flow):
    if verdict(policy, flow).allowed:
        assert verdict(policy._replace(presets=(*policy.presets, preset)), flow).allowed
        assert verdict(policy._replace(host_ports=(*policy.host_ports, ports)), flow).allowed
        assert verdict(policy._replace(allow_private=True), flow).allowed


@often
@given(policies(), rules(), flows())
def test_rules_first_and_last(policy, rule, flow):
    """A rule in front that denies never allows; one behind the others that allows never denies."""
    allowed = verdict(policy, flow).allowed
    if rule.action is Action.DENY and not allowed:
        assert not verdict(policy._replace(rules=(rule, *policy.rules)), flow).allowed
    if rule.action is Action.ALLOW and allowed:
        assert verdict(policy._replace(rules=(*policy.rules, rule)), flow).allowed


@unhurried
@given(policies(), flows(), st.randoms(use_true_random=False))
def test_the_order_of_a_list_does_not_matter(policy, flow, random):
    shuffled = {
        key: random.sample(getattr(policy.egress, key), len(getattr(policy.egress, key))) for key in Egress._fields
    }
    mixed = policy._replace(egress=Egress(**{key: tuple(entries) for key, entries in shuffled.items()}))
    assert verdict(mixed, flow).action == verdict(policy, flow).action


# What is learnt about a flow can narrow a decision, never widen it.


@often
@given(policies(), named_flows())
def test_resolving_never_widens(policy, flow):
    if not verdict(policy, flow._replace(addresses=())).allowed:
        assert not verdict(policy, flow).allowed
    if flow.name not in ("host.belljar.internal", "host.docker.internal"):
        for count in range(len(flow.addresses)):
            fewer = flow._replace(addresses=flow.addresses[:count])
            assert verdict(policy, fewer).allowed or not verdict(policy, flow).allowed


@often
@given(policies(), flows())
def test_a_claim_never_widens(policy, flow):
    if verdict(policy, flow).allowed:
        assert verdict(policy, flow._replace(claimed=None)).allowed


@often
@given(policies(), address_flows(), st.sampled_from(list(EMBEDDINGS.values())))
def test_wrapping_an_address_never_widens(policy, flow, embed):
    [address] = flow.addresses
    assume(isinstance(address, IPv4Address))
    if verdict(policy, flow._replace(addresses=(embed(address),))).allowed:
        assert verdict(policy, flow).allowed


@often
@given(policies(), st.sampled_from(NAMES))
def test_a_name_that_can_be_reached_can_be_asked_for(policy, name):
    compiled = compile_policy(policy)
    reachable = [
        compiled.decide(to_name(name, port, protocol)) for port in (1, 21, *PORTS, 444, 65535) for protocol in Protocol
    ]
    if any(one.allowed for one in reachable):
        assert compiled.decide(question(name)).allowed


@unhurried
@given(policies(), st.sampled_from(NAMES))
def test_without_ports_in_the_policy_a_name_is_answered_only_if_it_can_be_reached(policy, name):
    def plain(entries: tuple[DomainPattern, ...]) -> tuple[DomainPattern, ...]:
        return tuple(entry._replace(port=None) for entry in entries)

    egress = policy.egress._replace(allowed_ports=(), denied_ports=())
    egress = egress._replace(allowed_domains=plain(egress.allowed_domains), denied_domains=plain(egress.denied_domains))
    listed = tuple(
        rule._replace(ports=(), protocol=None, domains=plain(rule.domains))
        for rule in policy.rules
        if rule.domains or rule.cidrs
    )
    compiled = compile_policy(policy._replace(egress=egress, rules=listed, host_ports=(), services=()))
    reachable = any(compiled.decide(to_name(name, port)).allowed for port in (80, 443))
    assert compiled.decide(question(name)).allowed is reachable


# One name, one decision.


def spellings(name: str) -> list[str]:
    unicode_name = name.encode("ascii").decode("idna")
    capitals = "".join(letter.upper() if index % 2 else letter for index, letter in enumerate(name))
    return [name, name.upper(), f"{name}.", capitals, unicode_name, unicode_name.upper(), f"{unicode_name}."]


@unhurried
@given(policies(), st.sampled_from(NAMES), st.sampled_from(PORTS))
def test_all_spellings_of_a_name_are_decided_alike(policy, name, port):
    compiled = compile_policy(policy)
    wanted = compiled.decide(to_name(name, port))
    for spelling in spellings(name):
        assert explain(compiled, f"{spelling}:{port}").verdict == wanted


@unhurried
@given(policies(), st.sampled_from(NAMES), st.sampled_from(["", "*.", "."]))
def test_all_spellings_of_an_entry_mean_the_same(policy, name, prefix):
    assume("." in name or not prefix)
    texts = [f'{{"mode": "block-all", "egress": {{"allowed_domains": ["{prefix}{one}"]}}}}' for one in spellings(name)]
    assert len({read_policy(text, Syntax.JSON).policy for text in texts}) == 1


@unhurried
@given(policies(), flows().filter(lambda flow: flow.claimed is None and (flow.name is None or not flow.addresses)))
def test_explain_and_decide_agree(policy, flow):
    compiled = compile_policy(policy)
    explained = explain(compiled, str(flow))
    assert explained.flow == flow
    assert explained.verdict == compiled.decide(flow)


# Printing and reading.


@often
@given(policies(presets=True), st.sampled_from(Syntax))
def test_a_printed_policy_reads_back_as_the_same(policy, syntax):
    text = render(policy, syntax)
    again = read_policy(text, syntax).policy
    assert again == policy
    assert compile_policy(again).digest == compile_policy(policy).digest
    assert render(again, syntax) == text


@unhurried
@given(policies(presets=True), policies(presets=True), st.lists(flows(), max_size=5))
def test_equal_digests_decide_alike(one, other, asked):
    first, second = compile_policy(one), compile_policy(other)
    assert (one == other) <= (first.digest == second.digest)
    if first.digest == second.digest:
        assert [first.decide(flow).action for flow in asked] == [second.decide(flow).action for flow in asked]


@unhurried
@given(policies(presets=True), flows())
def test_a_flattened_policy_decides_alike(policy, flow):
    compiled = compile_policy(policy)
    flat = flatten(policy, compiled.expansion)
    assert flat.presets == ()
    assert verdict(flat, flow).action == compiled.decide(flow).action


@unhurried
@given(policies(), flows(), st.integers(1, 10**9))
def test_the_generation_changes_nothing_else(policy, flow, generation):
    compiled = compile_policy(policy, generation=generation)
    assert compiled.generation == generation
    assert compiled.decide(flow) == verdict(policy, flow)
    assert compiled.digest == compile_policy(policy).digest

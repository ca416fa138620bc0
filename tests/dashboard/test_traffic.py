"""One sandbox as it happens: what it tries, and one click to allow it."""

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.control.servers import Server, until


def attempt(page: Page, where: str) -> Locator:
    return page.locator(".tried > li").filter(has=page.get_by_text(where, exact=True))


def policy_of(server: Server, jar: str) -> Any:
    return server.client.get(server.path(jar, "/network")).json()


def says(server: Server, jar: str, destination: str) -> str:
    answer = server.client.get(server.path(jar, "/network/explain"), params={"destination": destination})
    return str(answer.json()["action"])


def test_a_denial_is_seen_as_it_happens_with_reason_and_rule(visit, jar, agent):
    page = visit(jar)
    expect(page.get_by_role("heading", name="Nothing was denied")).to_be_visible()
    assert b"403" in agent.connect("api.example.com", 8443)
    agent.ask("evil.example")
    agent.ask("evil.example")
    for part in ("port_not_allowed", "egress.allowed_domains[0]", "grants the destination of api.example.com:8443"):
        expect(attempt(page, "api.example.com:8443")).to_contain_text(part)
    expect(attempt(page, "evil.example")).to_contain_text("× 2")
    expect(page.get_by_role("img", name="3 attempts denied")).to_be_visible()


def test_what_no_policy_opens_cannot_be_allowed_here(visit, jar, agent):
    page = visit(jar)
    agent.ask("wanted.example")
    agent.ask("any.localhost")
    agent.ask("inspect.localhost")
    agent.connect("169.254.169.254", 80)
    expect(attempt(page, "wanted.example").get_by_role("button")).to_have_count(2)
    for where in ("any.localhost", "inspect.localhost", "169.254.169.254:80"):
        expect(attempt(page, where)).to_be_visible()
        expect(attempt(page, where).get_by_role("button")).to_have_count(0)
    expect(attempt(page, "inspect.localhost")).to_contain_text("A look at the layers")
    expect(attempt(page, "any.localhost")).not_to_contain_text("A look at the layers")


def test_brokers_of_the_policy_are_shown_with_what_is_left(visit, page, jar):
    """What was made of one that is no longer in the policy is not."""
    services = [
        {"service": name, "used": {"requests": 3, "dollars": 0.25}, "budget": {"requests": 10}}
        for name in ("old", "new")
    ]
    page.route("**/usage", lambda route: route.fulfill(json={"services": services}))
    page.route("**/network", lambda route: route.fulfill(json={"mode": "block-all", "services": {"new": {}}}))
    brokers = visit(jar).get_by_role("region", name="Brokers")
    expect(brokers).to_contain_text("3 of 10 requests")
    expect(brokers.locator("strong")).to_have_text("new")


def test_what_was_denied_before_somebody_looked_is_there_too(visit, jar, agent):
    agent.ask("evil.example")
    expect(attempt(visit(jar), "evil.example")).to_be_visible()


def test_allow_this_shows_the_change_before_it_is_made(visit, server, jar, agent):
    before = policy_of(server, jar)
    page = visit(jar)
    agent.ask("wanted.example")
    page.get_by_role("button", name="Allow wanted.example…").click()
    expect(page.locator(".diff ins")).to_have_text(["+     - wanted.example\n"])
    expect(page.locator(".diff del")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_contain_text("wanted.example would be allowed")
    assert policy_of(server, jar) == before

    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert policy_of(server, jar) == before

    page.get_by_role("button", name="Allow wanted.example…").press("Enter")
    expect(page.get_by_role("button", name="Allow", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(attempt(page, "wanted.example")).to_contain_text("✓ allowed")
    assert policy_of(server, jar)["egress"]["allowed_domains"] == ["api.example.com", "wanted.example"]


def test_somebody_else_s_change_meanwhile_is_shown_first(visit, server, jar, agent):
    page = visit(jar)
    agent.ask("wanted.example")
    page.get_by_role("button", name="Allow wanted.example…").click()
    page.get_by_role("button", name="Allow", exact=True).wait_for()
    server.client.put(server.path(jar, "/network"), json={"mode": "block-all", "presets": ["github"]})
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page.get_by_text("Somebody else has just changed the policy")).to_be_visible()
    assert policy_of(server, jar) == {"mode": "block-all", "presets": ["github"]}
    expect(page.locator(".diff")).to_contain_text("github")
    page.get_by_role("button", name="Allow", exact=True).click()
    until(lambda: says(server, jar, "wanted.example") == "allow")
    assert policy_of(server, jar)["presets"] == ["github"]


def test_for_ten_minutes(visit, server, jar, agent):
    before = policy_of(server, jar)
    page = visit(jar)
    agent.ask("wanted.example")
    page.get_by_role("button", name="Allow wanted.example for ten minutes").click()
    expect(page.get_by_role("region", name="Open for a time")).to_contain_text("9:5")
    assert says(server, jar, "wanted.example") == "allow"
    assert policy_of(server, jar) == before
    page.get_by_role("button", name="Close wanted.example now").click()
    expect(page.get_by_role("region", name="Open for a time")).to_have_count(0)
    assert says(server, jar, "wanted.example") == "deny"


def test_what_is_open_is_shown_with_its_bytes(visit, server, jar, agent, echo):
    server.client.patch(server.path(jar, "/network"), json={"add": {"host_ports": [echo]}})
    page = visit(jar)
    with agent.connected("host.belljar.internal", echo) as (connection, status):
        assert b"200" in status
        flow = page.get_by_role("region", name="Open now").get_by_role("row", name=f"host.belljar.internal:{echo}")
        expect(flow).to_be_visible()
        connection.sendall(b"x" * 5000)
        expect(flow).to_contain_text("5.0 kB")
    expect(page.get_by_text("No connection is open.")).to_be_visible()
    page.get_by_role("button", name="Allowed", exact=True).click()
    expect(attempt(page, f"host.belljar.internal:{echo}")).to_contain_text("allowed_host_port")
    expect(page.get_by_role("img", name="10 kB carried, 1 flow allowed")).to_be_visible()


def test_a_thousand_denials_are_counted_and_few_are_drawn(visit, server, jar, agent):
    page = visit(jar)
    for number in range(1000):
        agent.connect(f"n{number % 250}.example", 443)
    expect(page.get_by_text("The latest 100 of 250 destinations.")).to_be_visible()
    expect(page.get_by_role("img", name="1,000 attempts denied")).to_be_visible()
    assert page.locator(".tried > li").count() == 100


def test_lines_stay_where_they_are_while_one_is_about_to_be_used(visit, jar, agent):
    page = visit(jar)
    agent.ask("first.example")
    attempt(page, "first.example").get_by_role("button").first.hover()
    agent.ask("second.example")
    page.get_by_role("button", name="1 new destination: show").click()
    expect(page.locator(".tried > li .where")).to_have_text(["second.example", "first.example"])


ALLOWED = [
    # the policy, what was denied and why, what "allow this" opens, and what stays closed beside it
    ({"mode": "block-all"}, ("a.test", None, "not_allowed_domain"), "a.test:443", "b.a.test:443"),
    ({"mode": "block-all"}, ("a.test", 22, "not_allowed_domain"), "a.test:22", "a.test:443"),
    ({"mode": "block-all"}, ("192.0.2.9", 22, "not_allowed_address"), "192.0.2.9:22", "192.0.2.9:80"),
    (
        {"mode": "block-all", "egress": {"allowed_domains": ["a.test"], "allowed_ports": [8443]}},
        ("a.test", 443, "port_not_allowed"),
        "a.test:443",
        "a.test:80",
    ),
    (
        {"mode": "allow-all", "egress": {"denied_domains": ["x.test"]}},
        ("a.x.test", 443, "denied_domain"),
        "a.x.test:443",
        "b.x.test:443",
    ),
    (
        {"mode": "allow-all", "egress": {"denied_ports": [25]}},
        ("mail.test", 25, "denied_port"),
        "mail.test:25",
        "other.test:25",
    ),
]


def test_what_is_allowed_is_that_and_no_more(visit, server, jar):
    page = visit()
    for policy, (host, port, reason), opened, still_closed in ALLOWED:
        server.client.put(server.path(jar, "/network"), json=policy)
        name, addresses = (None, [host]) if host[0].isdigit() else (host, [])
        where = {"name": name, "addresses": addresses, "port": port, "protocol": "tcp"}
        change = page.evaluate(
            "async ([event, policy]) => (await import('/assets/opening.js')).opening(event, policy).change",
            [where | {"reason": reason, "rule": "mode"}, policy],
        )
        assert says(server, jar, opened) == "deny"
        assert server.client.patch(server.path(jar, "/network"), json={"add": change}).status_code == 200
        assert [says(server, jar, destination) for destination in (opened, still_closed)] == ["allow", "deny"], change


def test_a_name_of_a_service_is_opened_by_no_entry(visit, server, jar):
    """Neither an allowed domain nor a grant would open it."""
    event = {"name": "db.belljar.internal", "port": 80, "protocol": "tcp", "reason": "service_not_allowed"}
    for mode in ("block-all", "allow-all"):
        opened = visit().evaluate(
            "async ([event, policy]) => (await import('/assets/opening.js')).opening(event, policy)",
            [event | {"rule": "services.db"}, {"mode": mode}],
        )
        assert list(opened) == ["why"]
        assert "opened by services alone" in opened["why"]


def test_what_no_entry_opens_is_said_to_be_so(visit, server, jar, agent):
    policy = {"mode": "block-all", "rules": [{"name": "never", "action": "deny", "domains": ["evil.example"]}]}
    server.client.put(server.path(jar, "/network"), json=policy)
    page = visit(jar)
    agent.ask("evil.example")
    page.get_by_role("button", name="Allow evil.example…").click()
    expect(page.get_by_role("dialog")).to_contain_text("A rule of the policy denies it")
    page.get_by_role("link", name="Open the policy").click()
    expect(page.get_by_label("Policy, as JSON")).to_be_visible()

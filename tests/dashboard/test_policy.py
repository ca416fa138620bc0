"""The policy of a sandbox: edited, checked while somebody types, explained."""

import json
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.control.servers import Server


def policy_of(server: Server, jar: str) -> Any:
    return server.client.get(server.path(jar, "/network")).json()


def editor(page: Page) -> Locator:
    return page.get_by_label("Policy, as JSON")


def marked(page: Page) -> Locator:
    return page.locator(".line-numbers .marked")


def edit(page: Page, policy: object) -> None:
    expect(editor(page)).not_to_have_value("")
    editor(page).fill(policy if isinstance(policy, str) else json.dumps(policy, indent=2))


def test_mistakes_are_found_while_typing_each_with_place_and_remedy(visit, server, jar):
    before, page = policy_of(server, jar), visit(jar, "/policy")
    edit(page, {"mode": "block-all", "egress": {"allowed_domains": ["a.example", "*.com"], "allowed_prots": [1]}})
    expect(page.get_by_text("2 things are to be put right:")).to_be_visible()
    expect(page.locator(".findings li").nth(0)).to_contain_text("did you mean allowed_ports?")
    expect(page.locator(".findings li").nth(1)).to_contain_text("→ name the hosts")
    expect(marked(page)).to_have_text(["6", "8"])
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    page.get_by_role("button", name="line 6").click()
    assert editor(page).evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") == '"*.com"'
    assert policy_of(server, jar) == before


def test_a_text_that_is_no_json_is_told_with_its_line(visit, jar):
    page = visit(jar, "/policy")
    for text, line, told in (
        ('{\n  "mode": block-all\n}', "2", "texts stand in double quotes"),
        ('{\n  "mode": "block-all"\n  "egress": {}\n}', "3", "a comma or } is missing here"),
        ('{\n  "mode": "block-all",\n}', "3", "a key in double quotes is missing here"),
        ('{\n  "mode":\n}', "3", "a value is missing here"),
        ('{\n  "mode": "block-all"\n}\n}', "4", "the document ends before this"),
    ):
        edit(page, text)
        expect(page.locator(".findings")).to_contain_text(told)
        expect(marked(page)).to_have_text([line])


def test_a_change_is_shown_and_then_applied(visit, server, jar, agent):
    agent.ask("b.example")
    page = visit(jar, "/policy")
    edit(page, {"mode": "block-all", "egress": {"allowed_domains": ["b.example"], "denied_ports": [25]}})
    expect(page.locator(".diff del")).to_have_text(["-     - api.example.com\n"])
    expect(page.locator(".effects")).to_contain_text("b.example would be allowed")
    expect(page.locator(".preview .warning")).to_contain_text("egress.denied_ports has no effect")
    assert policy_of(server, jar)["egress"] == {"allowed_domains": ["api.example.com"]}
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Generation 2 is in force.")).to_be_visible()
    assert policy_of(server, jar)["egress"] == {"allowed_domains": ["b.example"], "denied_ports": [25]}


def test_what_was_typed_can_be_taken_back(visit, server, jar):
    page = visit(jar, "/policy")
    edit(page, "{")
    page.get_by_role("button", name="Revert").click()
    expect(editor(page)).to_have_value(json.dumps(policy_of(server, jar), indent=2) + "\n")
    expect(page.get_by_text("In force.")).to_be_visible()


def test_of_two_who_edit_the_second_sees_what_the_first_has_done(visit, server, jar):
    page = visit(jar, "/policy")
    edit(page, {"mode": "block-all", "egress": {"allowed_domains": ["mine.example"]}})
    expect(page.locator(".diff")).to_contain_text("mine.example")
    server.client.put(
        server.path(jar, "/network"), json={"mode": "block-all", "egress": {"allowed_domains": ["theirs.example"]}}
    )
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Somebody else has changed the policy.")).to_be_visible()
    expect(page.locator(".diff del")).to_have_text(["-     - theirs.example\n"])
    assert policy_of(server, jar)["egress"] == {"allowed_domains": ["theirs.example"]}


def test_a_change_from_elsewhere_is_seen_at_once(visit, server, jar):
    page = visit(jar, "/policy")
    expect(editor(page)).to_have_value(json.dumps(policy_of(server, jar), indent=2) + "\n")
    server.client.put(server.path(jar, "/network"), json={"mode": "allow-all"})
    expect(editor(page)).to_have_value('{\n  "mode": "allow-all"\n}\n')


def test_decisions_are_explained(visit, jar):
    page = visit(jar, "/policy")
    for destination, told in (
        ("https://api.example.com/x", "✓ Allowed"),
        ("api.example.com:22", "port_not_allowed"),
        ("a b", "a destination is host, host:port"),
    ):
        page.get_by_label("What does the policy in force say to").fill(destination)
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Explain")).to_contain_text(told)

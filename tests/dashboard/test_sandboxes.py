"""The list of sandboxes, and what can be done with one."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.control.agents import Agent
from tests.control.servers import until


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def test_sandboxes_appear_change_and_go_by_themselves(visit, server):
    page = visit()
    expect(page.get_by_role("heading", name="No sandboxes yet")).to_be_visible()
    jar = server.sandbox(labels={"task": "4711"})
    expect(row(page, jar)).to_contain_text(re.compile("task=4711.*running.*block-all.*↑ 0 B"))
    server.client.post(server.path(jar, "/pause"))
    expect(row(page, jar)).to_contain_text("paused")
    server.client.delete(server.path(jar))
    expect(page.get_by_role("heading", name="No sandboxes yet")).to_be_visible()


def test_traffic_and_denials_are_in_the_list(visit, server, echo):
    jar = server.sandbox(network={"mode": "block-all", "host_ports": [echo]})
    page, agent = visit(), Agent(server.world, jar)
    with agent.connected("host.belljar.internal", echo) as (connection, _):
        connection.sendall(b"x" * 5000)
        expect(row(page, jar)).to_contain_text("↑ 5.0 kB  ↓ 5.0 kB", use_inner_text=True)
        agent.ask("evil.example")
        expect(row(page, jar)).to_contain_text("evil.example, ")
        expect(row(page, jar).locator(".bad")).to_have_text("1")
    server.client.delete(server.path(jar))


def test_what_was_denied_before_somebody_looked_is_in_the_list_on_any_screen(visit, jar, agent):
    """But what was sent by a look at the layers is not."""
    agent.ask("evil.example")
    agent.ask("inspect.localhost")
    page = visit()
    last = row(page, jar).get_by_text("evil.example, ")
    expect(last).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(last).to_be_in_viewport()
    box = last.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_key_leads_to_the_filter(visit, server, jar):
    other = server.sandbox(labels={"team": "red"})
    page = visit()
    row(page, jar).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("TEAM=red")
    expect(row(page, jar)).to_have_count(0)
    expect(row(page, other)).to_be_visible()
    page.keyboard.type("x")
    expect(page.get_by_text("No sandbox matches the filter.")).to_be_visible()
    server.client.delete(server.path(other))


def test_one_is_made_and_ended_here(visit, server):
    page = visit()
    page.get_by_role("button", name="New sandbox").first.click()
    page.get_by_label("Name for it").fill("from the page")
    page.get_by_label("Allowed domains").fill("a.example\n*.com")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("is not there → use memory")
    page.get_by_label("Backend").fill("memory")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("network.egress.allowed_domains[1]")
    page.get_by_label("Allowed domains").fill("a.example")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="from the page")).to_be_visible()
    jar = page.url.rpartition("/")[2]
    assert server.client.get(server.path(jar, "/network")).json()["egress"] == {"allowed_domains": ["a.example"]}

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="Sandboxes", exact=True)).to_be_visible()
    assert until(lambda: server.status(jar) == "gone")


def test_its_layers_are_told_with_their_evidence(visit, jar):
    page = visit(jar)
    page.get_by_role("link", name="Layers").click()
    row = page.get_by_role("row", name="user namespace")
    expect(row).to_contain_text("unknown")
    expect(row).to_contain_text("the backend memory cannot look into its sandboxes")


def test_one_that_ends_while_it_is_looked_at_is_said_to_be_gone(visit, server, jar):
    page = visit(jar)
    server.client.delete(server.path(jar))
    expect(page.get_by_role("heading", name="This sandbox is gone")).to_be_visible()
    page.get_by_role("link", name="All sandboxes").click()
    expect(page.get_by_role("heading", name="Sandboxes", exact=True)).to_be_visible()


def test_what_others_wrote_is_text(visit, server):
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    jar = server.sandbox(labels={"name": markup, "note": markup})
    page = visit()
    expect(page.get_by_role("link", name=markup)).to_be_visible()
    page = visit(jar)
    expect(page.get_by_role("heading", name=markup)).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    server.client.delete(server.path(jar))

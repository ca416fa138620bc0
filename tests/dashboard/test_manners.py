"""The page for everybody: by keyboard, by name, by day and by night, on what is wide or narrow."""

import pytest
from playwright.sync_api import expect


@pytest.mark.parametrize("view", ["list", "", "/policy", "/layers"])
def test_everything_that_can_be_used_has_a_name(visit, jar, agent, view):
    agent.ask("evil.example")
    page = visit() if view == "list" else visit(jar, view)
    page.get_by_role("heading", level=1).wait_for()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, textarea")].filter((element) =>
            element.checkVisibility()
            && !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length)).length"""
    )
    assert nameless == 0


def test_a_sandbox_is_reached_by_keyboard_alone(visit, jar):
    page = visit()
    page.get_by_role("link", name=jar).wait_for()
    page.keyboard.press("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=jar)).to_be_visible()
    expect(page.locator("main")).to_be_focused()


def test_it_is_dark_where_that_is_wanted(visit):
    page, found = visit(), {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found[scheme] = (
            page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
        )
    assert int(found["light"]) > 200
    assert int(found["dark"]) < 60


@pytest.mark.parametrize("width", [400, 1024])
def test_it_fits_where_it_is_shown(page, visit, jar, agent, width):
    agent.ask("a-name-that-is-rather-long.and-goes-on-for-quite-a-while.example.com")
    page.set_viewport_size({"width": width, "height": 700})
    visit().get_by_role("link", name=jar).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    visit(jar).get_by_role("button", name="Allow a-name").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width

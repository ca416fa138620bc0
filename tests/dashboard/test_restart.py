"""A server that goes away and comes back."""

import pytest
from playwright.sync_api import expect

from belljar.testing.memory import MemoryWorld
from tests.control.agents import Agent
from tests.control.servers import Server


@pytest.fixture
def server(tmp_path):
    """A server for this test alone."""
    server = Server(tmp_path / "state", MemoryWorld())
    yield server
    server.stop()


def test_the_page_goes_on_where_it_was(visit, server):
    jar = server.sandbox()
    Agent(server.world, jar).ask("before.example")
    page = visit(jar)
    expect(page.get_by_text("before.example", exact=True)).to_be_visible()
    server.stop()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    second = Server(server.state, server.world, port=server.port)
    try:
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        second.client.post(second.path(jar, "/pause"))
        expect(page.locator(".state")).to_have_text("paused")
        expect(page.locator(".tried > li")).to_have_count(1)
    finally:
        second.stop()

"""docs/sdk.md shows programs that run: those of examples/, word for word, and pieces that run against a real server."""

import re
from collections.abc import Callable

import pytest

from belljar import client as sdk
from belljar.client import Client, ClientError, Sandbox
from belljar.errors import BelljarError
from tests.control.conftest import server  # noqa: F401 - a fixture
from tests.docs.test_docs import DOCS, ROOT, first_column, section

BLOCKS = re.findall(r"```python\n(.*?)```", DOCS["sdk.md"], re.DOTALL)
EXAMPLES = {
    path.name: path.read_text() for path in ROOT.glob("examples/*.py") if "from belljar.client" in path.read_text()
}
PIECES = [block for block in BLOCKS if block not in EXAMPLES.values()]


def test_every_example_is_shown_as_it_is():
    assert set(EXAMPLES.values()) <= set(BLOCKS)


def test_pieces_run(server, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv("BELLJAR_SERVER", str(server.state))
    in_memory(monkeypatch)
    first, claiming, *others = PIECES
    names: dict[str, object] = {}
    exec(first, names)  # the documentation's own code
    exec(claiming, names)
    client = names["client"]
    assert isinstance(client, Client)
    with client, client.claim() as sandbox:
        names["sandbox"] = sandbox
        for piece in others:
            exec(piece, names)
    assert capsys.readouterr().out.startswith("0 hello")


def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sandboxes claimed of the backend that the server of these tests has."""
    claim: Callable[..., Sandbox] = Client.claim
    monkeypatch.setattr(Client, "claim", lambda self, **options: claim(self, backend="memory", **options))


def test_every_error_is_documented_and_nothing_else():
    errors = [
        name
        for name in sdk.__all__
        if isinstance(kind := getattr(sdk, name), type) and issubclass(kind, BelljarError) and kind is not ClientError
    ]
    assert sorted(first_column(section("sdk.md", "Errors"))) == sorted(errors)


@pytest.mark.parametrize("kind", ["Client", "Sandbox"])
def test_every_method_is_mentioned(kind):
    methods = [name for name in vars(getattr(sdk, kind)) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}[(`]", DOCS["sdk.md"])] == []

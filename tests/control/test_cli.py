"""`belljar serve` and `belljar token` on the command line."""

import os
import stat

from click.testing import CliRunner

from belljar.cli.server.serve import serve
from belljar.cli.server.token import token
from belljar.errors import BelljarError


def run(command, *words: str):
    return CliRunner().invoke(command, words, standalone_mode=False)


def test_other_hosts_than_loopback_need_a_name(tmp_path):
    for host in ("0.0.0.0", "::"):
        result = run(serve, "--host", host, "--state", str(tmp_path / "state"))
        assert isinstance(result.exception, BelljarError)
        assert "--expose" in str(result.exception)
    assert not (tmp_path / "state").exists()


def test_the_token_is_shown_and_rotated(tmp_path):
    assert isinstance(run(token, "show", "--state", str(tmp_path)).exception, BelljarError)
    assert run(token, "rotate", "--state", str(tmp_path)).output == ""
    first = run(token, "show", "--state", str(tmp_path)).output
    run(token, "rotate", "--state", str(tmp_path))
    second = run(token, "show", "--state", str(tmp_path)).output
    assert len({first, second}) == 2
    assert os.listdir(tmp_path) == ["token"]  # noqa: PTH208 - names are what it is about
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600

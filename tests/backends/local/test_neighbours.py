"""Sockets, FIFOs and devices of the host below what every sandbox sees: none of them works inside unless named."""

import json
import subprocess
import sys

import pytest

from tests.backends.local import neighbours
from tests.backends.local.conftest import PATIENCE, Cli


@pytest.mark.parametrize("layout", neighbours.LAYOUTS)
def test_what_listens_below_the_systems_directories_cannot_be_reached(cli: Cli, layout: str) -> None:
    """Neither what was there when the sandbox started nor what came later, whatever is mounted where."""
    bound = cli.workdir / "bound"
    bound.mkdir()
    belljar = cli.command("run", "--bind", f"{bound}:/bound", "--")
    done = cli.universe.gateway.call(
        subprocess.run,
        [sys.executable, neighbours.__file__, layout, str(bound), *belljar],
        cwd=cli.workdir,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    told = {path: answer for _, path, answer in result["told"]}
    ways = ("stream", "datagram", "fifo")
    assert result["seen"] == [f"{bound}/named/{way}" for way in ways]
    assert [path for path, answer in told.items() if answer == "reached"] == [f"/bound/named/{way}" for way in ways]
    assert {told[f"{place}/neighbours/early/file"] for place in neighbours.LAYOUTS[layout]} == {"shown"}


DEEP = """
mount -t tmpfs none /mnt && mkdir /mnt/empty
mount -t overlay -o lowerdir=/opt:/mnt/empty none /opt && mount -t overlay -o lowerdir=/opt:/mnt/empty none /opt
exec "$@"
"""


def test_what_cannot_be_shown_without_them_is_not_shown(cli: Cli) -> None:
    """The kernel stacks two overlays, and no more; on old ones, an ordinary user has none at all."""
    done = cli.universe.gateway.call(
        subprocess.run,
        ["unshare", "-m", "sh", "-ec", DEEP, "sh", *cli.command("run", "--", "echo", "started")],
        cwd=cli.workdir,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "/opt cannot be shown inside without the sockets in it" in done.stderr
    assert "Traceback" not in done.stderr

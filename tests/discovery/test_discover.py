"""The one function, on this machine and on machines that misbehave."""

import platform
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from belljar.discovery import TOOLS, ToolHost, ToolNotFoundError, discover
from belljar.errors import BelljarError
from belljar.names import canonical_name
from tests.discovery.machines import SECRET

PROGRAMS = ("python3", "pip", "uv", "npm", "apt-get", "cargo", "go", "mvn")


@pytest.mark.parametrize("tool", TOOLS)
def test_this_machine(tool):
    try:
        found = discover(tool)
    except ToolNotFoundError as problem:
        program, _, said = str(problem).partition(" ")
        if tool in ("debian", "ubuntu"):
            assert f", not {tool}, so the apt sources cannot be asked for" in said
            assert platform.freedesktop_os_release()["ID"] != tool
        else:
            assert said.startswith("is not installed here, so its ")
            assert shutil.which(program) is None
        return
    assert found
    assert [(it.host, it.port) for it in found] == sorted({(it.host, it.port) for it in found})
    for host in found:
        assert isinstance(host, ToolHost)
        assert canonical_name(host.host) == host.host
        assert 1 <= host.port <= 65535
        assert host.why


@pytest.mark.parametrize("tool", TOOLS)
def test_a_machine_with_nothing_installed(played, tool):
    with pytest.raises(BelljarError) as caught:
        played.discover(tool)
    example = "registry.corp.example"
    assert str(caught.value).endswith(
        f"; name the host instead: presets: [{{{tool}: {example}}}] in a policy, or --allow {example}"
    )


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "script",
    [
        f"echo https://me:{SECRET}@; echo {SECRET} >&2; exit 1",
        f"echo '{{\"{SECRET}\": [}}'",
        f"printf '\\000\\377\\033[2J{SECRET}\\n=\\n.=\\n'",
        "",
    ],
    ids=["fails", "broken JSON", "binary", "silent"],
)
def test_programs_that_make_no_sense(played, tool, script):
    for program in PROGRAMS:
        played.install(program, script)
    played.write("etc/os-release", f"ID={tool}")
    with pytest.raises(ToolNotFoundError) as caught:
        played.discover(tool)
    message = str(caught.value)
    assert SECRET not in message
    assert message.isprintable()


def test_a_tool_that_hangs(played):
    played.write("etc/os-release", "ID=debian")
    played.install("apt-get", "exec /bin/sleep 600")
    with pytest.raises(
        ToolNotFoundError, match=r"^apt-get did not answer within 0\.2 seconds, so the apt sources cannot"
    ):
        discover("debian", replace(played.machine, timeout=0.2))


def test_importing_the_package_starts_nothing_heavy():
    script = "import sys, belljar.discovery; print({'subprocess', 'tomllib', 'zipfile', 'xml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"

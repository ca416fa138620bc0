"""pip and npm, each against an index with one package."""

import base64
import hashlib
import io
import json
import sys
import tarfile
import zipfile

import pytest

from tests.gateway.clients import servers

WHEEL = "tiny-1.0-py3-none-any.whl"
TARBALL = "tiny-1.0.0.tgz"


@pytest.fixture(scope="module")
def pages(machine, whole_universe):
    with servers.apache(machine, whole_universe.certificates) as pages:
        yield pages


@pytest.fixture(scope="module")
def python_index(pages):
    index = pages / "simple" / "tiny"
    index.mkdir(parents=True)
    with zipfile.ZipFile(index / WHEEL, "w") as wheel:
        wheel.writestr("tiny.py", "SIZE = 'tiny'\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256((index / WHEEL).read_bytes()).hexdigest()
    (index / "index.html").write_text(f'<!DOCTYPE html><a href="{WHEEL}#sha256={digest}">{WHEEL}</a>')


@pytest.fixture(scope="module")
def node_registry(pages):
    registry = pages / "npm"
    registry.mkdir()
    manifest = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
    with tarfile.open(registry / TARBALL, "w:gz") as tarball:
        for name, text in {"package.json": json.dumps(manifest), "index.js": "module.exports = 'tiny'\n"}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            tarball.addfile(entry, io.BytesIO(text.encode()))
    digest = base64.b64encode(hashlib.sha512((registry / TARBALL).read_bytes()).digest()).decode()
    dist = {"tarball": f"http://web.machine.test/npm/{TARBALL}", "integrity": f"sha512-{digest}"}
    document = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**manifest, "dist": dist}}}
    (registry / "tiny").write_text(json.dumps(document))


@pytest.mark.parametrize(("scheme", "port"), [("https", 443), ("http", 80)])
def test_pip(python_index, enter, universe, tmp_path, scheme, port):
    def install(host: str) -> list[str]:
        options = ["--quiet", "--no-cache-dir", "--disable-pip-version-check", "--retries=0"]
        trust = f"--cert={universe.certificates.path}" if scheme == "https" else f"--trusted-host={host}"
        places = [f"--index-url={scheme}://{host}/simple", f"--target={tmp_path / host}"]
        return [sys.executable, "-m", "pip", "--isolated", "install", *options, trust, *places, "tiny"]

    inside = enter(f"web.machine.test:{port}")
    inside.works(*install("web.machine.test"))
    assert (tmp_path / "web.machine.test" / "tiny.py").read_text() == "SIZE = 'tiny'\n"
    assert inside.has_reached(port)

    assert "No matching distribution found" in inside.is_denied(*install("other.machine.test"))


def test_npm(node_registry, enter, tmp_path):
    npm = servers.program("npm", "npm")

    def install(host: str) -> list[str]:
        options = ["--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0", "--ignore-scripts"]
        places = [f"--prefix={tmp_path / host}", f"--cache={tmp_path / 'cache'}", f"--userconfig={tmp_path / 'npmrc'}"]
        return [npm, "install", *options, *places, f"--registry=http://{host}/npm/", "tiny"]

    inside = enter("web.machine.test")
    inside.works(*install("web.machine.test"))
    installed = tmp_path / "web.machine.test" / "node_modules" / "tiny" / "index.js"
    assert installed.read_text() == "module.exports = 'tiny'\n"
    assert inside.has_reached(80)

    assert "ENOTFOUND" in inside.is_denied(*install("other.machine.test"))

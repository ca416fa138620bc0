"""Maven's mirrors and repositories: its settings, and the super POM that every project inherits from."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_xml
from belljar.discovery.running import MAX_BYTES

_SUPER_POM = "org/apache/maven/model/pom-4.0.0.xml"


def ask(machine: Machine) -> list[Named]:
    """Return the mirrors, and the repositories that no mirror stands in for."""
    maven = machine.require("mvn").parent.parent
    settings = list(_settings(machine, maven))
    mirrors = [found for tree in settings for found in tree.iterfind("mirrors/mirror") if not _is_blocked(found)]
    patterns = [_text(mirror, "mirrorOf") for mirror in mirrors]
    repositories = [
        found
        for tree in (*settings, *_super_poms(machine, maven))
        for path in (".//repositories/repository", ".//pluginRepositories/pluginRepository")
        for found in tree.iterfind(path)
        if not any(_covers(pattern, _text(found, "id")) for pattern in patterns)
    ]
    return [*_named("mirror", mirrors), *_named("repository", repositories)]


def _named(kind: str, elements: list[Element]) -> list[Named]:
    return [Named(_text(element, "url"), f"Maven {kind} {_text(element, 'id')}") for element in elements]


def _settings(machine: Machine, maven: Path) -> Iterator[Element]:
    for path in (machine.home / ".m2" / "settings.xml", maven / "conf" / "settings.xml"):
        if data := machine.read(path):
            yield parse_xml(data, str(path))


def _super_poms(machine: Machine, maven: Path) -> Iterator[Element]:
    for path in (maven / "lib").glob("maven-model-builder*.jar"):
        try:
            with zipfile.ZipFile(io.BytesIO(machine.read(path) or b"")) as archive, archive.open(_SUPER_POM) as file:
                data = file.read(MAX_BYTES)
        except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
            continue
        yield parse_xml(data, str(path))


def _is_blocked(mirror: Element) -> bool:
    """Tell a mirror that exists to stop Maven from one that serves it."""
    return _text(mirror, "blocked") == "true"


def _covers(mirror_of: str, repository: str) -> bool:
    """Whether a ``mirrorOf`` such as ``*,!local`` takes a repository's place."""
    words = {word.strip() for word in mirror_of.split(",")}
    return f"!{repository}" not in words and bool(words & {"*", "external:*", repository})


def _text(element: Element, tag: str) -> str:
    return element.findtext(tag, "").strip()

"""pip and uv: the indexes each is configured with, or the default index where it is not."""

from collections.abc import Iterator

from belljar.discovery import pip, uv
from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named, locate


def ask(machine: Machine) -> list[Named]:
    """Return the indexes and links of both tools. Neither is run."""
    options, has_uv = pip.settings(machine), machine.find("uv") is not None
    tools = {}
    if options or not has_uv or pip.is_installed(machine):
        tools["pip"] = pip.configuration(options)
    if has_uv:
        tools["uv"] = uv.configuration(machine)
    named = [found for configured, _ in tools.values() for found in configured]
    relying = [tool for tool, (_, uses_default) in tools.items() if uses_default]
    return [*named, *_default_index(machine, relying, named)]


def _default_index(machine: Machine, relying: list[str], named: list[Named]) -> Iterator[Named]:
    """Return the default index for the tools that rely on it, and its second host wherever it is in use.

    That second host is where the files are: it belongs to the index, also where the index is configured.
    """
    index = pip.default_index(machine)
    if index is None:
        return
    yield from (Named(index.url, f"{tool}'s default index") for tool in relying)
    if relying or locate(index.url) in {locate(url) for url, _ in named} - {None}:
        yield Named(index.files, "files of the default index")

"""pip and uv: the indexes each is configured with, or the default index where it is not."""

import sys
from collections.abc import Iterator

from belljar.discovery import uv
from belljar.discovery.asking import Machine, NoAnswerError
from belljar.discovery.hosts import Named, locate

_URL_OPTIONS = ("index-url", "extra-index-url", "find-links")
_TRUE = ("1", "true", "yes", "on", "y", "t")

_CONFIG = ("config", "list")
# Every Python has some pip to ask: the installed one, or the wheel that ensurepip would install.
_PRINT_DEFAULT = """\
try:
    import pip
except ImportError:
    import ensurepip, glob, os, sys
    sys.path += glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
from pip._internal.models.index import PyPI
print(PyPI.simple_url, "https://" + PyPI.file_storage_domain)
"""


def ask(machine: Machine) -> list[Named]:
    """Return the indexes and links of both tools."""
    config, default = _ask_pip(machine)
    tools = {}
    if config is not None:
        tools["pip"] = _configuration_of_pip(config)
    if machine.find("uv"):
        tools["uv"] = uv.configuration(machine)
    if not tools:
        raise NoAnswerError("neither pip nor uv answers here")
    named = [found for configured, _ in tools.values() for found in configured]
    relying = [tool for tool, (_, uses_default) in tools.items() if uses_default]
    return [*named, *_default_index(default or "", relying, named)]


def _ask_pip(machine: Machine) -> tuple[str | None, str | None]:
    """Return pip's configuration and its default index, each from the first pip that tells."""
    config, default = machine.run_together(
        ("python3", "-m", "pip", *_CONFIG),
        ("python3", "-c", _PRINT_DEFAULT),
    )
    if config is None or default is None:
        config_on_path, own_config, own_default = machine.run_together(
            ("pip", *_CONFIG),
            (sys.executable, "-m", "pip", *_CONFIG),
            (sys.executable, "-c", _PRINT_DEFAULT),
        )
        config = _first(config, config_on_path, own_config)
        default = _first(default, own_default)
    return config, default


def _first(*answers: str | None) -> str | None:
    return next((answer for answer in answers if answer is not None), None)


def _configuration_of_pip(listing: str) -> tuple[list[Named], bool]:
    """Read ``section.option='value'`` lines; return the URLs, and whether the default index is in use."""
    options = list(_options(listing))
    named = [Named(url, f"pip's {option}") for option, values in options if option in _URL_OPTIONS for url in values]
    uses_default = not any(
        option == "index-url" or (option == "no-index" and values[0].lower() in _TRUE) for option, values in options
    )
    return named, uses_default


def _options(listing: str) -> Iterator[tuple[str, list[str]]]:
    """Return each option that has a value, as words. The section (``global``, ``install``) is dropped."""
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        # Several words are printed as one Python string, so that a line break shows as \n.
        if words := value.strip("'\"").replace("\\n", " ").split():
            yield key.rpartition(".")[2], words


def _default_index(printed: str, relying: list[str], named: list[Named]) -> Iterator[Named]:
    """Return the default index for the tools that rely on it, and its second host wherever it is in use.

    That second host is where the files are: it belongs to the index, also where the index is configured.
    """
    index, _, files = printed.strip().partition(" ")
    yield from (Named(index, f"{tool}'s default index") for tool in relying)
    if relying or locate(index) in {locate(url) for url, _ in named} - {None}:
        yield Named(files, "files of the default index")

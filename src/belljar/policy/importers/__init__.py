"""Importers: what people have already, as a policy. Pure: text in, policy out.

`import_policy` recognises the format and reports what could not be carried over. `findings` has the rule that all
importers keep.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from belljar.policy.importers.findings import Imported
from belljar.policy.importers.forge import KEYS as FORGE_KEYS
from belljar.policy.importers.forge import MODES as FORGE_MODES
from belljar.policy.importers.forge import import_forge
from belljar.policy.importers.sandbox0 import import_sandbox0
from belljar.policy.importers.squid import import_squid, is_squid
from belljar.policy.importers.srt import import_srt
from belljar.policy.language.parse import DOCUMENT_KEYS
from belljar.policy.language.problems import InvalidPolicyError, Problem
from belljar.policy.language.reading import UnreadableError, snake_case
from belljar.policy.language.syntax import Syntax, read_text

__all__ = ["Imported", "import_policy"]

_KNOWN: Final = (
    "known are network policies of sandbox0, settings of srt, egress_allowlist.json of Forge, and of Squid "
    "a squid.conf or a list of dstdomain patterns"
)
_DOCUMENT_ENDINGS: Final = (".json", ".yaml", ".yml")
_BELLJAR_KEYS: Final = frozenset(DOCUMENT_KEYS) - {"mode", "egress"}

DocumentImporter: TypeAlias = Callable[[Mapping[str, Any]], Imported]


def import_policy(text: str, file_name: str = "") -> Imported:
    """Turn the configuration of another tool into a policy that is never more open.

    Raises InvalidPolicyError if the format is not known, or if something that is denied could not be denied here.
    """
    text = text.removeprefix("\ufeff")
    if not file_name.lower().endswith(_DOCUMENT_ENDINGS) and is_squid(text):
        return import_squid(text)
    document = _read_document(text)
    return _importer(document)(document)


def _read_document(text: str) -> Mapping[str, Any]:
    if not text.strip():
        raise InvalidPolicyError([Problem("", f"is empty; {_KNOWN}")])
    syntax = Syntax.JSON if text.lstrip().startswith(("{", "[")) else Syntax.YAML
    try:
        reading = read_text(text, syntax)
    except UnreadableError as error:
        raise InvalidPolicyError([Problem("", f"{error}; {_KNOWN}", error.line)]) from None
    if not isinstance(reading.data, dict) or not reading.data:
        raise InvalidPolicyError([Problem("", f"is in no known format; {_KNOWN}")])
    if reading.twice:
        message = "stands twice in the document; keep one of them"
        raise InvalidPolicyError([Problem(path, message, line) for path, line in reading.twice])
    return reading.data


def _importer(document: Mapping[str, Any]) -> DocumentImporter:
    keys = {snake_case(key): value for key, value in document.items()}
    if isinstance(network := keys.get("network"), dict):
        if {"allowed_domains", "denied_domains"} & {snake_case(key) for key in network}:
            return import_srt
    elif keys.keys() & _BELLJAR_KEYS:
        raise InvalidPolicyError([Problem("", "is one of Belljar already; use it as it is")])
    elif "egress" in keys or keys.get("mode") in ("block-all", "allow-all"):
        return import_sandbox0
    elif keys.keys() & set(FORGE_KEYS) or keys.get("mode") in FORGE_MODES:
        return import_forge
    raise InvalidPolicyError([Problem("", f"is in no known format; {_KNOWN}")])

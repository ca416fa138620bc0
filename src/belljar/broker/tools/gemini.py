"""Requests to Gemini, whose names may be written with humps or with underscores."""

from typing import Any, Final

from belljar.broker.tools.forms import (
    Form,
    anything,
    array_of,
    each,
    labels,
    nothing,
    object_of,
    plain,
    plain_fields,
    schema,
    settings,
)
from belljar.broker.tools.reading import answers_alone, refuse, shown


def _without_humps(names: dict[str, Any]) -> dict[str, Any]:
    """Return an object by names without humps and underscores, of which no two may be the same then."""
    found = dict[str, Any]()
    for name, value in names.items():
        plain_name = name.replace("_", "").casefold()
        if plain_name in found:
            raise refuse(f"the field {shown(name)} twice, in two spellings")
        found[plain_name] = value
    return found


def _object(fields: dict[str, Form]) -> Form:
    return object_of(fields, _without_humps)


def _several(form: Form) -> Form:
    """Return the form of an array of objects, or of the one that stands for it: some fields may be written so."""

    def check(value: Any, where: str) -> None:
        array_of(form)([value] if isinstance(value, dict) else value, where)

    return check


def _parts(value: Any, where: str) -> None:
    _several(_PART)(value, where)


_PART: Final = _object(
    {
        **plain_fields("text thought thoughtsignature"),
        "inlinedata": _object(plain_fields("mimetype data displayname")),
        "functioncall": _object({**plain_fields("id name willcontinue"), "args": anything, "partialargs": anything}),
        "functionresponse": _object(
            {**plain_fields("id name willcontinue scheduling"), "response": anything, "parts": _parts}
        ),
        "videometadata": settings,
        "mediaresolution": settings,
        "partmetadata": labels,
    }
)
_CONTENT: Final = _object({"role": plain, "parts": _parts})
_FUNCTION: Final = _object(
    {
        **plain_fields("name description behavior"),
        **each("parameters parametersjsonschema response responsejsonschema", schema),
    }
)
_GENERATION: Final = _object(
    {
        **plain_fields(
            """
            candidatecount stopsequences responsemimetype responsemodalities temperature topp topk seed maxoutputtokens
            presencepenalty frequencypenalty responselogprobs logprobs enableenhancedcivicanswers mediaresolution
            audiotimestamp enableaffectivedialog
            """
        ),
        **each("responseschema responsejsonschema", schema),
        **each("speechconfig thinkingconfig imageconfig", settings),
    }
)


def _within(value: Any, where: str) -> None:
    _REQUEST(value, where)


_REQUEST: Final = _object(
    {
        **plain_fields("model tasktype title outputdimensionality servicetier"),
        "contents": _several(_CONTENT),
        "content": _several(_CONTENT),
        "systeminstruction": _several(_CONTENT),
        "tools": _several(_object({"functiondeclarations": _several(_FUNCTION)})),
        "toolconfig": settings,
        "safetysettings": settings,
        "generationconfig": _GENERATION,
        "labels": labels,
        "cachedcontent": nothing,
        "generatecontentrequest": _within,
    }
)


def judge(request: dict[str, Any]) -> None:
    """Refuse what asks the provider for more than an answer. Raises RefusedRequest."""
    _REQUEST(request, "")
    answers_alone(request.get("model"))

"""Whether settings are of the types that parameters say: of a function, or of a class's constructor."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import convert

from pytest_agenteval.session.planning.plain_settings import is_plain
from pytest_agenteval.text.canonical import canonical


def refused_values(factory: Any, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give each setting whose value is not what its parameter says, with pydantic's errors of it.

    A parameter without a type takes anything, as does one whose type pydantic cannot read.
    """
    for name, kind in _types(factory).items():
        if name in settings and not _plainly_fits(settings[name], kind):
            yield from ((name, error) for error in _errors(settings[name], kind))


def _types(factory: Any) -> Mapping[str, Any]:
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception:  # there is no signature, or a hint that cannot be evaluated here
        return {}
    named = (each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
    return {each.name: each.annotation for each in named if _is_said(each.annotation)}


def _is_said(annotation: Any) -> bool:
    return annotation is not inspect.Parameter.empty and not isinstance(annotation, str)


def _plainly_fits(value: Any, kind: Any) -> bool:
    """Whether a value is of its type, seen without pydantic; False: nobody knows yet."""
    try:
        if not is_plain(kind):
            return False
        convert(value, kind)
    except Exception:  # whatever it is, it is told by whoever looks closer
        return False
    return True


def _errors(value: Any, kind: Any) -> list[Any]:
    from pydantic import ValidationError

    try:
        # As JSON: a list is a tuple there, and a text is no number.
        _adapter(kind).validate_json(canonical(value), strict=True)
    except ValidationError as error:
        return [dict(each) for each in error.errors(include_url=False)]
    except Exception:  # a type of which pydantic knows nothing: whoever is called has to say
        return []
    return []


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)

"""Checking a call's arguments against the tool's schema before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.tool import ToolSpec

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MOST_KEPT = 512

# Kept: compiling a schema costs a hundred times more than checking against it.
_validators: dict[int, tuple[Mapping[str, Any], Validator]] = {}


def load_checking(specs: Iterable[ToolSpec]) -> None:
    """Load what checking calls of these tools needs, so that no trial's seconds hold it."""
    for spec in specs:
        if spec.checked and spec.parameters:
            _validator(spec.parameters)


def complaint(spec: ToolSpec, args: Mapping[str, Any]) -> str:
    """Say what is wrong with the arguments, in the schema's words, or give an empty text."""
    if not spec.parameters:
        return ""
    errors = sorted(_validator(spec.parameters).iter_errors(dict(args)), key=lambda error: list(error.path))
    return "; ".join(_said(list(error.path), error.message) for error in errors[:5])


def _said(path: list[Any], message: str) -> str:
    place = ".".join(str(step) for step in path)
    return f"{place}: {message}" if place else message


def _validator(schema: Mapping[str, Any]) -> Validator:
    kept = _validators.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    from jsonschema import Draft202012Validator

    from pytest_agenteval.patterns import with_bounded_patterns

    if len(_validators) > MOST_KEPT:  # tools of trials long gone
        _validators.clear()
    made = with_bounded_patterns(Draft202012Validator)(schema)
    _validators[id(schema)] = (schema, made)
    return made

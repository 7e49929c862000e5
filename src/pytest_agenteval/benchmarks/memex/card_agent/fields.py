"""Checking what a card's template was filled with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_agenteval.benchmarks.memex.card_agent.catalogue import Field, Template
from pytest_agenteval.benchmarks.memex.journal.naming import named


def complaints(template: Template, data: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a template's data, field by field; nothing when it will do.

    Only required fields are checked, and the members of lists of objects; a card with an odd optional field
    is still a card.
    """
    found = list(_of_fields(template.fields, data, ""))
    if template.either and not any(isinstance(data.get(name), str) for name in template.either):
        found.append(f"one of {', '.join(template.either)} must be there, as a text")
    return found


def _of_fields(fields: tuple[Field, ...], data: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for field in fields:
        value, place = data.get(field.name), prefix + field.name
        if value is None:
            if field.required:
                yield f"{place} is missing: {_wanted(field)}"
        elif field.parts:
            yield from _of_list(field, value, place)
        elif field.required and not _FITS[field.kind](value):
            yield f"{place} must be {_WANTED[field.kind]}, not {named(value)}"


def _of_list(field: Field, value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, list) or (field.required and not value):
        yield f"{place} must be {_wanted(field)}, not {named(value)}"
        return
    for number, member in enumerate(value):
        if isinstance(member, Mapping):
            yield from _of_fields(field.parts, member, f"{place}[{number}].")
        else:
            yield f"{place}[{number}] must be an object, not {named(member)}"


def _wanted(field: Field) -> str:
    return "a list of objects, at least one" if field.parts else _WANTED[field.kind]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(member, str) for member in value)


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "filled": _is_filled,
    "number": _is_number,
    "integer": _is_integer,
    "texts": _is_texts,
    "given": lambda value: True,
}

_WANTED: Mapping[str, str] = {
    "text": "a text",
    "filled": "a text that is not blank",
    "number": "a number",
    "integer": "a whole number",
    "texts": "a list of texts, at least one",
    "given": "anything but nothing",
}

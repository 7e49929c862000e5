"""The catalogue of card templates, read from ``templates.yaml``, and what a template's fields must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from pytest_agenteval.benchmarks.memex.journal.entries import describe_value
from pytest_agenteval.records.record import FrozenValue

_KIND_WORDS = {
    "filled": "text",
    "given": "text or number",
    "texts": "list of texts",
    "flag": "true or false",
    "map": "object",
}


class Field(FrozenValue, frozen=True):
    """One field of a template; ``parts`` are the fields of each member where it holds a list of objects."""

    name: str
    required: bool
    kind: str = ""
    note: str = ""
    parts: tuple[Field, ...] = ()

    def __str__(self) -> str:
        star = "*" if self.required else ""
        if self.parts:
            return f"{self.name}{star} (list of {{{', '.join(map(str, self.parts))}}})"
        kind_and_note = [_KIND_WORDS.get(self.kind, self.kind), self.note]
        return f"{self.name}{star} ({', '.join(part for part in kind_and_note if part)})"


class Template(FrozenValue, frozen=True):
    """One shape a card can have; of the fields in ``either`` one is enough."""

    id: str
    use: str
    fields: tuple[Field, ...]
    either: tuple[str, ...] = ()

    @property
    def choice(self) -> str:
        """What to say of fields of which one is enough."""
        return f"; one of {', '.join(self.either)} must be there" if self.either else ""


@cache
def catalogue() -> Mapping[str, Template]:
    """Give every template by its id, in the order of the file."""
    text = files(__package__).joinpath("templates.yaml").read_text(encoding="utf-8")
    return {id: _template(id, template_yaml) for id, template_yaml in yaml.safe_load(text).items()}


def _template(id: str, template_yaml: Mapping[str, Any]) -> Template:
    return Template(id, template_yaml["use"], _fields(template_yaml), tuple(template_yaml.get("either", ())))


def _fields(fields_yaml: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(
        _field(name, share == "required", field_yaml)
        for share in ("required", "optional")
        for name, field_yaml in fields_yaml.get(share, {}).items()
    )


def _field(name: str, required: bool, field_yaml: str | Mapping[str, Any]) -> Field:
    if isinstance(field_yaml, Mapping):
        return Field(name, required, parts=_fields(field_yaml))
    kind, _, note = field_yaml.partition(",")
    return Field(name, required, kind, note.strip())


def template_problems(template: Template, data: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a template's data, field by field; nothing when it will do.

    Only required fields are checked, and the members of lists of objects; a card with an odd optional field
    is still a card.
    """
    problems = list(_of_fields(template.fields, data, ""))
    if template.either and not any(isinstance(data.get(name), str) for name in template.either):
        problems.append(f"one of {', '.join(template.either)} must be there, as a text")
    return problems


def _of_fields(fields: tuple[Field, ...], data: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for field in fields:
        value, place = data.get(field.name), prefix + field.name
        if value is None:
            if field.required:
                yield f"{place} is missing: {_expectation(field)}"
        elif field.parts:
            yield from _of_list(field, value, place)
        elif field.required and not _FITS[field.kind](value):
            yield f"{place} must be {_EXPECTED[field.kind]}, not {describe_value(value)}"


def _of_list(field: Field, value: Any, place: str) -> Iterator[str]:
    if not isinstance(value, list) or (field.required and not value):
        yield f"{place} must be {_expectation(field)}, not {describe_value(value)}"
        return
    for number, member in enumerate(value):
        if isinstance(member, Mapping):
            yield from _of_fields(field.parts, member, f"{place}[{number}].")
        else:
            yield f"{place}[{number}] must be an object, not {describe_value(member)}"


def _expectation(field: Field) -> str:
    return "a list of objects, at least one" if field.parts else _EXPECTED[field.kind]


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

_EXPECTED: Mapping[str, str] = {
    "text": "a text",
    "filled": "a text that is not blank",
    "number": "a number",
    "integer": "a whole number",
    "texts": "a list of texts, at least one",
    "given": "anything but nothing",
}

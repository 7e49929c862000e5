"""Turns a value into the spec that it describes, or lists every problem that its author has to mend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.task_spec import SPELLINGS
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean, nearest_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, ValidationError

    from pytest_agenteval.tasks.documents import ParsedDocument
    from pytest_agenteval.tasks.task_spec import Spec


_LONGEST = 60
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_MISSING = object()
ModelSchema = Mapping[str, Any]


def explain(
    error: ValidationError, document: ParsedDocument, file: str, base_path: KeyPath, shape: ModelSchema
) -> list[Problem]:
    """Give every problem of one value of a document, in reading order.

    ``base_path`` leads to the value that was validated; ``shape`` is its model's JSON Schema, whose
    descriptions are the *expected* lines.
    """
    writer = _ProblemWriter(document, file, base_path, shape)
    details = error.errors(include_url=False)
    return without_consequences(problem for detail in details for problem in writer.problems(detail))


def without_consequences(problems: Iterable[Problem]) -> list[Problem]:
    """Drop a complaint that another one explains; the order is that of the file.

    A problem of a child explains that of its parent, the first of several about one key explains the others,
    and a misspelled key explains that the right one is missing.
    """
    first_at: dict[KeyPath, Problem] = {}
    for problem in problems:
        first_at.setdefault(problem.path, problem)
    parents = {path[:length] for path in first_at for length in range(len(path))}
    # The hint of ``did_you_mean`` quotes the key that is meant.
    meant = {
        (*problem.path[:-1], name)
        for problem in first_at.values()
        if (name := problem.hint.split("'")[1] if problem.hint.startswith("did you mean '") else "")
    }
    causes = [
        problem
        for path, problem in first_at.items()
        if path not in parents and not (problem.found.startswith("no key ") and path in meant)
    ]
    return sorted(causes, key=lambda problem: problem.line or 0)


def value_text(value: object) -> str:
    """Describe a value in a few words, with its type in plain words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, str):
        return f"{_short(value)!r} (text)"
    if isinstance(value, int | float):
        return f"{value} (number)"
    if isinstance(value, Mapping):
        return f"a map with {_short(', '.join(map(str, value)))}" if value else "an empty map"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) and value else "an empty list"


def belongs_in_hint(above: str, key: str | int) -> str:
    """Give the hint for a key that belongs into the map beside it."""
    return f"it stands in `{above}: {{{key}: ...}}`"


class _ProblemWriter:
    """Turns pydantic's details into problems, for one document and one schema."""

    def __init__(self, document: ParsedDocument, file: str, base_path: KeyPath, shape: ModelSchema) -> None:
        self._document, self._file, self._base, self._shape = document, file, base_path, shape

    def problems(self, detail: ErrorDetails) -> Iterator[Problem]:
        path = self._path_in_document(detail["loc"])
        if detail["type"] == "extra_forbidden":
            yield self._unknown(path)
        elif detail["type"] == "missing":
            expected = self._expected((*path, detail["loc"][-1]))
            yield self._problem((*path, detail["loc"][-1]), expected, f"no key {detail['loc'][-1]!r}")
        else:
            value = _at(self._document.value, (*self._base, *path))
            hint = quotes_hint(detail["type"], value)
            yield self._problem(path, self._expected(path), value_text(value), hint)

    def _problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        place = (*self._base, *path)
        return Problem(self._file, self._document.line_of(place), place, expected, found, hint)

    def _path_in_document(self, loc: KeyPath) -> KeyPath:
        """Give those steps of a location that are in the document.

        Pydantic adds the names of branches of a union, and the models rename keys in their other spelling.
        """
        value = _at(self._document.value, self._base)
        path: KeyPath = ()
        for step in loc:
            for spelling in (step, *(theirs for theirs, ours in SPELLINGS.items() if ours == step)):
                if (below := _at(value, (spelling,))) is not _MISSING:
                    value, path = below, (*path, spelling)
                    break
        return path

    def _unknown(self, path: KeyPath) -> Problem:
        key = str(path[-1])
        above = _shape_at(self._shape, path[:-1])
        properties = _branch_with(path[-1], above, self._shape).get("properties", {})
        names = sorted(set(properties) - set(SPELLINGS))
        if key in properties:
            # Both spellings are there and differ.
            expected = f"the same value as {SPELLINGS[key]!r}, or only one of the two"
            return self._problem(path, expected, value_text(_at(self._document.value, (*self._base, *path))))
        hint = ""
        # The key may belong into a map beside it.
        for name, shape in properties.items():
            if key in _resolved(shape, self._shape).get("properties", {}):
                hint = belongs_in_hint(name, key)
                break
        hint = hint or did_you_mean(key, names)
        return self._problem(path, f"one of {nearest_names(key, names)}", f"unknown key {key!r}", hint)

    def _expected(self, path: KeyPath) -> str:
        shape = _shape_at(self._shape, path)
        if "description" in shape and path:
            return str(shape["description"])
        return _described(_resolved(shape, self._shape))


def quotes_hint(refused: str, value: object) -> str:
    """Give the hint for a number that should be a text, or a text that should be a number."""
    if refused == "string_type" and isinstance(value, int | float):
        return f'write "{value_text(value).partition(" (")[0]}" with quotes: then it is a text'
    number = refused in ("int_type", "float_type") and isinstance(value, str)
    return "without quotes it is a number" if number and _NUMBER.fullmatch(str(value)) else ""


_TYPES = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def _described(shape: ModelSchema) -> str:
    properties = [key for key in shape.get("properties", ()) if key not in SPELLINGS]
    if not properties:
        return str(shape.get("description") or _TYPES.get(str(shape.get("type")), "another value"))
    needed = [key for key in properties if key in shape.get("required", ())]
    others = sorted(set(properties) - set(needed))
    also = f" (and, as needed, {', '.join(others)})" if others else ""
    return f"a map with {', '.join(needed)}{also}" if needed else f"a map of {', '.join(others)}"


def _shape_at(root: ModelSchema, path: KeyPath) -> ModelSchema:
    shape = root
    for step in path:
        shape = _branch_with(step, shape, root)
        below = shape.get("items") if isinstance(step, int) else shape.get("properties", {}).get(step)
        below = below if below is not None else shape.get("additionalProperties")
        shape = below if isinstance(below, dict) else {}
    return shape


def _branch_with(step: str | int, shape: ModelSchema, root: ModelSchema) -> ModelSchema:
    """Resolve a schema to its branch that has something at this step; a branch that is a text has nothing."""
    keyword = "items" if isinstance(step, int) else "properties"
    branches = (_resolved(branch, root) for branch in shape.get("anyOf", ()))
    return next((branch for branch in branches if keyword in branch), _resolved(shape, root))


def _resolved(shape: ModelSchema, root: ModelSchema) -> ModelSchema:
    """Follow references, and take the first branch that is not null."""
    branches = [problem for problem in shape.get("anyOf", ()) if problem.get("type") != "null"]
    if branches:
        return _resolved(branches[0], root)
    if "$ref" in shape:
        target: ModelSchema = root["$defs"][shape["$ref"].rsplit("/", 1)[-1]]
        return _resolved(target, root)
    return shape


def _at(value: Any, path: KeyPath) -> Any:
    for step in path:
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not in_list and not (isinstance(value, dict) and step in value):
            return _MISSING
        value = value[step]
    return value


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


SpecT = TypeVar("SpecT", bound="Spec")


def spec_of(kind: type[SpecT], value: Any) -> SpecT:
    """Make a spec of a value as JSON has it; raises pydantic's ValidationError with all that is wrong.

    A value that msgspec takes is right. A value that it refuses is read again by pydantic, which lists every
    problem at once and knows other spellings. To load pydantic takes a first run 100 ms, which is spent only
    on mistakes.
    """
    try:
        return from_builtins(kind, value)
    except (msgspec.ValidationError, OverflowError):
        # Before 0.22 a number that no float can hold raises the second.
        from pytest_agenteval.tasks.pydantic_models import parse_spec

        return parse_spec(kind, value)


def read_spec(kind: type[SpecT], document: ParsedDocument, place: KeyPath = ()) -> SpecT:
    """Make a spec of a document, or of the value at a place in it, or raise every problem there."""
    value: Any = document.value
    for step in place:
        value = value[step]
    try:
        return spec_of(kind, value)
    except ValueError as error:
        raise problems_of(kind, error, document, place) from None


def problems_of(
    kind: type[Spec], error: ValueError, document: ParsedDocument, place: KeyPath = (), file: str = ""
) -> ProblemsFound:
    """Give the problems of a value that ``spec_of`` refused, at their places in the document.

    Messages name the document's own path, or ``file`` in its place.
    """
    from pydantic import ValidationError

    from pytest_agenteval.tasks.pydantic_models import schema_of

    assert isinstance(error, ValidationError), error
    name = file or short_path(document.path)
    return ProblemsFound(explain(error, document, name, place, schema_of(kind)))

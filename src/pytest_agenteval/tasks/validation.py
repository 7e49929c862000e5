"""Turns a value into the spec that it describes, or lists every problem that its author has to mend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.task_spec import SPELLINGS, Holds, OfKind, Spec, TwoSpellings
from pytest_agenteval.text.errors import (
    MOST_LISTED,
    KeyPath,
    Problem,
    ProblemsFound,
    did_you_mean,
    nearest_names,
)

if TYPE_CHECKING:
    from pytest_agenteval.tasks.documents import ParsedDocument

SpecT = TypeVar("SpecT", bound=Spec)
_LONGEST = 60
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# Before 0.22 a number that no float can hold raises the second.
_REFUSALS = (msgspec.ValidationError, OverflowError)
_TYPES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class SpecRefused(ValueError):
    """Raised for a value that is no spec of its kind; ``problems_of`` says why."""


def spec_of(kind: type[SpecT], value: Any) -> SpecT:
    """Make a spec of a value as JSON has it; raises SpecRefused."""
    try:
        return from_builtins(kind, value)
    except _REFUSALS:
        pass
    try:
        return from_builtins(kind, _in_our_spelling(kind, value))
    except _REFUSALS:
        raise SpecRefused(kind.__name__) from None


def read_spec(kind: type[SpecT], document: ParsedDocument, place: KeyPath = ()) -> SpecT:
    """Make a spec of a document, or of the value at a place in it, or raise every problem there."""
    value: Any = document.value
    for step in place:
        value = value[step]
    try:
        return spec_of(kind, value)
    except SpecRefused:
        raise problems_of(kind, value, document, place) from None


def problems_of(
    kind: type[Spec], value: Any, document: ParsedDocument, place: KeyPath = (), file: str = ""
) -> ProblemsFound:
    """Give the problems of a value that ``spec_of`` refused, at their places in the document.

    Messages name the document's own path, or ``file`` in its place.
    """
    found = _Search(document, file or short_path(document.path)).problems(kind, value, place)
    return ProblemsFound(without_consequences(found))


def _in_our_spelling(kind: type[Spec], value: Any) -> Any:
    """Rename keys that are in the other spelling, also in maps within; two spellings have to agree."""
    if not isinstance(value, dict):
        return value
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    renamed = dict(value)
    for theirs, ours in SPELLINGS.items() if issubclass(kind, TwoSpellings) else ():
        if theirs in value and ours in fields and value.get(ours, value[theirs]) == value[theirs]:
            renamed[ours] = renamed.pop(theirs)
    for key, inner in renamed.items():
        for branch in _branches(fields[key].type)[1] if key in fields else ():
            if _is_spec(branch):
                renamed[key] = _in_our_spelling(branch, inner)
    return renamed


def _branches(hint: Any) -> tuple[str, list[Any], tuple[Any, ...]]:
    """Give what a type is described as, its branches without None, and its rules."""
    rules: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *found = get_args(hint)
        rules = tuple(found)
    texts = [rule.description for rule in rules if isinstance(rule, msgspec.Meta) and rule.description]
    branches = [hint]
    if get_origin(hint) in (Union, UnionType):
        branches = [branch for branch in get_args(hint) if branch is not NoneType]
    return (texts[-1] if texts else ""), branches, rules


class _Search:
    """Finds what is wrong with a value of a document: msgspec decides, and this says where."""

    def __init__(self, document: ParsedDocument, file: str) -> None:
        self._document, self._file = document, file

    def problems(self, hint: Any, value: Any, path: KeyPath) -> Iterator[Problem]:
        """Yield every problem of a value that should be of a type."""
        text, branches, rules = _branches(hint)
        if value is None and _accepts(hint, None):
            return
        for rule in rules:
            if isinstance(rule, OfKind) and isinstance(value, dict) and rule.key in value:
                yield from self.problems(rule.kind, value, path)
                return
        found: list[Problem] = []
        for branch in branches:
            inner = self._within(branch, value, path)
            if inner is None:
                continue
            if not inner and (_is_spec(branch) or _accepts(hint, value)) and _holds(rules, value):
                return
            found = found or inner
        if found:
            yield from found
        else:
            broken = (
                rule.hint for rule in rules if isinstance(rule, Holds) and rule.hint and not rule.rule(value)
            )
            hint = next(broken, "") or _hint(branches, value)
            yield self._problem(path, text or _described(branches[0]), value_text(value), hint)

    def _within(self, branch: Any, value: Any, path: KeyPath) -> list[Problem] | None:
        """Give the problems of what a value holds; None where the value itself is refused."""
        _, (bare, *others), rules = _branches(branch)
        if others or (isinstance(value, dict) and any(isinstance(rule, OfKind) for rule in rules)):
            return list(self.problems(branch, value, path))
        origin, args = get_origin(bare), get_args(bare)
        if _is_spec(bare):
            if not isinstance(value, dict):
                return None
            found = list(self._of_map(bare, value, path))
            return found if found or _accepts(bare, _in_our_spelling(bare, value)) else None
        parts: Iterable[tuple[str | int, Any]]
        if origin is tuple and isinstance(value, list):
            parts, kind = enumerate(value), args[0]
        elif origin is Mapping and isinstance(value, dict):
            parts, kind = value.items(), args[1]
        else:
            return [] if _accepts(branch, value) and _holds(rules, value) else None
        return [problem for key, part in parts for problem in self.problems(kind, part, (*path, key))]

    def _of_map(self, kind: type[Spec], value: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        names = {name: name for name in fields}
        if issubclass(kind, TwoSpellings):
            names |= {theirs: ours for theirs, ours in SPELLINGS.items() if ours in fields}
        for key, part in value.items():
            ours = names.get(key)
            if ours is None:
                yield self._unknown(key, kind, path)
            elif ours != key and value.get(ours, part) != part:
                expected = f"the same value as {ours!r}, or only one of the two"
                yield self._problem((*path, key), expected, value_text(part))
            else:
                yield from self.problems(fields[ours].type, part, (*path, key))
        present = {names.get(key) for key in value}
        for name, field in fields.items():
            if field.required and name not in present:
                text, branches, _ = _branches(field.type)
                yield self._problem((*path, name), text or _described(branches[0]), f"no key {name!r}")

    def _unknown(self, key: str, kind: type[Spec], path: KeyPath) -> Problem:
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        names = sorted(fields)
        # The key may belong into a map beside it.
        beside = (
            belongs_in_hint(name, key)
            for name, field in fields.items()
            for branch in _branches(field.type)[1]
            if isinstance(branch, type)
            and issubclass(branch, Spec)
            and key in branch.__struct_encode_fields__
        )
        hint = next(beside, "") or did_you_mean(key, names)
        # Of many names the five nearest ones are no help if none is near.
        if not hint and len(names) > MOST_LISTED and kind.__name__ in ("Suite", "Task"):
            hint = f"`agenteval schema {kind.__name__.lower()}` prints every key"
        expected = f"one of {nearest_names(key, names)}"
        return self._problem((*path, key), expected, f"unknown key {key!r}", hint)

    def _problem(self, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        return Problem(self._file, self._document.line_of(path), path, expected, found, hint)


def _is_spec(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Spec)


def _accepts(hint: Any, value: Any) -> bool:
    try:
        from_builtins(hint, value)
    except _REFUSALS:
        return False
    return True


def _holds(rules: Iterable[Any], value: Any) -> bool:
    return all(rule.rule(value) for rule in rules if isinstance(rule, Holds))


def _described(kind: Any) -> str:
    """Describe a type that has no description of its own."""
    text, (bare, *_), _ = _branches(kind)
    if text or not _is_spec(bare):
        return text or _TYPES.get(bare, "another value")
    fields = msgspec.structs.fields(bare)
    needed = [field.encode_name for field in fields if field.required]
    others = sorted(field.encode_name for field in fields if not field.required)
    also = f" (and, as needed, {', '.join(others)})" if others else ""
    return f"a map with {', '.join(needed)}{also}" if needed else f"a map of {', '.join(others)}"


def _needs_only_a_name(kind: Any) -> bool:
    return _is_spec(kind) and [field.name for field in msgspec.structs.fields(kind) if field.required] == [
        "name"
    ]


def _hint(branches: Sequence[Any], value: object) -> str:
    bare = [_branches(branch)[1][0] for branch in branches]
    words = [word for kind in bare if get_origin(kind) is Literal for word in get_args(kind)]
    if isinstance(value, str) and words:
        return did_you_mean(value, map(str, words))
    # A name alone, in place of the map that holds it.
    if isinstance(value, str):
        if any(map(_needs_only_a_name, bare)):
            return f"write {{name: {_short(value)}}}"
        if any(get_origin(kind) is tuple and _needs_only_a_name(get_args(kind)[0]) for kind in bare):
            return f"write [{{name: {_short(value)}}}]"
    # Of a value that may be a text or a number it is not known which was meant, and of one that is first of
    # all a map neither is.
    is_text = bare[0] is str and not (int in bare or float in bare)
    is_number = len(bare) == 1 and bare[0] in (int, float)
    return quotes_hint("string_type" if is_text else "int_type" if is_number else "", value)


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


def quotes_hint(refused: str, value: object) -> str:
    """Give the hint for a number that should be a text, or a text that should be a number."""
    if refused == "string_type" and isinstance(value, int | float):
        return f'write "{value_text(value).partition(" (")[0]}" with quotes: then it is a text'
    number = refused in ("int_type", "float_type") and isinstance(value, str)
    return "without quotes it is a number" if number and _NUMBER.fullmatch(str(value)) else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

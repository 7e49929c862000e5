"""What answers and files hold: JSON, YAML, front matter, words and patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_agenteval.graders.grader_settings import brief, quoted_pattern
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.tasks.documents import parse_document
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.json_values import (
    composed_text,
    fold_text,
    mend_surrogates,
    normal_keys,
    normal_text,
    with_normal_keys,
)
from pytest_agenteval.text.patterns import author_pattern

_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<inside>.*?)\n?[ \t]*(?P=fence)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The value that a text stands for, in each way to read it, or why it cannot be read."""

    readings: tuple[Any, ...] = (None,)
    problem: str = ""


def parse_answer(text: str) -> ParsedText:
    """Read an answer that is one JSON value, or one code fence that holds one.

    A key that comes twice is a problem here, other than in files: the task wants proper JSON.
    """
    stripped = text.strip()
    if not stripped:
        return ParsedText(problem="no answer")
    fenced = _FENCE.fullmatch(stripped)
    # A model may write half of a surrogate pair, which strict UTF-8 refuses.
    data = (stripped if fenced is None else fenced["inside"]).encode("utf-8", "surrogatepass")
    try:
        return ParsedText((with_normal_keys(parse_document(Path("answer.json"), data).value),))
    except ProblemsFound as error:
        first = error.problems[0]
        line = "" if first.line is None else f"line {first.line}: "
        return ParsedText(problem=f"{line}{first.found} in place of {first.expected}")


def text_checks(
    where: str, parts: Sequence[str], text: str, problem: str = "", *, fold: bool = False
) -> list[Check]:
    """Check for each part whether a text contains it; where there is a problem, every check fails."""
    folded = fold_text if fold else normal_text
    # Once for all parts: the text may have megabytes.
    whole = folded(text)
    found = problem or brief(text)
    return [
        Check(f"{where} contains {part!r}", not problem and folded(part) in whole, repr(part), found)
        for part in parts
    ]


def pattern_checks(where: str, patterns: Sequence[str], text: str, problem: str = "") -> list[Check]:
    """Check for each pattern whether it is found in a text; where there is a problem, every check fails."""
    normal, composed = normal_text(text), composed_text(text)
    checks = []
    for pattern in patterns:
        compiled = author_pattern(pattern, re.MULTILINE)
        # A pattern that names \r or a byte order mark is searched for in the text that still has them.
        inside = not problem and compiled.search(composed if compiled.names_line_ends else normal) is not None
        shown = quoted_pattern(pattern)
        checks.append(
            Check(f"{where} matches {shown}", inside, f"a match of {shown}", problem or brief(text))
        )
    return checks


def checks_to_score(checks: Sequence[Check], *, any_will_do: bool) -> Sequence[Check]:
    """Return all checks or, where any will do, one: a check that passed, else one that names all of them."""
    if not any_will_do or len(checks) == 1:
        return checks
    held = next((check for check in checks if check.passed), None)
    if held is not None:
        return (held,)
    claims = " or ".join(check.claim for check in checks)
    return (Check(claims, False, " or ".join(check.expected for check in checks), checks[0].found),)


if TYPE_CHECKING:
    from yaml import SafeLoader as SafeLoader
else:
    # The loader of libyaml is many times faster, but PyYAML can be installed without it.
    SafeLoader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# A document without aliases has fewer values for each character. Nested aliases could stand for more values
# than fit into memory.
_VALUES_PER_CHARACTER = 20


class UnreadableDocument(ValueError):
    """A text that no program can read as JSON or YAML; says where and why."""


def json_value(text: str) -> Any:
    """Read JSON as Python does: of a key that comes twice the last one counts, and NaN is a value."""
    try:
        # Editors on Windows write a byte order mark, which json.loads refuses.
        return _Plain(text).value(json.loads(text.removeprefix("\ufeff")))
    except json.JSONDecodeError as error:
        raise UnreadableDocument(f"line {error.lineno}: {error.msg}") from None
    # ValueError also comes from a number of more digits than Python converts, RecursionError from nesting.
    except (ValueError, RecursionError) as error:
        raise UnreadableDocument(f"JSON that cannot be read: {error}") from None


def yaml_values(text: str) -> tuple[Any, ...]:
    """Read YAML in both ways that are in use, YAML 1.2 first.

    ``yes``, ``2026-09-17``, ``017`` and ``12:30`` are texts in YAML 1.2. In YAML 1.1, as PyYAML reads it,
    they are a truth value, a date (given here as its text), 15 and 750. Where only one way can read the
    document, only that reading is returned.
    """
    text = text.removeprefix("\ufeff")
    readings, problem = [], ""
    for loader in (_Loader12, SafeLoader):
        try:
            # Both are safe loaders: they make plain values and call nothing.
            readings.append(_Plain(text).value(yaml.load(text, loader)))
        # PyYAML lets a ValueError through for a date that no calendar has, such as 2026-02-30.
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
            mark, reason = getattr(error, "problem_mark", None), getattr(error, "problem", None)
            line = "" if mark is None else f"line {mark.line + 1}: "
            problem = problem or f"{line}{reason or error or 'nested too deeply'}".splitlines()[0]
    if not readings:
        raise UnreadableDocument(problem)
    return tuple(readings)


class _Loader12(SafeLoader):
    """The safe loader with the scalars of YAML 1.2's core schema; numbers that begin with 0 stay texts."""


# A table of its own: without it, add_implicit_resolver would start from YAML 1.1's patterns.
_Loader12.yaml_implicit_resolvers = {}

# After the core schema of the YAML 1.2 specification; merge keys are added, for front matter uses them.
for _tag, _pattern, _first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", "[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", "<<", ["<"]),
):
    _Loader12.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)


class _Plain:
    """Makes JSON values of what was read: keys are texts in one normal form, dates are texts."""

    def __init__(self, text: str) -> None:
        self._left = _VALUES_PER_CHARACTER * (len(text) + 1)

    def value(self, value: Any) -> Any:
        """Give the value as JSON; raises ValueError for what JSON lacks and for aliases that multiply."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("aliases that expand to too much")
        if isinstance(value, str):
            return mend_surrogates(value)
        if isinstance(value, Mapping):
            return normal_keys({self._key(key): self.value(inner) for key, inner in value.items()})
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        if isinstance(value, date):
            return value.isoformat()
        if value is None or isinstance(value, bool | int | float):
            return value
        raise ValueError(f"a value that JSON has not: {type(value).__name__}")

    def _key(self, key: Any) -> str:
        key = self.value(key)
        return key if isinstance(key, str) else json.dumps(key)


# Byte order mark, Windows line ends and dots as the end are all usual in Markdown editors.
_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)


def parse_text(text: str, name: str) -> ParsedText:
    """Read a text as the JSON or YAML that a file of this name holds, as other programs read it."""
    try:
        is_json = name.lower().endswith(".json")
        return ParsedText((json_value(text),) if is_json else yaml_values(text))
    except UnreadableDocument as unreadable:
        return ParsedText(problem=str(unreadable))


def parse_front_matter(text: str) -> ParsedText:
    """Read the YAML between the ``---`` lines at a text's beginning; an empty map where there are none."""
    match = _FRONT.match(text)
    if match is None:
        return ParsedText(({},))
    # The empty line stands for the opening dashes, so that a problem names the line of the file.
    front = parse_text("\n" + match["yaml"], "front-matter.yaml")
    # Nothing between the dashes is an empty map, not null.
    return ParsedText(({},)) if front.readings[0] is None and not front.problem else front

"""What stands in a text: JSON, YAML, front matter, words and patterns; the same for answers and files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agenteval.graders.formatting import brief
from pytest_agenteval.graders.outcome.documents import UnreadableDocument, json_value, yaml_values
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.tasks.documents import parse_document
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.json_values import composed_text, fold_text, normal_text, with_normal_keys
from pytest_agenteval.text.patterns import author_pattern

_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<inside>.*?)\n?[ \t]*(?P=fence)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The value that a text stands for, in each way to read it, or why it cannot be read."""

    readings: tuple[Any, ...] = (None,)
    problem: str = ""


def parse_text(text: str, name: str) -> ParsedText:
    """Read a text as the JSON or YAML that a file of this name holds, as other programs read it."""
    try:
        is_json = name.lower().endswith(".json")
        return ParsedText((json_value(text),) if is_json else yaml_values(text))
    except UnreadableDocument as unreadable:
        return ParsedText(problem=str(unreadable))


def parse_front_matter(text: str) -> ParsedText:
    """Read the YAML between the ``---`` lines at a text's beginning; where there are none, it is empty."""
    match = _FRONT.match(text)
    if match is None:
        return ParsedText(({},))
    # The line before it keeps the lines' numbers.
    front = parse_text("\n" + match["yaml"], "front-matter.yaml")
    return ParsedText(({},)) if front.readings[0] is None and not front.problem else front


def parse_answer(text: str) -> ParsedText:
    """Read an answer that is one JSON value, or one code fence that holds one.

    Strictly, with no key twice: that it is JSON is what was asked for.
    """
    stripped = text.strip()
    if not stripped:
        return ParsedText(problem="no answer")
    fenced = _FENCE.fullmatch(stripped)
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
    """Ask for each part whether a text contains it; where there is a problem, it contains none."""
    folded = fold_text if fold else normal_text
    whole = folded(text)  # once for all parts: the text may have megabytes
    return [
        Check(
            f"{where} contains {part!r}",
            not problem and folded(part) in whole,
            repr(part),
            problem or brief(text),
        )
        for part in parts
    ]


def pattern_checks(where: str, patterns: Sequence[str], text: str, problem: str = "") -> list[Check]:
    """Ask for each pattern whether it is found in a text; where there is a problem, none is."""
    normal, composed = normal_text(text), composed_text(text)
    checks = []
    for pattern in patterns:
        compiled = author_pattern(pattern, re.MULTILINE)
        inside = not problem and compiled.search(composed if compiled.names_line_ends else normal) is not None
        claim = f"{where} matches {brief(pattern)}"
        checks.append(Check(claim, inside, f"a match of {brief(pattern)}", problem or brief(text)))
    return checks


def checks_to_score(checks: Sequence[Check], *, any_will_do: bool) -> Sequence[Check]:
    """Give the checks to score: all of them or, where any will do, one that holds, else one of all."""
    if not any_will_do or len(checks) == 1:
        return checks
    held = next((check for check in checks if check.passed), None)
    if held is not None:
        return (held,)
    claims = " or ".join(check.claim for check in checks)
    return (Check(claims, False, " or ".join(check.expected for check in checks), checks[0].found),)

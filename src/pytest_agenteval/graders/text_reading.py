"""What an answer holds: JSON, words and patterns; texts of files are compared by the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agenteval.graders.grader_settings import brief
from pytest_agenteval.records.evidence import Check
from pytest_agenteval.tasks.documents import parse_document
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.json_values import (
    composed_text,
    fold_text,
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
        shown = brief(pattern)
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

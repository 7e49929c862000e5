"""Asking of a text what it contains; the same for answers and files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_agenteval.graders.matching.folding import folded
from pytest_agenteval.graders.shown import shown
from pytest_agenteval.patterns import Pattern
from pytest_agenteval.records.grade import Check


def text_check(where: str, wanted: str, text: str, problem: str = "", *, fold: bool = False) -> Check:
    """Ask whether a text contains another; where there is a problem, it does not."""
    inside = folded(wanted) in folded(text) if fold else wanted in text
    return Check(f"{where} contains {wanted!r}", not problem and inside, repr(wanted), problem or shown(text))


def pattern_check(where: str, pattern: str, text: str, problem: str = "") -> Check:
    """Ask whether a pattern is found in a text; where there is a problem, it is not."""
    inside = not problem and Pattern(pattern, re.MULTILINE).search(text) is not None
    claim = f"{where} matches {shown(pattern)}"
    return Check(claim, inside, f"a match of {shown(pattern)}", problem or shown(text))


def enough(checks: Sequence[Check], *, any_will_do: bool) -> Sequence[Check]:
    """Give the checks to score: all of them or, where any will do, one that holds, else one of all."""
    if not any_will_do or len(checks) == 1:
        return checks
    held = next((check for check in checks if check.passed), None)
    if held is not None:
        return (held,)
    claims = " or ".join(check.claim for check in checks)
    return (Check(claims, False, " or ".join(check.expected for check in checks), checks[0].found),)

"""What was decided about a run's trials, in one line: ``41 reused, 6 regraded: grader pkm_routed 3 -> 4``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

MOST_REASONS = 3


def decisions_line(counts: Mapping[tuple[str, str], int], *, resumed: bool) -> str:
    """Say how many trials are kept, graded again, tried again and tried for the first time, and why."""
    courses: dict[str, Counter[str]] = {}
    for (course, because), count in counts.items():
        courses.setdefault("keep" if course == "take over" else course, Counter())[because] += count
    kept, total = courses.get("keep", Counter()).total(), sum(counts.values())
    if resumed and kept == total and total:
        return f"nothing to do: {_all(total)} had finished"
    return ", ".join(_parts(courses, resumed=resumed))


def _all(total: int) -> str:
    return "the only trial" if total == 1 else f"all {total} trials"


def _parts(courses: Mapping[str, Counter[str]], *, resumed: bool) -> Iterator[str]:
    words = {
        "keep": "had finished" if resumed else "reused",
        "regrade": "regraded",
        "rerun": "rerun",
        "run": "to run",
    }
    for course, word in words.items():
        if reasons := courses.get(course):
            yield f"{reasons.total()} {word}{_reasons(reasons)}"


def _reasons(reasons: Counter[str]) -> str:
    """Name the most frequent reasons; with their numbers where there are several."""
    named = [(reason, count) for reason, count in reasons.most_common() if reason]
    if not named:
        return ""
    if len(named) == 1:
        return f": {named[0][0]}"
    more = [f"and {len(named) - MOST_REASONS} more reasons"] if len(named) > MOST_REASONS else []
    return ": " + "; ".join([*(f"{reason} ({count})" for reason, count in named[:MOST_REASONS]), *more])

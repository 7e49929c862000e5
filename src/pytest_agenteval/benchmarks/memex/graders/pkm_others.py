"""Which other entries of the day were filed, though the task is about one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from pytest_agenteval.benchmarks.memex.graders.pkm_changes import files_below, times
from pytest_agenteval.benchmarks.memex.graders.pkm_lines import counted_lines
from pytest_agenteval.graders.matching.mentions import normalize_mention
from pytest_agenteval.graders.matching.tokens import tokens
from pytest_agenteval.records.evidence import Evidence, Tree

FACT_ID = re.compile(r"\d{4}/\d\d/\d\d\.md#ts_\d+")
_HEADING = re.compile(r"^## <id:(?P<id>ts_\d+)>.*$", re.MULTILINE)
SHARE, LEAST = 0.5, 2
"""An entry is filed where so many of the words stand in the notes that only it can have brought there."""


def others_filed(evidence: Evidence) -> list[str]:
    """Give the ids of the day's other entries that came into the knowledge base, by id or by their words."""
    day, sign, own = str(evidence.task_input.get("fact_id") or "").partition("#")
    entries = dict(_entries(evidence.before.text(f"Facts/{day}") or ""))
    others = {f"{day}{sign}{id}": text for id, text in entries.items() if id != own}
    if not others:
        return []
    was = _words("\n".join(counted_lines(file.text for file in files_below(evidence.before).values())))
    was |= _words(str(evidence.task_input.get("content") or ""))
    new = _words(new_text(evidence))
    return [
        id
        for id, text in others.items()
        if _newly(id, evidence.before, evidence.after) or _is_filed(_words(text) - was, new)
    ]


def new_text(evidence: Evidence) -> str:
    """Give the lines that are new in the knowledge base, without the ids of entries."""
    before, after = files_below(evidence.before), files_below(evidence.after)
    left = counted_lines(file.text for file in before.values())
    left -= counted_lines(file.text for path, file in after.items() if before.get(path) == file)
    changed = (file.text or "" for path, file in after.items() if before.get(path) != file)
    new = []
    for line in (line.rstrip() for text in changed for line in text.splitlines()):
        if left[line] > 0:
            left[line] -= 1
        elif line:
            new.append(line)
    return FACT_ID.sub(" ", "\n".join(new))


def _entries(day: str) -> Iterator[tuple[str, str]]:
    headings = list(_HEADING.finditer(day))
    for heading, after in zip(headings, [*headings, None][1:], strict=True):
        yield heading["id"], day[heading.end() : after.start() if after else None]


def _newly(id: str, before: Tree, after: Tree) -> bool:
    was, now = (sum(times(id, file.text) for file in files_below(tree).values()) for tree in (before, after))
    return now > was


def _is_filed(only_here: set[str], new: set[str]) -> bool:
    brought = only_here & new
    return len(brought) >= LEAST and len(brought) >= SHARE * len(only_here)


def _words(text: str) -> set[str]:
    """Give the words that tell entries apart: numbers, long words, pairs of letters without spaces."""
    found = tokens(normalize_mention(text))
    single = {token.text for token in found if token.readings or len(token.text) > 3}
    letters = [token.text if len(token.text) == 1 and not token.text.isascii() else "" for token in found]
    return single | {one + other for one, other in pairwise(letters) if one and other}

"""Did what the entry says come into the knowledge base, worked in and without strays? Were others filed?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import SequenceMatcher
from itertools import pairwise
from typing import ClassVar

from pytest_agenteval import Check, Evidence, Grade, Tree
from pytest_agenteval.benchmarks.memex.graders.end_state import merge_states, undecided_where_unreadable
from pytest_agenteval.benchmarks.memex.graders.pkm_changes import changed_below, count_marker, files_below
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import Files, count_lines
from pytest_agenteval.benchmarks.memex.graders.settings import days, entry_day, needles
from pytest_agenteval.benchmarks.memex.graders.workspace_state import pkm_state
from pytest_agenteval.benchmarks.memex.text_search.dates import Day, find_days
from pytest_agenteval.benchmarks.memex.text_search.mentions import mentions, normalize_mention
from pytest_agenteval.benchmarks.memex.text_search.tokens import tokens
from pytest_agenteval.graders.grader_settings import cut

FACT_ID = re.compile(r"\d{4}/\d\d/\d\d\.md#ts_\d+")
_HEADING = re.compile(r"^## <id:(?P<id>ts_\d+)>.*$", re.MULTILINE)
FILED_SHARE, FILED_WORDS = 0.5, 2
"""An entry is filed where so many of the words stand in the notes that only it can have brought there."""


def other_entries_filed(evidence: Evidence) -> list[str]:
    """Give the ids of the day's other entries that came into the knowledge base, by id or by their words."""
    day, sign, own = str(evidence.task_input.get("fact_id") or "").partition("#")
    entries = dict(_entries(evidence.before.text(f"Facts/{day}") or ""))
    others = {f"{day}{sign}{id}": text for id, text in entries.items() if id != own}
    if not others:
        return []
    was = _telling_words("\n".join(count_lines(file.text for file in files_below(evidence.before).values())))
    was |= _telling_words(str(evidence.task_input.get("content") or ""))
    new = _telling_words(new_text(evidence))
    return [
        id
        for id, text in others.items()
        if _is_newly_marked(id, evidence.before, evidence.after) or _is_filed(_telling_words(text) - was, new)
    ]


def new_text(evidence: Evidence) -> str:
    """Give the lines that are new in the knowledge base, without the ids of entries."""
    before, after = files_below(evidence.before), files_below(evidence.after)
    old_lines = count_lines(file.text for file in before.values())
    old_lines -= count_lines(file.text for path, file in after.items() if before.get(path) == file)
    changed = (file.text or "" for path, file in after.items() if before.get(path) != file)
    new = []
    for line in (line.rstrip() for text in changed for line in text.splitlines()):
        if old_lines[line] > 0:
            old_lines[line] -= 1
        elif line:
            new.append(line)
    # An id begins with a date, which no entry has to name.
    return FACT_ID.sub(" ", "\n".join(new))


def _entries(day: str) -> Iterator[tuple[str, str]]:
    headings = list(_HEADING.finditer(day))
    for heading, after in zip(headings, [*headings, None][1:], strict=True):
        yield heading["id"], day[heading.end() : after.start() if after else None]


def _is_newly_marked(id: str, before: Tree, after: Tree) -> bool:
    was, now = (
        sum(count_marker(id, file.text) for file in files_below(tree).values()) for tree in (before, after)
    )
    return now > was


def _is_filed(only_here: set[str], new: set[str]) -> bool:
    new_here = only_here & new
    return len(new_here) >= FILED_WORDS and len(new_here) >= FILED_SHARE * len(only_here)


def _telling_words(text: str) -> set[str]:
    """Give the words that tell entries apart: numbers, long words, pairs of letters without spaces."""
    all_tokens = tokens(normalize_mention(text))
    single = {token.text for token in all_tokens if token.readings or len(token.text) > 3}
    letters = [
        token.text if len(token.text) == 1 and not token.text.isascii() else "" for token in all_tokens
    ]
    return single | {letter + other for letter, other in pairwise(letters) if letter and other}


NAME = "pkm_facts_filed"
LEAST_WORDS, SHARE = 12, 0.95
"""An entry of so many words or letters is pasted where so much of it stands in the notes in one run."""
_LEADING = re.compile(r"[\W_]*(\d{1,2}-\d{1,2})(?!\d)")


@dataclass(frozen=True, slots=True)
class PkmFactsFiled:
    """Do the notes newly say each of these facts, in words of their own? The score is the share of yes.

    ``facts`` are texts that lines new in the knowledge base have to say, one way or another: a list in the
    place of a text holds several wordings, of which one is enough. They are found whole: words of any script,
    numbers by their value, dates and times in any spelling. Three more questions: is the entry worked in, not
    pasted as it is (an entry of a few words may be), does every new file hold the entry's id, so that none
    is a stray, and is nothing dated a day before or after the entry, unless the entry or ``days`` name that
    day? A file that was only moved is not new. Where the entry was skipped, the grade is
    undecided: ``pkm_completion`` says whether that was right.
    """

    facts: Sequence[str | Sequence[str]]
    days: Sequence[str] = ()

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", needles("facts", self.facts))
        days("days", self.days)

    @undecided_where_unreadable(NAME)
    def grade(self, evidence: Evidence) -> Grade:
        """Look for each fact among the new lines, then for what should not be there."""
        if merge_states(evidence.state, pkm_state(evidence)).get("skipped_pkm") is True:
            return Grade(NAME, None, "the entry was skipped: there is nothing to file")
        new = new_text(evidence)
        checks = [_fact_check(tuple(wordings), new) for wordings in self.facts]
        return Grade.from_checks(
            NAME, [*checks, _paste_check(evidence, new), _stray_check(evidence), self._days(evidence, new)]
        )

    def _days(self, evidence: Evidence, new: str) -> Check:
        """Ask whether a new date is the day before or after the entry's, though nobody named that day."""
        own = entry_day(evidence.task_input.get("fact_id"))
        entry = find_days(normalize_mention(str(evidence.task_input.get("content") or "")))
        named_days = days("days", self.days) | entry
        near = [own + timedelta(by) for by in (-1, 1)] if own else []
        wrong = [
            day
            for day in near
            if _is_dated(new, day) and not any(_can_be(day, other) for other in named_days)
        ]
        wrong_days = ", ".join(map(str, wrong)) or "none"
        return Check("nothing is dated a day off", not wrong, f"{own} or a day that was named", wrong_days)


def _is_dated(new: str, day: date) -> bool:
    # Folding takes line breaks away: the sign keeps a number at a line's end from the next line's first.
    lines = normalize_mention(new.replace("\n", " \u00b6 ")).split("\u00b6")
    long = (dated for line in lines for dated in find_days(line, short=False))
    leading = (dated for line in lines if (match := _LEADING.match(line)) for dated in find_days(match[1]))
    return any(_can_be(day, dated) for dated in (*long, *leading))


def _can_be(day: date, other: Day) -> bool:
    return Day(day.month, day.day, day.year).can_equal(other)


def _fact_check(wordings: Sequence[str], new: str) -> Check:
    expected = " or ".join(wordings)
    passed = any(mentions(new, wording) for wording in wordings)
    return Check(f"the notes newly say {expected!r}", passed, expected, cut(new) or "nothing new")


def _paste_check(evidence: Evidence, new: str) -> Check:
    entry = [token.text for token in tokens(normalize_mention(str(evidence.task_input.get("content") or "")))]
    there = [token.text for token in tokens(normalize_mention(new))]
    # Without autojunk: in a long text it would pass over the commonest words, and find no long run.
    run = SequenceMatcher(None, entry, there, autojunk=False).find_longest_match().size
    pasted = len(entry) >= LEAST_WORDS and run >= SHARE * len(entry)
    finding = f"{run} of its {len(entry)} words in one run"
    return Check("the entry is worked in, not pasted as it is", not pasted, "words of its own", finding)


def _stray_check(evidence: Evidence) -> Check:
    fact = str(evidence.task_input.get("fact_id") or "")
    before, after = files_below(evidence.before), files_below(evidence.after)
    created = [path for path in changed_below(evidence).created if (after[path].text or "").strip()]
    strays = [
        path
        for path in created
        if not count_marker(fact, after[path].text) and not _is_moved(after[path].text or "", before)
    ]
    return Check("every new file holds the entry", not strays, "no stray file", ", ".join(strays) or "none")


def _is_moved(text: str, before: Files) -> bool:
    """Whether most of a file's lines stood in the knowledge base before."""
    lines, was = count_lines([text]), count_lines(file.text for file in before.values())
    return 2 * (lines & was).total() >= lines.total()

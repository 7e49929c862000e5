"""Whether the entry's facts were filed, and the work was brought to its end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from typing import Any, ClassVar, Literal, get_args

from msgspec.structs import replace

from pytest_agenteval import Check, Evidence, Grade
from pytest_agenteval.benchmarks.memex.graders.end_state import (
    Mode,
    State,
    UnreadableState,
    changed_below,
    check_mode,
    contrast_text,
    count_marker,
    days,
    entry_text,
    failed_check,
    files_below,
    files_newly_holding,
    insights_given,
    merge_states,
    needles,
    pkm_state,
    share_grade,
    short_list,
    state_list,
    undecided_where_unreadable,
    upstream_state,
)
from pytest_agenteval.benchmarks.memex.graders.pkm_preservation import count_lines, file_survivals
from pytest_agenteval.benchmarks.memex.journal import fact_id
from pytest_agenteval.benchmarks.memex.text_search import Day, find_days, mentions, normalize_mention, tokens
from pytest_agenteval.graders.grader_settings import cut

FACT_ID = re.compile(r"\d{4}/\d\d/\d\d\.md#ts_\d+")
_HEADING = re.compile(r"^## <id:(?P<id>ts_\d+)>.*$", re.MULTILINE)
# An entry counts as filed if the notes gained this share of the words that only it can have brought there,
# and at least this many of them.
FILED_SHARE, FILED_WORDS = 0.5, 2


def _other_entries_filed(evidence: Evidence) -> list[str]:
    """Give the ids of the day's other entries that came into the knowledge base, by id or by their words."""
    day, sign, own = str(evidence.task_input.get("fact_id") or "").partition("#")
    text = evidence.before.text(f"Facts/{day}") or ""
    headings = list(_HEADING.finditer(text))
    entries: dict[str, str] = {}
    for heading, after in zip_longest(headings, headings[1:]):
        entries[heading["id"]] = text[heading.end() : after.start() if after else None]
    others = {f"{day}{sign}{id}": words for id, words in entries.items() if id != own}
    if not others:
        return []
    was = _telling_words("\n".join(count_lines(file.text for file in files_below(evidence.before).values())))
    # Words of the older notes and of the task's own entry do not tell that another entry was filed.
    was |= _telling_words(entry_text(evidence))
    new = _telling_words(new_text(evidence))
    filed = []
    for id, words in others.items():
        marks_before, marks_after = (
            sum(count_marker(id, file.text) for file in files_below(tree).values())
            for tree in (evidence.before, evidence.after)
        )
        only_here = _telling_words(words) - was
        new_here = len(only_here & new)
        enough = new_here >= FILED_WORDS and new_here >= FILED_SHARE * len(only_here)
        if marks_after > marks_before or enough:
            filed.append(id)
    return filed


def new_text(evidence: Evidence) -> str:
    """Give the lines that are new in the knowledge base, without the ids of entries."""
    before, after = files_below(evidence.before), files_below(evidence.after)
    old_lines = count_lines(file.text for file in before.values())
    # Lines of unchanged files are still in their place: a line that moved is not new, but a copy of one is.
    old_lines -= count_lines(file.text for path, file in after.items() if before.get(path) == file)
    changed = (file.text or "" for path, file in after.items() if before.get(path) != file)
    new = []
    for line in (line.rstrip() for text in changed for line in text.splitlines()):
        if old_lines[line] > 0:
            old_lines[line] -= 1
        elif line:
            new.append(line)
    # Ids are taken out, because they begin with a date that no entry has to name.
    return FACT_ID.sub(" ", "\n".join(new))


def _telling_words(text: str) -> set[str]:
    """Give the words that tell entries apart: numbers, long words, pairs of letters without spaces."""
    all_tokens = tokens(normalize_mention(text))
    single = {token.text for token in all_tokens if token.readings or len(token.text) > 3}
    letters = [t.text if len(t.text) == 1 and not t.text.isascii() else "" for t in all_tokens]
    return single | {letter + other for letter, other in pairwise(letters) if letter and other}


NAME = "pkm_facts_filed"
# An entry of at least this many words or letters counts as pasted if the notes hold this share of it in one
# run.
LEAST_WORDS, SHARE = 12, 0.95
_LEADING = re.compile(r"[\W_]*(\d{1,2}-\d{1,2})(?!\d)")


@dataclass(frozen=True, slots=True)
class PkmFactsFiled:
    """Do the notes newly say each of these facts, in words of their own? The score is the share of yes.

    ``facts`` are texts that new lines of the knowledge base have to say, one way or another. A list in the
    place of a text holds several wordings, of which one is enough. Facts are found whole: words of any
    script, numbers by their value, dates and times in any spelling.

    Three more questions have a share in the score:

    - Is the entry worked in, and not pasted as it is? An entry of a few words may be pasted.
    - Does every new file hold the entry's id, so that none is a stray? A file that was only moved is not new.
    - Is nothing dated a day before or after the entry, unless the entry or ``days`` name that day?

    Where the entry was skipped, the grade is undecided: ``pkm_completion`` says whether that was right.
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
        if merge_states(evidence.state, pkm_state(evidence)).get("skipped_pkm") is True:
            return Grade(NAME, None, "the entry was skipped: there is nothing to file")
        new = new_text(evidence)
        checks = [_fact_check(tuple(wordings), new) for wordings in self.facts]
        entry = [token.text for token in tokens(normalize_mention(entry_text(evidence)))]
        there = [token.text for token in tokens(normalize_mention(new))]
        # Without autojunk, which in a long text passes over the commonest words and so finds no long run.
        run = SequenceMatcher(None, entry, there, autojunk=False).find_longest_match().size
        pasted = len(entry) >= LEAST_WORDS and run >= SHARE * len(entry)
        finding = f"{run} of its {len(entry)} words in one run"
        claim = "the entry is worked in, not pasted as it is"
        checks.append(Check(claim, not pasted, "words of its own", finding))
        return Grade.from_checks(NAME, [*checks, _stray_check(evidence), self._days(evidence, new)])

    def _days(self, evidence: Evidence, new: str) -> Check:
        """Check that no new date is the day before or after the entry's, unless that day was named."""
        fact = fact_id(evidence.task_input.get("fact_id"))
        own = fact.day if fact else None
        named_days = days("days", self.days) | find_days(normalize_mention(entry_text(evidence)))
        near = [own + timedelta(by) for by in (-1, 1)] if own else []
        unnamed = (day for day in near if not any(_can_be(day, other) for other in named_days))
        wrong = [day for day in unnamed if _is_dated(new, day)]
        wrong_days = ", ".join(map(str, wrong)) or "none"
        return Check("nothing is dated a day off", not wrong, f"{own} or a day that was named", wrong_days)


def _is_dated(new: str, day: date) -> bool:
    # Folding takes line breaks away: the sign keeps a number
    # at the end of a line from the first one of the next.
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


def _stray_check(evidence: Evidence) -> Check:
    fact = str(evidence.task_input.get("fact_id") or "")
    after = files_below(evidence.after)
    was = count_lines(file.text for file in files_below(evidence.before).values())
    strays = []
    for path in changed_below(evidence).created:
        text = after[path].text or ""
        lines = count_lines([text])
        # A file most of whose lines were in the knowledge base before was only moved.
        moved = 2 * (lines & was).total() >= lines.total()
        if text.strip() and not count_marker(fact, text) and not moved:
            strays.append(path)
    return Check("every new file holds the entry", not strays, "no stray file", ", ".join(strays) or "none")


ExpectedPath = Literal["persist", "skip", "either"]


@dataclass(frozen=True, slots=True)
class PkmCompletion:
    """Did the entry come to the end that the task expects? The score is the share of its checks.

    ``upstream`` puts five questions to the agent's end state and takes either ending. ``default`` takes the
    ending named by ``expected_path``, else by the task's ``expected_outcome`` (``skipped_pkm``,
    ``wrote_para``), else either, and looks for itself.

    - ``persist``: the entry's id newly stands in a file of the knowledge base, an insight with words in it
      was given for this very entry, it was not skipped, and the end state is complete; no other entry of the
      day was filed or given an insight, and no line that was there is gone.
    - ``skip``: it was skipped, no file of the knowledge base was touched, no insight was given, and the end
      state is complete.
    - ``either``: the checks of the ending that the agent chose.

    For an agent without an end state the workspace shows the ending: the insight on the entry's card, the id
    in a file; an entry of which nothing came was skipped. What only one of state and workspace shows does not
    count.
    """

    expected_path: ExpectedPath | None = None
    expected_outcome: Mapping[str, Any] | None = None
    mode: Mode = "default"

    agent: ClassVar[str] = "pkm"
    version: ClassVar[str] = "3"
    threshold: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_mode(self.mode)
        if self.expected_path not in (None, *get_args(ExpectedPath)):
            raise ValueError(f"expected_path must be persist, skip or either, not {self.expected_path!r}")
        if self.mode == "upstream" and self.expected_path not in (None, "either"):
            raise ValueError("expected_path: mode upstream takes either ending; take expected_path out")

    @undecided_where_unreadable("pkm_completion")
    def grade(self, evidence: Evidence) -> Grade:
        if self.mode == "upstream":
            return share_grade("pkm_completion", _upstream_checks(upstream_state(evidence, pkm_state)))
        state, path = merge_states(evidence.state, pkm_state(evidence)), self.expected_path
        if path is None:
            outcome = self.expected_outcome or {}
            wrote = outcome.get("wrote_para") is True
            path = "skip" if outcome.get("skipped_pkm") is True else "persist" if wrote else "either"
        skips = path == "skip" or (path == "either" and _is_true(state, "skipped_pkm"))
        checks = _skip_checks(evidence, state) if skips else _filing_checks(evidence, state)
        complete, missing = state.get("is_complete") is True, state_list(state, "missing_requirements")
        finding = ", ".join(map(str, missing)) or ("nothing" if complete else "an incomplete end state")
        completeness = Check("nothing is missing", complete and not missing, "nothing", finding)
        grade = share_grade("pkm_completion", (*checks, completeness))
        return replace(grade, details={"expected_path": path, "ending": _ending(state)})


def _upstream_checks(state: State) -> tuple[Check, ...]:
    # Memex's five questions, in its order.
    missing = state_list(state, "missing_requirements")
    skipped, changed = _is_true(state, "skipped_pkm"), _is_true(state, "successful_pkm_mutation")
    wrote, insight = _is_true(state, "wrote_para"), _is_true(state, "updated_insight")
    return (
        _check("the entry is dealt with", _is_true(state, "is_complete")),
        _check("the entry was filed, or skipped", wrote or skipped),
        _check("an insight was given, or the entry was skipped", insight or skipped),
        _check("nothing was changed where the entry was skipped", not skipped or not changed),
        Check("nothing is missing", not missing, "nothing", ", ".join(map(str, missing)) or "nothing"),
    )


def _filing_checks(evidence: Evidence, state: State) -> tuple[Check, ...]:
    fact, filed = evidence.task_input.get("fact_id"), state.get("wrote_para")
    has_insight = state.get("updated_insight")
    if not isinstance(fact, str) or not fact:
        raise UnreadableState("fact_id in the task's input", "the entry's id", fact)
    files, insights = files_newly_holding(fact, evidence), insights_given(evidence)
    others = dict.fromkeys((*_other_entries_filed(evidence), *(id for id in insights if id != fact)))
    survivals = file_survivals(files_below(evidence.before), files_below(evidence.after))
    losers = [path for path, survival in survivals.items() if survival.loses_words]
    return (
        Check(
            "a file of the knowledge base newly holds the entry's id",
            # An agent that says nothing of it is believed by its files; one that says no is not.
            bool(files) and filed is not False,
            fact,
            _contrast_finding(filed, bool(files), short_list(files, "no file")),
        ),
        Check(
            "an insight was given for the entry",
            fact in insights and has_insight is not False,
            fact,
            _contrast_finding(has_insight, fact in insights, short_list(insights, "no insight")),
        ),
        _check("the entry was not skipped", not _is_true(state, "skipped_pkm")),
        *failed_check("no other entry of the day was dealt with", "none", list(others)),
        *failed_check("no line that was there is gone", "none", losers),
    )


def _contrast_finding(stated: Any, on_disk: bool, finding: str) -> str:
    """Write what was found, and what the agent says of it where that is something else."""
    if stated is None or stated is on_disk:
        return finding
    return contrast_text("yes" if stated is True else "no", finding)


def _skip_checks(evidence: Evidence, state: State) -> tuple[Check, ...]:
    changes, insights = changed_below(evidence), insights_given(evidence)
    touched = [*changes.created, *changes.modified, *changes.deleted]
    called = "changes that left no trace" if _is_true(state, "successful_pkm_mutation") else "no change"
    insight_ids = insights or (["an insight"] if _is_true(state, "updated_insight") else [])
    return (
        _check("the entry was skipped", _is_true(state, "skipped_pkm")),
        Check(
            "no file of the knowledge base was touched",
            not touched and not _is_true(state, "successful_pkm_mutation"),
            "no change",
            short_list(touched, called),
        ),
        Check("no insight was given", not insight_ids, "no insight", short_list(insight_ids, "no insight")),
    )


def _is_true(state: State, key: str) -> bool:
    """Whether the end state says so; only the truth value true counts."""
    return state.get(key) is True


def _ending(state: State) -> str:
    filed = _is_true(state, "wrote_para") or _is_true(state, "successful_pkm_mutation")
    if _is_true(state, "skipped_pkm"):
        return "both" if filed else "skipped"
    return "filed" if filed else "neither"


def _check(claim: str, passed: bool) -> Check:
    return Check(claim, passed, "yes", "yes" if passed else "no")

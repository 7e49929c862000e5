"""Where two trials differ, as plain data that the terminal and the report's page show.

``html/page/difference.js`` works out the same, step by step, as any two trials of a page can stand beside
each other; ``tests/extended/browser/test_difference.py`` holds that both agree. Whether two steps are equal
is decided once, by their marks. Steps, grades, checks and files are given by their numbers in each trial,
None where a trial lacks one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.conversation import CallView, MessageView
from pytest_agenteval.reports.text_difference import TextDifference, align, compare_texts, without_ends
from pytest_agenteval.reports.trial_view import FileChange, GradeView, Hunk, TrialView

PairOfPlaces: TypeAlias = tuple[int | None, int | None]
"""A thing by its numbers in the old and in the new trial."""


class Step(NamedTuple):
    """One message without its calls, or one call, of a conversation."""

    message: MessageView
    call: CallView | None = None

    @property
    def mark(self) -> str:
        return self.message.mark if self.call is None else self.call.mark

    @property
    def kind(self) -> str:
        """Steps of one kind can be compared word by word: texts of one role, calls of one tool."""
        return f"message {self.message.role}" if self.call is None else f"call {self.call.tool}"


def steps_of(trial: TrialView) -> list[Step]:
    steps = []
    for message in trial.messages:
        steps += [Step(message)] if message.mark else []
        steps += [Step(message, call) for call in message.calls]
    return steps


class Stretch(FrozenValue, frozen=True):
    """Steps that follow one another and are all the same in both trials, or all not."""

    is_same: bool
    rows: tuple[PairOfPlaces, ...]


class Flip(FrozenValue, frozen=True):
    """A check that passed in one trial only, or that failed in the only one that has it."""

    claim: str
    old: int | None
    new: int | None


class GradeChange(FrozenValue, frozen=True):
    """A grader with another score, or with flipped checks; ``old`` and ``new`` are numbers of its grades."""

    grader: str
    old: int | None
    new: int | None
    flips: tuple[Flip, ...]


class FilePair(FrozenValue, frozen=True):
    """A file that was not changed alike."""

    path: str
    old: int | None
    new: int | None


class EventChange(FrozenValue, frozen=True):
    """How many events of a kind each trial has, and whether they say the same."""

    kind: str
    old: int
    new: int
    is_same: bool
    is_routine: bool


class TrialDifference(FrozenValue, frozen=True):
    """Where two trials differ; what is the same is counted.

    ``made_of`` names what they were not made of alike. ``has_answer`` where the answers differ, and the last
    steps do not show it already.
    """

    made_of: tuple[str, ...]
    grades: tuple[GradeChange, ...]
    same_grades: int
    stretches: tuple[Stretch, ...]
    has_answer: bool
    has_state: bool
    files: tuple[FilePair, ...]
    same_files: int
    events: tuple[EventChange, ...]


def compare_trials(old: TrialView, new: TrialView) -> TrialDifference:
    steps = steps_of(old), steps_of(new)
    stretches = tuple(_stretches(*steps))
    grades, same_grades = _grade_changes(old.grades, new.grades)
    files, same_files = _file_pairs(old.files, new.files)
    olds, news = old.marks.made_of, new.marks.made_of
    return TrialDifference(
        made_of=tuple(name for name in olds if name in news and olds[name] != news[name]),
        grades=grades,
        same_grades=same_grades,
        stretches=stretches,
        has_answer=without_ends(old.answer) != without_ends(new.answer)
        and not _shows_answers(old, new, steps, stretches),
        has_state=old.marks.state != new.marks.state,
        files=files,
        same_files=same_files,
        events=tuple(_event_changes(old, new)),
    )


def _stretches(old: Sequence[Step], new: Sequence[Step]) -> Iterator[Stretch]:
    for block in align([step.mark for step in old], [step.mark for step in new]).blocks:
        places = range(len(old))[block.old], range(len(new))[block.new]
        if block.is_equal:
            yield Stretch(True, tuple(zip(*places, strict=True)))
        else:
            yield Stretch(False, tuple(_paired(old, new, *places)))


def _paired(
    old: Sequence[Step], new: Sequence[Step], olds: Sequence[int], news: Sequence[int]
) -> Iterator[PairOfPlaces]:
    """Pair steps that differ: those of one kind with each other, what lies between in its order."""
    kinds = [old[at].kind for at in olds], [new[at].kind for at in news]
    for block in align(*kinds).blocks:
        yield from zip_longest(olds[block.old], news[block.new])


def _shows_answers(
    old: TrialView, new: TrialView, steps: tuple[Sequence[Step], Sequence[Step]], stretches: Sequence[Stretch]
) -> bool:
    """Whether both trials end with their answers, in one row."""
    ends = len(steps[0]) - 1, len(steps[1]) - 1
    if not stretches or stretches[-1].is_same or stretches[-1].rows[-1] != ends:
        return False
    lasts = [(trial.answer, side[-1]) for trial, side in zip((old, new), steps, strict=True)]
    return all(
        step.call is None and without_ends(answer) == without_ends(step.message.content)
        for answer, step in lasts
    )


def _grade_changes(old: Sequence[GradeView], new: Sequence[GradeView]) -> tuple[tuple[GradeChange, ...], int]:
    """Give the grades that changed, those that pass on one side only first, and count the others."""
    olds, news = ({grade.grader: at for at, grade in enumerate(grades)} for grades in (old, new))
    changes: list[GradeChange] = []
    turned: list[GradeChange] = []
    same = 0
    for grader in dict.fromkeys((*news, *olds)):
        places = olds.get(grader), news.get(grader)
        before = None if places[0] is None else old[places[0]]
        after = None if places[1] is None else new[places[1]]
        flips = tuple(_flips(before, after))
        if before and after and before.score == after.score and before.passed == after.passed and not flips:
            same += 1
            continue
        is_turned = before is not None and after is not None and before.passed != after.passed
        (turned if is_turned else changes).append(GradeChange(grader, *places, flips))
    return (*turned, *changes), same


def _flips(old: GradeView | None, new: GradeView | None) -> Iterator[Flip]:
    olds, news = _by_claim(old), _by_claim(new)
    for claim in dict.fromkeys((*news, *olds)):
        places = olds.get(claim), news.get(claim)
        passes = [
            grade.checks[at].passed
            for grade, at in zip((old, new), places, strict=True)
            if grade is not None and at is not None
        ]
        if passes == [False] or len(set(passes)) == 2:
            yield Flip(claim[0], *places)


def _by_claim(grade: GradeView | None) -> dict[tuple[str, int], int]:
    # A grader that asks one question of each file makes several checks with the same claim.
    numbers: Counter[str] = Counter()
    places: dict[tuple[str, int], int] = {}
    for at, check in enumerate(grade.checks if grade else ()):
        places[check.claim, numbers[check.claim]] = at
        numbers[check.claim] += 1
    return places


def _file_pairs(old: Sequence[FileChange], new: Sequence[FileChange]) -> tuple[tuple[FilePair, ...], int]:
    olds, news = ({file.path: at for at, file in enumerate(files)} for files in (old, new))
    pairs, same = [], 0
    for path in dict.fromkeys((*news, *olds)):
        before, after = olds.get(path), news.get(path)
        if before is not None and after is not None and old[before] == new[after]:
            same += 1
        else:
            pairs.append(FilePair(path, before, after))
    return tuple(pairs), same


def _event_changes(old: TrialView, new: TrialView) -> Iterator[EventChange]:
    olds, news = ({group.kind: group for group in trial.marks.events} for trial in (old, new))
    for kind in dict.fromkeys((*news, *olds)):
        before, after = olds.get(kind), news.get(kind)
        known = [group for group in (before, after) if group]
        yield EventChange(
            kind,
            before.count if before else 0,
            after.count if after else 0,
            is_same=len({group.mark for group in known}) == 1 and len(known) == 2,
            is_routine=known[0].is_routine,
        )


class PartDifference(FrozenValue, frozen=True):
    """A part of two steps, as an argument of a call; a text that is None is not there at all."""

    label: str
    old: str | None
    new: str | None
    difference: TextDifference

    @property
    def is_same(self) -> bool:
        return self.old == self.new


RESULT, ERROR, REPLY = "→", "→ error", "→ as shown to the model"


def compare_steps(old: Step, new: Step) -> list[PartDifference]:
    """Compare two steps of one kind part by part: a text, or the arguments and the result of a call."""
    olds, news = dict(step_parts(old)), dict(step_parts(new))
    labels = dict.fromkeys((*olds, *news))
    # Whatever came of a call stands below its arguments, of which the new call may have more.
    order = sorted(labels, key=lambda label: label in (RESULT, ERROR, REPLY))
    return [_compare_parts(label, olds.get(label), news.get(label)) for label in order]


def _compare_parts(label: str, old: str | None, new: str | None) -> PartDifference:
    return PartDifference(label, old, new, compare_texts(old or "", new or ""))


def step_parts(step: Step) -> Iterator[tuple[str, str]]:
    """Give the texts of a step, each with its label; that of a message has none."""
    call = step.call
    if call is None:
        yield "", step.message.content
        return
    if call.raw_args is not None:
        yield "arguments", call.raw_args
    else:
        yield from ((name, value_text(value)) for name, value in call.args.items())
    if call.error is not None:
        yield ERROR, call.failure
    elif call.result is None:
        yield RESULT, "nothing" if call.executed else "not executed"
    if call.result is not None:
        yield RESULT, value_text(call.result)
    if call.reply:
        yield REPLY, call.reply


def value_text(value: Any) -> str:
    """Write a JSON value for people: a text as it is, everything else indented."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def compare_files(old: FileChange | None, new: FileChange | None) -> TextDifference:
    """Compare what two trials did to a file, by the texts of both diffs."""
    return compare_texts(change_text(old), change_text(new))


def change_text(file: FileChange | None) -> str:
    """Write a file's change: what it was, then each line behind a blank, a minus or a plus."""
    if file is None:
        return "not changed\n"
    head = f"{file.change}, {file.note}" if file.note else file.change
    return "\n".join([head, *(line for hunk in file.hunks for line in _hunk_lines(hunk)), ""])


def _hunk_lines(hunk: Hunk) -> Iterator[str]:
    yield f"@@ line {hunk.new_start}"
    # All lines that went stand before those that came in their place, as in every diff.
    for is_equal, stretch in groupby(hunk.rows, lambda row: row[0] == " "):
        rows = list(stretch)
        if is_equal:
            yield from (f" {before}" for _, before, _ in rows)
            continue
        yield from (f"-{before}" for _, before, _ in rows if before is not None)
        yield from (f"+{after}" for _, _, after in rows if after is not None)

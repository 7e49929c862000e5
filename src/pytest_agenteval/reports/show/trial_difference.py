"""What is not the same in two trials: what they were made of, how they were graded, where they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_agenteval.records.evidence import Check
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.trial.alignment import Alignment
from pytest_agenteval.reports.trial.trial_view import CallView, GradeView, MessageView, TrialView
from pytest_agenteval.text.canonical import digest

INGREDIENTS = {
    "input": "task input",
    "fixture": "starting workspace",
    "prompt": "prompt",
    "code": "agent code",
    "settings": "agent settings",
    "tools": "tools",
    "model": "model",
    "ruler": "graders",
    "sent": "what models were told",
}
"""What a trial is made of, by the digest that tells it, as authors call it."""


class CheckChange(FrozenValue, frozen=True):
    """A check of one grade that passed on one side only; None where a side has no such check."""

    claim: str
    old: Check | None
    new: Check | None


class GradeChange(FrozenValue, frozen=True):
    """One grader's grade on both sides, None where a side has none, and the checks that flipped."""

    grader: str
    old: GradeView | None
    new: GradeView | None
    checks: tuple[CheckChange, ...]


class Step(NamedTuple):
    """One message without its calls, or one call, of a conversation; ``mark`` is equal for equal steps."""

    mark: str
    message: MessageView
    call: CallView | None = None


class Stretch(FrozenValue, frozen=True):
    """Steps of both sides that stand beside each other; ``same`` where they are equal."""

    same: bool
    old: tuple[Step, ...]
    new: tuple[Step, ...]


class TrialDifference(FrozenValue, frozen=True):
    """What is not the same in two trials.

    ``ingredients`` are those that differ. ``grades`` have changed, ``same_grades`` counts the others. The
    first ``same_steps`` of the conversations are equal; ``stretches`` is what comes then, empty where nothing
    does.
    """

    ingredients: tuple[str, ...]
    grades: tuple[GradeChange, ...]
    same_grades: int
    same_steps: int
    stretches: tuple[Stretch, ...]


def trial_difference(old: TrialView, new: TrialView) -> TrialDifference:
    """Compare two trials, as a rule of one task."""
    changes = [*_grades(old, new)]
    changed = tuple(change for change in changes if _differs(change))
    old_steps, new_steps = (tuple(_steps(view.messages)) for view in (old, new))
    same = _common(old_steps, new_steps)
    return TrialDifference(
        ingredients=tuple(
            words
            for name, words in INGREDIENTS.items()
            if getattr(old.digests, name) != getattr(new.digests, name)
            and (name != "sent" or (old.digests.sent and new.digests.sent))
        ),
        grades=changed,
        same_grades=len(changes) - len(changed),
        same_steps=same,
        stretches=tuple(_stretches(old_steps[same:], new_steps[same:])),
    )


def _grades(old: TrialView, new: TrialView) -> Iterator[GradeChange]:
    olds, news = ({grade.grader: grade for grade in view.grades} for view in (old, new))
    for grader in dict.fromkeys((*news, *olds)):
        before, after = olds.get(grader), news.get(grader)
        yield GradeChange(grader, before, after, tuple(_checks(before, after)))


def _checks(old: GradeView | None, new: GradeView | None) -> Iterator[CheckChange]:
    """Give the checks that flipped, and those of a failed side that the other does not have."""
    olds, news = map(_by_claim, (old, new))
    for claim in dict.fromkeys((*news, *olds)):
        before, after = olds.get(claim), news.get(claim)
        passes = [check.passed for check in (before, after) if check]
        if passes == [False] or len(set(passes)) == 2:
            yield CheckChange(claim[0], before, after)


def _by_claim(grade: GradeView | None) -> dict[tuple[str, int], Check]:
    """Give a grade's checks by what they claim; where several claim the same, by their number too."""
    numbers: Counter[str] = Counter()
    checks: dict[tuple[str, int], Check] = {}
    for check in grade.checks if grade else ():
        checks[check.claim, numbers[check.claim]] = check
        numbers[check.claim] += 1
    return checks


def _differs(change: GradeChange) -> bool:
    if change.old is None or change.new is None or change.checks:
        return True
    return (change.old.score, change.old.passed) != (change.new.score, change.new.passed)


def _steps(messages: Sequence[MessageView]) -> Iterator[Step]:
    for message in messages:
        if message.content or not message.calls:
            yield Step(digest([message.role, message.content]), message)
        for call in message.calls:
            error = [call.error.type, call.error.message] if call.error else []
            yield Step(digest([call.tool, call.args, call.raw_args, call.result, error]), message, call)


def _common(old: Sequence[Step], new: Sequence[Step]) -> int:
    """Count the equal steps with which both begin."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a.mark != b.mark), min(len(old), len(new)))


def _stretches(old: Sequence[Step], new: Sequence[Step]) -> Iterator[Stretch]:
    alignment = Alignment([step.mark for step in old], [step.mark for step in new])
    for tag, low, high, new_low, new_high in alignment.get_opcodes():
        yield Stretch(tag == "equal", tuple(old[low:high]), tuple(new[new_low:new_high]))

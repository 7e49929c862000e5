"""Grading: on which thread graders run, and what one of them can do to the others."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.errors import ProviderDown
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import Conditions, Model, PlannedGrader
from pytest_agenteval.records.transcript import Usage
from tests.engine.carried_out import carried_out, plan, registry

FINE = PlannedGrader("answer_contains", "fine", {"text": "Mina"})


class Where:
    """Says on which thread it graded."""

    def grade(self, evidence: Evidence) -> Grade:
        """Grade in whatever thread this is."""
        return Grade("where", 1.0, threading.current_thread().name)


class WhereAsync(Where):
    """The same on the loop."""

    async def grade(self, evidence: Evidence) -> Grade:  # type: ignore[override]  # the other kind of grader
        """Grade after a turn of the loop."""
        await asyncio.sleep(0)
        return super().grade(evidence)


class Later(Where):
    """A plain grader that gives something to wait for."""

    def grade(self, evidence: Evidence) -> Any:
        """Give a coroutine."""
        return WhereAsync().grade(evidence)


@dataclass
class Raising:
    """Raises what it is told to."""

    error: BaseException

    def grade(self, evidence: Evidence) -> Grade:
        """Raise it."""
        raise self.error


class RaisingAsync(Raising):
    """Raises it on the loop."""

    async def grade(self, evidence: Evidence) -> Grade:  # type: ignore[override]  # the other kind of grader
        """Raise it there."""
        await asyncio.sleep(0)
        raise self.error


@dataclass
class Giving:
    """Gives anything at all in place of a grade."""

    found: Any

    def grade(self, evidence: Evidence) -> Any:
        """Give it."""
        return self.found


@dataclass
class Sleeping:
    """Takes its time."""

    seconds: float

    def grade(self, evidence: Evidence) -> Grade:
        """Sleep first."""
        time.sleep(self.seconds)
        return Grade("sleeping", 1.0, "awake")


def grades(**graders: Any) -> dict[str, Grade]:
    """Let graders look at one trial, beside one that finds it fine."""
    known = registry(**{name: lambda made=made: made for name, made in graders.items()})
    (trial,) = carried_out(known, plan("t", *(PlannedGrader(name, name) for name in graders), FINE))
    assert trial.ending == "passed", trial.message
    return {grade.grader: grade for grade in trial.grades}


def test_plain_graders_run_in_a_worker_thread_and_async_ones_on_the_loop() -> None:
    """A grader that blocks never blocks the loop, and one that awaits needs the loop."""
    found = grades(where=Where(), later=Later(), where_async=WhereAsync())
    here = threading.current_thread().name
    assert found["where"].rationale != here
    assert found["where_async"].rationale == here
    assert found["later"].rationale == here


@pytest.mark.parametrize("kind", [Raising, RaisingAsync])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such card"),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        StopIteration(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_grader_that_raises_is_undecided_and_harms_no_other(
    kind: type[Raising], error: BaseException
) -> None:
    """Its traceback is kept, and the others' grades count."""
    if isinstance(error, StopIteration) and kind is RaisingAsync:
        error = RuntimeError("coroutine raised StopIteration")  # what Python makes of it
    found = grades(bad=kind(error), where=Where())
    assert found["bad"].score is None
    assert type(error).__name__ in found["bad"].rationale
    assert "in grade" in found["bad"].details["traceback"]
    assert found["fine"].score == found["where"].score == 1.0


@pytest.mark.parametrize("given", [None, 0.5, "good", Grade("g", 1.5, ""), Grade("g", float("nan"), ""), Grade("g", "1", "")])  # type: ignore[arg-type]  # fmt: skip  # noqa: E501
def test_what_is_no_grade_is_undecided(given: Any) -> None:
    """A score outside 0..1 is no score: it never enters an average."""
    found = grades(odd=Giving(given))["odd"]
    assert found.score is None
    assert "gave" in found.rationale


def test_the_task_decides_label_threshold_and_weight() -> None:
    """Whatever a grader fills in, the task's own words stand."""
    own = Grade("mine", 0.5, "half", threshold=0.1, weight=9.0, required=True)
    asked = PlannedGrader("odd", "theirs", weight=2.0, threshold=0.75)
    (trial,) = carried_out(registry(odd=lambda: Giving(own)), plan("t", asked))
    (found,) = trial.grades
    assert (found.grader, found.threshold, found.weight, found.required) == ("theirs", 0.75, 2.0, False)
    assert trial.ending == "failed"


def test_a_slow_grader_holds_up_its_own_trial_only() -> None:
    """Trials that end in the same moment are graded side by side: five of 0.2 s take no second."""
    known = registry(sleeping=Sleeping)
    slow = [plan(f"s{n}", PlannedGrader("sleeping", "slow", {"seconds": 0.2})) for n in range(5)]
    began, done = time.monotonic(), []

    class Quick:
        def grade(self, evidence: Evidence) -> Grade:
            done.append(time.monotonic() - began)
            return Grade("quick", 1.0, "")

    known.grader("quick", Quick)
    carried_out(known, *slow, *(plan(f"q{n}", PlannedGrader("quick", "q")) for n in range(5)))
    assert time.monotonic() - began < 0.8
    assert len(done) == 5
    assert max(done) < 0.18


def test_a_provider_that_is_down_breaks_the_trial_and_not_the_grade() -> None:
    """A judge that cannot be had is nobody's miss."""
    known = registry(bad=lambda: Raising(ProviderDown("judge: no reply")))
    (trial,) = carried_out(known, plan("t", PlannedGrader("bad", "bad"), FINE))
    assert (trial.ending, trial.cause, trial.score) == ("errored", "provider", None)


@dataclass(frozen=True)
class Asking:
    """A grader that asks every judge it is given."""

    judges: tuple[Judge, ...] = ()

    def with_judges(self, judges: Sequence[Judge]) -> Asking:
        """Take the judges of this trial."""
        return Asking(tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        """Ask them all; without a judge nothing can be said."""
        if not self.judges:
            return Grade("asking", None, "no judge configured")
        said = [
            (await judge.chat.ask([{"role": "user", "content": evidence.answer}])).text
            for judge in self.judges
        ]
        return Grade("asking", sum(text == "yes" for text in said) / len(said), ", ".join(said))


class Kind:
    """A judge that finds everything good, at a price."""

    async def ask(self, messages: Sequence[Any], **more: Any) -> Reply:
        """Say yes to whatever greets Mina."""
        return Reply(
            "yes" if "Mina" in messages[0]["content"] else "no", usage=Usage(7, 1, cost_usd=0.5, asks=1)
        )


class Strict(Kind):
    """A judge that finds nothing good."""

    async def ask(self, messages: Sequence[Any], **more: Any) -> Reply:
        """Say no."""
        return Reply("no", usage=Usage(7, 1, cost_usd=0.5, asks=1))


def test_a_grader_is_given_the_judges_of_the_run() -> None:
    """Each is asked through a chat of its own, which is in the events and in nobody's budget or messages."""
    known = registry(asking=Asking)
    known.model("kind", lambda model, plan: Kind())
    known.model("strict", lambda model, plan: Strict())
    judges = tuple(Model(name, name, offline=True) for name in ("kind", "strict"))
    asked = PlannedGrader("asking", "asking", threshold=0.5)
    (trial,) = carried_out(known, plan("t", asked, conditions=Conditions(judges=judges)))
    assert (trial.ending, trial.grades[0].score, trial.grades[0].rationale) == ("passed", 0.5, "yes, no")
    assert (trial.usage.asks, trial.usage.tokens, trial.usage.cost_usd) == (1, 0, 0.0)
    assert [event.details["role"] for event in trial.transcript.events if event.kind == "judge_ask"] == [
        "kind for asking",
        "strict for asking",
    ]


def test_a_grader_without_judges_may_say_that_it_cannot_tell() -> None:
    """It is given none, and asked all the same."""
    (trial,) = carried_out(registry(asking=Asking), plan("t", PlannedGrader("asking", "asking"), FINE))
    assert (trial.grades[0].score, trial.grades[0].rationale) == (None, "no judge configured")
    assert trial.ending == "passed"


def test_refusing_judges_makes_a_grade_undecided() -> None:
    """A grader that raises while it is given its judges harms no other."""

    class Refusing(Asking):
        def with_judges(self, judges: Sequence[Judge]) -> Asking:
            sys.exit("no judges here")

    found = grades(refusing=Refusing())
    assert "SystemExit: no judges here" in found["refusing"].rationale

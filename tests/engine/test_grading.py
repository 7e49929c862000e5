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
from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.grader import Judge, JudgeUnavailable
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.records.plan import Conditions, Model, PlannedGrader
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.errors import LimitReached, ProviderDown
from tests.engine.executing import execute, plan, registry

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


def trial_with_graders(**graders: Any) -> Trial:
    """Let graders look at one trial, beside one that finds it fine."""
    known = registry(**{name: lambda made=made: made for name, made in graders.items()})
    (trial,) = execute(known, plan("t", *(PlannedGrader(name, name) for name in graders), FINE))
    return trial


def grades(trial: Trial) -> dict[str, Grade]:
    """Give a trial's grades by name."""
    return {grade.grader: grade for grade in trial.grades}


def test_plain_graders_run_in_a_worker_thread_and_async_ones_on_the_loop() -> None:
    """A grader that blocks never blocks the loop, and one that awaits needs the loop."""
    found = grades(trial_with_graders(where=Where(), later=Later(), where_async=WhereAsync()))
    here = threading.current_thread().name
    assert found["where"].rationale != here
    assert found["where_async"].rationale == here
    assert found["later"].rationale == here


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_async_grader_is_asked_however_many_there_are(count: int) -> None:
    """They wait side by side where there are several, and one alone needs no company."""
    found = grades(trial_with_graders(**{f"async_{number}": WhereAsync() for number in range(count)}))
    assert [found[f"async_{number}"].score for number in range(count)] == [1.0] * count


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
def test_a_grader_that_raises_breaks_its_trial_and_no_other_grade(
    kind: type[Raising], error: BaseException
) -> None:
    """The trial is errored, with the grader's own line in the traceback; what the others found is kept."""
    if isinstance(error, StopIteration) and kind is RaisingAsync:
        error = RuntimeError("coroutine raised StopIteration")  # what Python makes of it
    trial = trial_with_graders(bad=kind(error), where=Where())
    assert (trial.ending, trial.cause, trial.score) == ("errored", "grader_crash", None)
    assert trial.message.startswith(f"bad raised {type(error).__name__}")
    first = trial.traceback.splitlines()[1]
    assert __file__ in first, "the author's frames come first"
    assert "in grade" in first
    found = grades(trial)
    assert found["bad"].crashed
    assert type(error).__name__ in found["bad"].rationale
    assert found["bad"].details["traceback"] == trial.traceback
    assert found["fine"].score == found["where"].score == 1.0


CHECK = Check("is one", False, "1", "2")


class Sly(Giving):
    """Says of itself that it wants a score which there is not."""

    threshold = "half"


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (Giving(None), "odd returned None: expected a Grade, a bool or a number from 0 to 1"),
        (Giving({"score": 1}), "odd returned {'score': 1} (dict): expected a Grade"),
        (Giving(2.0), "odd returned 2.0: expected"),
        (Giving(Grade("g", 1.5, "")), "odd returned a Grade with the score 1.5: expected"),
        (Giving(Grade("g", 1.0, None)), "odd returned a Grade with the rationale None"),  # type: ignore[arg-type]
        (Giving(Grade("g", 1.0, "", ("no",))), "odd returned a Grade with the checks ('no',) (tuple)"),  # type: ignore[arg-type]
        (Giving(Grade("g", 1.0, "", (), "no")), "odd returned a Grade with the details 'no' (str)"),  # type: ignore[arg-type]
        (Sly(1.0), "odd has the threshold 'half' (str): expected a number from 0 to 1"),
        (object(), "odd raised AttributeError: 'object' object has no attribute 'grade'"),
    ],
    ids=lambda value: value[4:40] if isinstance(value, str) else "",
)
def test_what_is_no_grade_breaks_the_trial(odd: Any, message: str) -> None:
    """Nothing odd becomes a score, or a silent pass: it is told what was returned and what was expected."""
    trial = trial_with_graders(odd=odd)
    assert (trial.ending, trial.cause) == ("errored", "grader_crash")
    assert trial.message.startswith(message)
    assert grades(trial)["odd"].crashed
    assert grades(trial)["fine"].score == 1.0


def test_the_sides_of_a_check_become_texts() -> None:
    """People compare numbers: what reports show and journals hold is text, and a list of checks a tuple."""
    odd = Grade("g", 0.0, "", [Check("is one", 0, 1, 2)])  # type: ignore[arg-type]
    assert grades(trial_with_graders(odd=Giving(odd)))["odd"].checks == (CHECK,)


def test_a_grader_that_cannot_be_made_breaks_its_trial_and_no_other_grade() -> None:
    """Whatever its factory raises, be it an order to end the process."""

    @dataclass
    class Picky:
        mood: str

        def __post_init__(self) -> None:
            sys.exit(f"not {self.mood}")

        grade = Where.grade

    planned = PlannedGrader("picky", "picky", {"mood": "sad"})
    (trial,) = execute(registry(picky=Picky), plan("t", planned, FINE))
    assert (trial.cause, trial.message) == ("grader_crash", "picky raised SystemExit: not sad")
    assert "__post_init__" in trial.traceback
    assert grades(trial)["fine"].score == 1.0


def test_every_grader_that_crashed_is_told() -> None:
    """A line for each in the message, and all tracebacks."""
    trial = trial_with_graders(first=Raising(ValueError("one")), second=Raising(KeyError("two")))
    assert trial.message.splitlines() == ["first raised ValueError: one", "second raised KeyError: 'two'"]
    assert "ValueError: one" in trial.traceback
    assert "KeyError: 'two'" in trial.traceback


def test_the_task_decides_label_threshold_and_weight() -> None:
    """Whatever a grader fills in, the task's own words stand."""
    own = Grade("mine", 0.5, "half", threshold=0.1, weight=9.0, required=True)
    planned = PlannedGrader("odd", "theirs", weight=2.0, threshold=0.75)
    (trial,) = execute(registry(odd=lambda: Giving(own)), plan("t", planned))
    (found,) = trial.grades
    assert (found.grader, found.threshold, found.weight, found.required) == ("theirs", 0.75, 2.0, False)
    assert trial.ending == "failed"


def test_a_slow_grader_holds_up_its_own_trial_only() -> None:
    """Trials that end in the same moment are graded side by side: each slow one waits for all the others."""
    all_are_done = threading.Barrier(10)

    class Slow:
        def grade(self, evidence: Evidence) -> Grade:
            all_are_done.wait(timeout=60)
            return Grade("slow", 1.0, "")

    class Quick:
        def grade(self, evidence: Evidence) -> Grade:
            quick.append(threading.Thread(target=all_are_done.wait, args=(60,), daemon=True))
            quick[-1].start()
            return Grade("quick", 1.0, "")

    quick: list[threading.Thread] = []
    known = registry(slow=Slow, quick=Quick)
    five = [[plan(f"{name}{n}", PlannedGrader(name, name)) for n in range(5)] for name in ("slow", "quick")]
    trials = execute(known, *five[0], *five[1])
    assert {trial.ending for trial in trials} == {"passed"}


def test_a_provider_that_is_down_breaks_the_trial_and_not_the_grade() -> None:
    """A judge that cannot be had is nobody's miss."""
    known = registry(bad=lambda: Raising(ProviderDown("judge: no reply")))
    (trial,) = execute(known, plan("t", PlannedGrader("bad", "bad"), FINE))
    assert (trial.ending, trial.cause, trial.score) == ("errored", "provider", None)
    assert (trial.message, trial.traceback) == ("judge: no reply", "")
    assert [grade.score for grade in trial.grades] == [None, 1.0], "what was graded is kept"


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
        replies = [
            (await judge.chat.ask([{"role": "user", "content": evidence.answer}])).text
            for judge in self.judges
        ]
        return Grade("asking", sum(text == "yes" for text in replies) / len(replies), ", ".join(replies))


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
    planned = PlannedGrader("asking", "asking", threshold=0.5)
    (trial,) = execute(known, plan("t", planned, conditions=Conditions(judges=judges)))
    assert (trial.ending, trial.grades[0].score, trial.grades[0].rationale) == ("passed", 0.5, "yes, no")
    assert (trial.usage.asks, trial.usage.tokens, trial.usage.cost_usd) == (1, 0, 0.0)
    assert [event.details["role"] for event in trial.transcript.events if event.kind == "judge_ask"] == [
        "kind for asking",
        "strict for asking",
    ]


def test_a_grader_without_judges_may_say_that_it_cannot_tell() -> None:
    """It is given none, and asked all the same."""
    (trial,) = execute(registry(asking=Asking), plan("t", PlannedGrader("asking", "asking"), FINE))
    assert (trial.grades[0].score, trial.grades[0].rationale) == (None, "no judge configured")
    assert trial.ending == "passed"


def test_refusing_judges_is_a_crash_of_the_grader() -> None:
    """A grader that raises while it is given its judges harms no other."""

    class Refusing(Asking):
        def with_judges(self, judges: Sequence[Judge]) -> Asking:
            sys.exit("no judges here")

    trial = trial_with_graders(refusing=Refusing())
    assert (trial.cause, trial.message) == ("grader_crash", "refusing raised SystemExit: no judges here")
    assert grades(trial)["fine"].score == 1.0


def test_judges_whose_budget_is_spent_leave_a_grade_undecided() -> None:
    """Nobody's code broke: it could not be told."""
    trial = trial_with_graders(spent=Raising(LimitReached("tokens", 5, 8)))
    assert (trial.ending, grades(trial)["spent"].undecided) == ("passed", "limit")


class Hanging:
    """Never comes back: in a thread, or on the loop."""

    def grade(self, evidence: Evidence) -> Grade:
        time.sleep(600)
        raise AssertionError


class HangingAwaited:
    """The same, on the loop."""

    async def grade(self, evidence: Evidence) -> Grade:
        await asyncio.sleep(600)
        raise AssertionError


@pytest.mark.parametrize("hanging", [Hanging, HangingAwaited])
def test_a_grader_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, hanging: type) -> None:
    """Its trial is errored and says so, the grades that were given stay, and other trials are as ever."""
    monkeypatch.setattr("pytest_agenteval.engine.grading.GRADING_S", 0.3)
    both = (PlannedGrader("answer_contains", "says", {"text": "Mina"}), PlannedGrader("hanging", "hangs"))
    hung, fine = execute(registry(hanging=hanging), plan("hung", *both), plan("fine"))
    assert (hung.ending, hung.cause) == ("errored", "grader_hangs")
    assert [(grade.grader, grade.score) for grade in hung.grades] == [("says", 1.0), ("hangs", None)]
    assert hung.grades[1].rationale == "no grade within 0.3 s"
    assert fine.ending == "passed"


@pytest.mark.parametrize(
    ("raised", "traced"), [(ValueError("oh"), True), (JudgeUnavailable("asked something else"), False)]
)
def test_what_is_foreseen_needs_no_traceback(raised: Exception, traced: bool) -> None:
    """Somebody's mistake is shown with its lines; what is foreseen is one sentence, a thousand times over."""
    trial = trial_with_graders(odd=Raising(raised))
    grade = grades(trial)["odd"]
    assert str(raised) in grade.rationale
    assert ("traceback" in grade.details) is bool(trial.traceback) is traced


class Unreadable(dict[str, object]):
    """Details that raise when somebody looks."""

    def items(self) -> Any:
        """Refuse."""
        raise RuntimeError("not for you")


class Unspeakable(Exception):
    """What cannot say what it is."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "grader",
    [Giving(Grade("odd", 1.0, "fine", details=Unreadable(a=1))), Raising(Unspeakable())],
    ids=["details", "text"],
)
def test_what_cannot_be_looked_at_breaks_its_grader_only(grader: object) -> None:
    """The trial is errored by the grader's name, and what the others found is kept."""
    trial = trial_with_graders(odd=grader)
    assert (trial.ending, trial.cause) == ("errored", "grader_crash")
    assert [grade.score for grade in trial.grades] == [None, 1.0]


def test_a_trial_that_is_called_off_while_it_is_graded_ends_there() -> None:
    """The run has ended: no grade is made of it, and the trial is not taken for an errored one."""
    graded = asyncio.Event()

    class Waiting:
        async def grade(self, evidence: Evidence) -> Grade:
            graded.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def called_off() -> None:
        trial = asyncio.create_task(
            run_trial(plan("t", PlannedGrader("odd", "odd")), WorkerContext(registry(odd=Waiting)))
        )
        await graded.wait()
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial

    asyncio.run(called_off())

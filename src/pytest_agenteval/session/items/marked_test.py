"""A test with the mark ``agenteval``: its body is the agent's turn, its asserts are the grade."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from pytest_agenteval.engine.trial import error_details
from pytest_agenteval.records.evidence import Grade, Outcome
from pytest_agenteval.records.plan import OWN_MODEL, Kind, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Digests, ErrorDetails, Trial
from pytest_agenteval.records.truncation import truncated_text
from pytest_agenteval.session.api.fixture import AgentEval, place_of, suite_of, task_of
from pytest_agenteval.session.api.given import name_of
from pytest_agenteval.session.api.session_environment import SessionEnvironment
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import text_digest

ASSERTS = "asserts"
"""The label of the one grade of such a trial."""
MODEL = Model(OWN_MODEL, OWN_MODEL)
_PASSING_ON = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception, KeyboardInterrupt)


class TestMark(NamedTuple):
    """What a mark says: how often the body runs, and the least share of repetitions whose asserts hold."""

    repetitions: int = 1
    threshold: float = 1.0


def read_mark(item: pytest.Item) -> TestMark | None:
    """Give what a test's mark says; raises UsageMistake for what no mark can say."""
    mark = item.get_closest_marker("agenteval")
    if mark is None:
        return None
    place = f"{item.nodeid}: @pytest.mark.agenteval"
    if mark.args:
        raise UsageMistake(
            f"{place}: expected repetitions=, threshold=; found {mark.args[0]!r} without a name"
        )
    for name in mark.kwargs:
        if name not in TestMark._fields:
            hint = did_you_mean(name, TestMark._fields)
            parts = (f"{place}: expected repetitions=, threshold=; found {name}=", hint)
            raise UsageMistake("; ".join(part for part in parts if part))
    return _checked(TestMark(**mark.kwargs), place)


def _checked(mark: TestMark, place: str) -> TestMark:
    repetitions, threshold = mark
    if isinstance(repetitions, bool) or not isinstance(repetitions, int) or repetitions < 1:
        raise UsageMistake(f"{place}: expected repetitions, a whole number, 1 or more; found {repetitions!r}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UsageMistake(f"{place}: expected threshold, a number from 0 to 1; found {threshold!r}")
    return mark


class MarkedTest:
    """Runs the body of a marked test as often as it is to be tried, each time as a trial of the run."""

    def __init__(self, evals: EvalSession, item: pytest.Function, mark: TestMark) -> None:
        self._item, self._threshold = item, float(mark.threshold)
        between = evals.settings.repetition_range  # no comparison decides here: the fewest are made
        self._repetitions = between.low if between else evals.settings.fixed_repetitions or mark.repetitions
        self._environment = SessionEnvironment(evals, item)
        # A single repetition that misses is no failure where not all of them have to pass.
        self._kind: Kind = "capability" if self._threshold < 1 and self._repetitions > 1 else "mixed"
        self._task = _task_of(item, self._kind)

    def call(self) -> None:
        """Run the body; raise what failed first where too few repetitions pass, or one of them broke."""
        fixture = next((value for value in self._funcargs.values() if isinstance(value, AgentEval)), None)
        broken: list[BaseException] = []
        failed: list[BaseException] = []
        for repetition in range(1, self._repetitions + 1):
            if fixture is not None:
                fixture.begin_repetition(repetition)
            trial, raised = self._repetition(repetition, fixture)
            if raised is not None:
                (broken if trial.ending == "errored" else failed).append(raised)
        share = 1 - len(failed) / max(1, self._repetitions - len(broken))
        if broken or share < self._threshold - 1e-9:
            self._raise((broken or failed)[0], len(failed), len(broken))

    @property
    def _funcargs(self) -> Mapping[str, Any]:
        return self._item.funcargs

    def _raise(self, first: BaseException, failed: int, broken: int) -> None:
        """Raise what came first, with how the others ended where there are others."""
        if self._repetitions > 1:
            passed = self._repetitions - failed - broken
            parts = [f"{passed} of {self._repetitions} repetitions passed"]
            parts += [f"{broken} broke"] if broken else []
            parts.append(f"threshold {self._threshold:g}")
            first.add_note(f"agenteval: {', '.join(parts)}; this is the first that did not pass")
        raise first

    def _repetition(self, number: int, fixture: AgentEval | None) -> tuple[Trial, BaseException | None]:
        plan = self._environment.begin_test(Plan(self._task, MODEL, repetition=number))
        started_at, began = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
        raised = _raised_by(lambda: self._item.ihook.pytest_pyfunc_call(pyfuncitem=self._item))
        if isinstance(raised, _PASSING_ON):
            raise raised
        trial = _trial(plan, raised, Transcript())
        trial = replace(
            trial, started_at=started_at, seconds=time.monotonic() - began, digests=_digests(self._item)
        )
        if fixture is not None:
            trial = fixture.with_recordings(trial)
        return self._environment.end_test(plan, trial), raised


def _raised_by(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as raised:  # whatever ends a body: what it means is decided by what it is
        return raised
    return None


def _task_of(item: pytest.Item, kind: Kind) -> PlannedTask:
    place = place_of(item)
    suite = suite_of(item)
    return PlannedTask(
        suite=suite,
        id=task_of(item),
        agent=name_of(getattr(item, "function", item)),
        kind=kind,
        bucket=item.path.stem,
        graders=(PlannedGrader(ASSERTS, ASSERTS),),
        file=suite,
        line=place.line,
        file_in_root=suite,
        description=inspect.getdoc(getattr(item, "function", None)) or "",
    )


def _trial(plan: Plan, raised: BaseException | None, transcript: Transcript) -> Trial:
    """Give the trial that one run of the body was: graded by its asserts, or broken by anything else."""
    if raised is None or isinstance(raised, AssertionError | pytest.fail.Exception):
        score, why = (1.0, "every assert holds") if raised is None else (0.0, truncated_text(str(raised)))
        ending = "passed" if raised is None else "missed" if plan.task.kind == "capability" else "failed"
        base = Trial.errored(plan, ErrorDetails("", ""))
        return replace(
            base,
            ending=ending,
            score=score,
            grades=(Grade(ASSERTS, score, why),),
            transcript=transcript,
            outcome=Outcome(),
        )
    return replace(Trial.errored(plan, error_details(raised)), transcript=transcript)


def _digests(item: pytest.Item) -> Digests:
    """Give what the asserts are: a test that was changed is another ruler."""
    try:
        source = inspect.getsource(getattr(item, "function", place_of))
    except (OSError, TypeError):
        return Digests()
    digest = text_digest(source)
    return Digests(ruler=digest, graders={ASSERTS: f"1:{digest[:12]}"})


def marked_tests(
    items: Sequence[pytest.Item], evals: EvalSession
) -> Iterator[tuple[pytest.Function, MarkedTest]]:
    """Give the tests among items that bear the mark and are no trials of a task."""
    for item in items:
        if isinstance(item, pytest.Function) and not hasattr(item, "case"):
            mark = read_mark(item)
            if mark is not None:
                yield item, MarkedTest(evals, item, mark)

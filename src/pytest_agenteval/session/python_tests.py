"""Suites in test modules, and tests of one's own that try agents by the fixture or the mark ``agenteval``."""

from __future__ import annotations

import inspect
import time
import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from _pytest.python import PyCollector
from msgspec.structs import replace

from pytest_agenteval.engine.trial import error_details
from pytest_agenteval.records.evidence import ROUNDING, Grade, Outcome
from pytest_agenteval.records.plan import OWN_MODEL, Kind, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Digests, ErrorDetails, Trial
from pytest_agenteval.records.truncation import truncated_text
from pytest_agenteval.session.api.code_tasks import CodeTasks
from pytest_agenteval.session.api.fixture import AgentEval, SessionEnvironment, place_of, suite_of, task_id_of
from pytest_agenteval.session.api.suite import Suite, name_of
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.stash import MARKED_TEST
from pytest_agenteval.session.trial_items import TrialItem, collect_items, items_of
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import text_digest

ASSERTS = "asserts"  # the label of the one grade of such a trial
MODEL = Model(OWN_MODEL, OWN_MODEL)
_RERAISED = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception, KeyboardInterrupt)


class TestMark(NamedTuple):
    """What the mark ``agenteval`` of a test says."""

    repetitions: int = 1  # how often its body runs
    threshold: float = 1.0  # the share of them whose asserts must hold


def _read_mark(item: pytest.Item) -> TestMark | None:
    """Read a test's mark, if it has one; raises UsageMistake for wrong arguments."""
    mark = item.get_closest_marker("agenteval")
    if mark is None:
        return None
    place = f"{item.nodeid}: @pytest.mark.agenteval"
    if mark.args or not mark.kwargs.keys() <= set(TestMark._fields):
        given = ", ".join([*map(repr, mark.args), *(f"{name}=" for name in mark.kwargs)])
        raise UsageMistake(f"{place}: expected repetitions=, threshold=; found {given}")
    test_mark = TestMark(**mark.kwargs)
    repetitions, threshold = test_mark
    if isinstance(repetitions, bool) or not isinstance(repetitions, int) or repetitions < 1:
        raise UsageMistake(f"{place}: expected repetitions, a whole number, 1 or more; found {repetitions!r}")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UsageMistake(f"{place}: expected threshold, a number from 0 to 1; found {threshold!r}")
    return test_mark


class MarkedTest:
    """Runs the body of a marked test once for each repetition, each time as a trial of the run."""

    def __init__(self, evals: EvalSession, item: pytest.Function, mark: TestMark) -> None:
        self._item, self._threshold = item, float(mark.threshold)
        # No comparison decides about marked tests, so the fewest repetitions are run.
        between = evals.settings.repetition_range
        self._repetitions = between.low if between else evals.settings.fixed_repetitions or mark.repetitions
        self._environment = SessionEnvironment(evals, item)
        # Where not all repetitions have to pass, one that misses is no failure, as in a capability suite.
        self._kind: Kind = "capability" if self._threshold < 1 and self._repetitions > 1 else "mixed"
        suite, function = suite_of(item), getattr(item, "function", None)
        self._task = PlannedTask(
            suite=suite,
            id=task_id_of(item),
            agent=name_of(function or item),
            kind=self._kind,
            bucket=item.path.stem,
            graders=(PlannedGrader(ASSERTS, ASSERTS),),
            file=suite,
            line=place_of(item).line,
            file_in_root=suite,
            description=inspect.getdoc(function) or "",
        )

    def call(self) -> None:
        """Run the body; raise the first failure where too few repetitions pass, or the first error."""
        funcargs: Mapping[str, Any] = self._item.funcargs
        fixture = next((value for value in funcargs.values() if isinstance(value, AgentEval)), None)
        broken: list[BaseException] = []
        failed: list[BaseException] = []
        for repetition in range(1, self._repetitions + 1):
            if fixture is not None:
                fixture.begin_repetition(repetition)
            trial, raised = self._repetition(repetition, fixture)
            if raised is not None:
                (broken if trial.ending == "errored" else failed).append(raised)
        share = 1 - len(failed) / max(1, self._repetitions - len(broken))
        # A share such as 1 - 1/3 is not exact in binary, so it may come out just below its threshold.
        if not broken and share >= self._threshold - ROUNDING:
            return
        first = (broken or failed)[0]
        if self._repetitions > 1:
            passed = self._repetitions - len(failed) - len(broken)
            parts = [f"{passed} of {self._repetitions} repetitions passed"]
            parts += [f"{len(broken)} broke"] if broken else []
            parts.append(f"threshold {self._threshold:g}")
            first.add_note(f"agenteval: {', '.join(parts)}; the first that did not pass is shown here")
        raise first

    def _repetition(self, number: int, fixture: AgentEval | None) -> tuple[Trial, BaseException | None]:
        plan = self._environment.begin_test(Plan(self._task, MODEL, repetition=number))
        started_at, began = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
        raised: BaseException | None = None
        try:
            self._item.ihook.pytest_pyfunc_call(pyfuncitem=self._item)
        except _RERAISED:
            raise
        except BaseException as broken:  # whatever ends a body: its kind decides how the trial ended
            raised = broken
        seconds = time.monotonic() - began
        trial = replace(
            _trial_of_body(plan, raised),
            started_at=started_at,
            seconds=seconds,
            wall_seconds=seconds,
            digests=_digests(self._item),
        )
        if fixture is not None:
            trial = fixture.with_recordings(trial)
        return self._environment.end_test(plan, trial), raised


def _trial_of_body(plan: Plan, raised: BaseException | None) -> Trial:
    """Give the trial of one run of the body: graded by its asserts, or errored for any other exception."""
    if raised is not None and not isinstance(raised, AssertionError | pytest.fail.Exception):
        return replace(Trial.errored(plan, error_details(raised)), transcript=Transcript())
    score, why = (1.0, "every assert holds") if raised is None else (0.0, truncated_text(str(raised)))
    ending = "passed" if raised is None else "missed" if plan.task.kind == "capability" else "failed"
    return replace(
        Trial.errored(plan, ErrorDetails("", "")),
        ending=ending,
        score=score,
        grades=(Grade(ASSERTS, score, why),),
        transcript=Transcript(),
        outcome=Outcome(),
    )


def _digests(item: pytest.Item) -> Digests:
    # The asserts are what measures: scores are not compared after the test was changed.
    try:
        source = inspect.getsource(getattr(item, "function", place_of))
    except (OSError, TypeError):
        return Digests()
    digest = text_digest(source)
    return Digests(ruler=digest, graders={ASSERTS: f"1:{digest[:12]}"})


def agenteval_of(request: pytest.FixtureRequest) -> AgentEval:
    return AgentEval(get_eval_session(request.config), request.node)


def session_with_tests(config: pytest.Config, tests: Sequence[pytest.Item]) -> EvalSession:
    """Give the session's evals, and have marked tests run as often as their marks say."""
    evals = get_eval_session(config)
    if evals.settings.regrade or evals.audit is not None:
        which = "--agent-regrade" if evals.settings.regrade else "--agent-audit"
        for item in tests:
            item.add_marker(pytest.mark.skip(f"{which}: trials of tasks only; this test would run an agent"))
        return evals
    try:
        for item in tests:
            if isinstance(item, pytest.Function) and not hasattr(item, "case") and (mark := _read_mark(item)):
                setattr(item, MARKED_TEST, MarkedTest(evals, item, mark))
    except UsageMistake as mistake:
        evals.refuse(mistake)
    return evals


_collected: pytest.StashKey[dict[int, Suite]] = pytest.StashKey()


class PythonSuite(PyCollector):
    """A suite in a variable, below its module: ``test_support.py::refunds::late[gpt-1]``."""

    suite: Suite

    def _getobj(self) -> types.ModuleType:
        # pytest looks for functions there when it builds items.
        return types.ModuleType("agenteval_tasks")

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Give an item for each trial of each task; raises FileProblems with all problems of the suite."""
        return collect_items(get_eval_session(self.config), self._items)

    def _items(self, evals: EvalSession) -> Iterable[TrialItem]:
        if evals.settings.executor_name != "local":
            raise UsageMistake(
                f"--agent-executor={evals.settings.executor}: the suite {self.suite.name!r} "
                f"({self.suite.place}) is written in Python, so its graders and agent exist only in "
                "this process: use local, or -n"
            )
        tasks = CodeTasks(evals.planner, evals.registry, self.config.rootpath).of_suite(self.suite)
        return items_of(self, evals, tasks)


def collect_suite(collector: pytest.Collector, name: str, value: Any) -> PythonSuite | None:
    """Collect a suite in a module's variable; it is collected once, however many modules import it."""
    if not isinstance(value, Suite) or not isinstance(collector, pytest.Module):
        return None
    collected = collector.config.stash.setdefault(_collected, {})
    if id(value) in collected:
        return None
    collected[id(value)] = value  # while it lives nothing else has its id
    node: PythonSuite = PythonSuite.from_parent(collector, name=name)
    node.suite = value
    return node

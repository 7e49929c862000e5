"""The fixture ``agenteval``: agents from a test's own code, within the session's run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Coroutine, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import pytest
from msgspec.structs import astuple, replace

from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import NO_USAGE, ToolCall, Transcript
from pytest_agenteval.records.trial import TapeCounts, Trial, part_paid
from pytest_agenteval.session.api.code_tasks import TaskReference
from pytest_agenteval.session.api.recording import Recording, RecordingPlace, pytest_commands
from pytest_agenteval.session.api.running import (
    Environment,
    RunKeywords,
    RunOptions,
    Trials,
    mode_of,
    plans_of,
    refuse_running_loop,
    regrade_in,
    single_or_trials,
    tool_calls,
)
from pytest_agenteval.session.api.suite import AgentReference, CodePlace, GraderReference, calling_place
from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.session.item_reports import call_trial_finished
from pytest_agenteval.tasks.documents import path_in_root
from pytest_agenteval.tasks.row_tasks import safe_id
from pytest_agenteval.text.json_values import text_digest


class SessionEnvironment(Environment):
    """The registry, settings, journal and pool of a session, for the trials of one item."""

    def __init__(self, evals: EvalSession, item: pytest.Item) -> None:
        super().__init__(evals.registry, evals.config.rootpath, evals.settings)
        self._evals, self._item = evals, item
        self.keep_workspaces = str(evals.folder / "workspaces") if evals.settings.keep_workspaces else ""

    def carry_out(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        return self._call_hooks(self._evals.runner.carry_out(jobs, self._item))

    async def carry_out_async(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        return self._call_hooks(await self._evals.runner.carry_out_async(jobs, self._item))

    def grade(self, jobs: Sequence[TrialJob]) -> list[Trial]:
        """Grade stored trials again, and wait for them; the run keeps their first grades."""
        trials = super().carry_out(jobs)
        for trial in trials:
            self._evals.runner.note_paid(trial)
        return trials

    def begin_test(self, plan: Plan) -> Plan:
        return self._evals.runner.begin_test(plan, self._item)

    def end_test(self, plan: Plan, trial: Trial) -> Trial:
        return self._call_hooks([self._evals.runner.end_test(plan, trial)])[0]

    def _call_hooks(self, trials: list[Trial]) -> list[Trial]:
        for trial in trials:
            call_trial_finished(self._evals.config, trial, self._evals.failed_hooks)
        return trials


_LOST_IN_IDS = re.compile(r"[\s/:\[\]]")


def place_of(item: pytest.Item) -> CodePlace:
    function = inspect.unwrap(getattr(item, "function", place_of))
    return CodePlace(item.path, function.__code__.co_firstlineno)


def suite_of(item: pytest.Item) -> str:
    """Give the suite of a test's trials: the path of its module."""
    return path_in_root(item.path, item.config.rootpath)


def task_id_of(item: pytest.Item) -> str:
    """Give the task id of a test: its name, with those of its classes and its parameters."""
    # Where a parameter loses characters, a digest distinguishes ``a/b`` and ``a b`` in journals and
    # cassettes.
    name, bracket, parameter = item.nodeid.partition("::")[2].partition("[")
    id = safe_id(f"{name.replace('::', '.')}{bracket}{parameter}")
    lost = _LOST_IN_IDS.search(parameter.removesuffix("]"))
    return f"{id}-{text_digest(parameter)[:8]}" if lost else id


class AgentEval:
    """Runs agents inside a pytest test; the fixture ``agenteval``.

    The suite of what it tries is the test's module, the task the test itself, unless a task's file says
    otherwise. Where a call names no mode, ``--agent-record`` and ``--agent-record-chat`` hold.
    """

    def __init__(self, evals: EvalSession, item: pytest.Item) -> None:
        self._environment = SessionEnvironment(evals, item)
        self._item = item
        self._repetition = 1
        self._calls = 0
        self._recordings: list[Recording] = []

    @overload
    def run(
        self, task: TaskReference, *, repetitions: Literal[1] = 1, **options: Unpack[RunKeywords]
    ) -> Trial: ...
    @overload
    def run(
        self, task: TaskReference, *, repetitions: int, **options: Unpack[RunKeywords]
    ) -> Trial | Trials: ...
    def run(
        self,
        task: TaskReference,
        *,
        agent: AgentReference | None = None,
        model: str | None = None,
        repetitions: int = 1,
        record: str | None = None,
        record_chat: str | None = None,
        judge: Sequence[str] = (),
        settings: Mapping[str, Any] = NOTHING,
    ) -> Trial | Trials:
        """Try one task, as ``pytest_agenteval.run`` does, and write it down in the session's run."""
        refuse_running_loop("run")
        options = RunOptions(agent, model, repetitions, record, record_chat, judge, settings)
        plans = self._plans(task, options, calling_place())
        trials = self._environment.carry_out(list(map(TrialJob, plans)))
        return single_or_trials(trials, plans, self._environment)

    @overload
    def arun(
        self, task: TaskReference, *, repetitions: Literal[1] = 1, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Trial]: ...
    @overload
    def arun(
        self, task: TaskReference, *, repetitions: int, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Trial | Trials]: ...
    def arun(
        self,
        task: TaskReference,
        *,
        agent: AgentReference | None = None,
        model: str | None = None,
        repetitions: int = 1,
        record: str | None = None,
        record_chat: str | None = None,
        judge: Sequence[str] = (),
        settings: Mapping[str, Any] = NOTHING,
    ) -> Coroutine[Any, Any, Trial | Trials]:
        """Do what ``run`` does in a test that is a coroutine."""
        options = RunOptions(agent, model, repetitions, record, record_chat, judge, settings)
        return self._arun(self._plans(task, options, calling_place()))

    async def _arun(self, plans: list[Plan]) -> Trial | Trials:
        trials = await self._environment.carry_out_async(list(map(TrialJob, plans)))
        return single_or_trials(trials, plans, self._environment)

    def grade(self, trial: Trial, graders: Sequence[GraderReference] | None = None) -> Trial:
        """Give a trial with new grades, as ``pytest_agenteval.grade`` does; the run keeps what it had."""
        refuse_running_loop("grade")
        return regrade_in(self._environment, trial, graders, calling_place())

    def tool_calls(self, trial: Trial, name: str | None = None) -> list[ToolCall]:
        """Give the calls of tools that a trial's agent made: all of them, or those of one tool."""
        return tool_calls(trial, name)

    def with_recordings(self, trial: Trial) -> Trial:
        """Put what this repetition of the test has recorded into its trial."""
        recordings = self._recordings
        if not recordings:
            return trial
        tools, chats = zip(*(each.tape_counts for each in recordings), strict=True)
        transcript = _joined([each.transcript for each in recordings])
        return replace(
            trial,
            transcript=transcript,
            tool_tape=_sum(tools),
            chat_tape=_sum(chats),
            paid=part_paid(transcript.all_usage, sum((each.paid for each in recordings), NO_USAGE)),
        )

    def record(self, name: str, *, record: str | None = None, record_chat: str | None = None) -> Recording:
        """See and tape everything that code inside asks, as ``pytest_agenteval.record`` does.

        The recordings lie in ``cassettes/``, in folders of the test's module and of the test. In a test with
        the mark ``agenteval`` what was seen is the transcript of its trial; each repetition has replies of
        its own.
        """
        environment, item = self._environment, self._item
        place = RecordingPlace(
            cassette_folder(item) / name,
            environment.root,
            mode_of("record", record, environment.settings.record),
            mode_of("record_chat", record_chat, environment.settings.record_chat),
            bool(environment.settings.live),
            self._repetition,
            pytest_commands(item.nodeid),
            has_trial=item.get_closest_marker("agenteval") is not None,
            prices=environment.prices,
        )
        self._recordings.append(Recording(name, place))
        return self._recordings[-1]

    def _plans(self, task: TaskReference, options: RunOptions, place: CodePlace) -> list[Plan]:
        self._calls += 1
        id = task_id_of(self._item) if self._calls == 1 else f"{task_id_of(self._item)}-{self._calls}"
        plans = plans_of(self._environment, task, options, place, suite_of(self._item), id)
        if self._repetition > 1 and len(plans) == 1:
            return [replace(plan, repetition=self._repetition) for plan in plans]
        return plans

    def begin_repetition(self, number: int) -> None:
        """Have the following calls belong to this repetition of the test, from 1."""
        self._repetition, self._calls = number, 0
        self._recordings = []


def _joined(transcripts: Sequence[Transcript]) -> Transcript:
    def all_of(part: str) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(getattr(each, part) for each in transcripts))

    usage = sum((each.usage for each in transcripts), NO_USAGE)
    return Transcript(
        messages=all_of("messages"),
        calls=all_of("calls"),
        asks=all_of("asks"),
        events=all_of("events"),
        usage=usage,
        tools=all_of("tools"),
    )


def _sum(counts: Sequence[TapeCounts]) -> TapeCounts:
    return TapeCounts(*(sum(figures) for figures in zip(*map(astuple, counts), strict=True)))


def cassette_folder(item: pytest.Item) -> Path:
    """Give the folder of a test's recordings: ``cassettes/``, its module's path and its name."""
    module = Path(suite_of(item)).with_suffix("")
    parts = module.parts[1:] if module.parts[0] == "evals" else module.parts
    return item.config.rootpath.joinpath("cassettes", *parts, task_id_of(item))

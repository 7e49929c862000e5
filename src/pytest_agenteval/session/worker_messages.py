"""What workers send to the controller beside trials: what was neither run nor saved, and packed reports."""

from __future__ import annotations

import marshal
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from pytest_agenteval.engine.executor import UnusedRecordings, merge_unused
from pytest_agenteval.engine.jobs import standings_of_run
from pytest_agenteval.records.plan import OWN_MODEL
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings_reading import misspelt_variables
from pytest_agenteval.session.stash import (
    eval_session_key,
    run_info_key,
    uncollected_key,
    worker_messages_key,
)
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.formatting import few_names, pluralize

if TYPE_CHECKING:
    from pytest_agenteval.session.eval_session import EvalSession


MOST_FILES = 5  # cassettes with unused recordings that are named


class WorkerMessages(Record, frozen=True):
    """What a process reports beside its trials."""

    blocking_fixtures: Mapping[str, int] = NOTHING  # trials that ran one by one, by what forced it
    unused_recordings: Mapping[str, UnusedRecordings] = NOTHING
    lines: tuple[str, ...] = ()  # what was neither tried nor saved, each once
    is_empty_shard: bool = False  # all items belong to other shards

    def merged(self, other: WorkerMessages) -> WorkerMessages:
        counts = dict(self.blocking_fixtures)
        for name, count in other.blocking_fixtures.items():
            counts[name] = counts.get(name, 0) + count
        return WorkerMessages(
            counts,
            merge_unused(self.unused_recordings, other.unused_recordings),
            # Each worker looks at all tasks, so most lines are the same.
            tuple(dict.fromkeys((*self.lines, *other.lines))),
            self.is_empty_shard or other.is_empty_shard,
        )


def add_messages(config: pytest.Config, messages: WorkerMessages) -> None:
    """Store the messages of a worker, or of the end of the run."""
    config.stash[worker_messages_key] = _messages_of_others(config).merged(messages)


def own_messages(config: pytest.Config) -> WorkerMessages:
    """Give the messages of this process; without evals, about files that it did not collect."""
    evals = config.stash.get(eval_session_key, None)
    lines = tuple(_session_lines(config, evals))
    if evals is None or not evals.has_runner:
        return WorkerMessages(lines=lines, is_empty_shard=evals is not None and evals.is_empty_shard)
    runner = evals.runner
    blocking = dict(runner.prefetcher.readiness.blocking_fixtures)
    return WorkerMessages(blocking, runner.report.unused_recordings, (*lines, *runner.report.remarks))


def is_empty_shard(config: pytest.Config) -> bool:
    """Whether this process, or a worker of it, found that all items belong to other shards."""
    evals: EvalSession | None = config.stash.get(eval_session_key, None)
    return _messages_of_others(config).is_empty_shard or (evals is not None and evals.is_empty_shard)


def message_lines(config: pytest.Config) -> Iterator[str]:
    """Give the messages of this process and its workers as lines."""
    messages = _messages_of_others(config).merged(own_messages(config))
    for name, count in messages.blocking_fixtures.items():
        yield f"{pluralize(count, 'trial')} ran one by one: fixture {name}"
    if messages.unused_recordings:
        yield from _unused_recording_lines(messages.unused_recordings)
    if run_info_key in config.stash:
        for standing in standings_of_run(str(get_run_info(config).rates)).values():
            parts = [f"{status} x {number}" for status, number in sorted(standing.refused.items())]
            if standing.least:
                parts.append(f"limited to {standing.least} at once")
            if standing.down is not None:
                parts.append("not called any more")
            elif standing.outages:
                times = standing.outages
                parts.append(
                    "unavailable for a while" if times == 1 else f"unavailable for a while, {times} times"
                )
            if parts:
                yield f"{standing.name}: {', '.join(parts)}"
    yield from messages.lines


def is_header_hidden(config: pytest.Config) -> bool:
    """Whether pytest shows no lines of ours after the collection: in workers, and with -q."""
    return hasattr(config, "workerinput") or config.getoption("verbose", 0) < 0


def not_tasks_lines(evals: EvalSession) -> Iterator[str]:
    """Report under -v how many files below suites hold no task."""
    if evals.config.getoption("verbose", 0) > 0 and (paths := evals.planner.not_tasks()):
        are = "is no task" if len(paths) == 1 else "are no tasks"
        yield f"{pluralize(len(paths), 'file')} below suites {are}: see agenteval validate"


def uncollected_files(config: pytest.Config) -> list[str]:
    """Name the files below suites that are no tasks, and files elsewhere that may be meant as tasks."""
    evals = config.stash.get(eval_session_key, None)
    if evals is None or evals.refusal:
        return _suite_hints(config)
    listed = (f"not a task: {short_path(path)}" for path in evals.planner.not_tasks())
    return [*listed, *_suite_hints(config), *_unused_workspaces(evals), *evals.planner.missing_agents()]


def unknown_promoted(config: pytest.Config) -> list[ProblemsFound]:
    """Give, for each suite file, the names in ``promoted`` that no collected task has."""
    evals = config.stash.get(eval_session_key, None)
    problems = [] if evals is None else evals.planner.unknown_promoted()
    return [ProblemsFound(own) for _, own in groupby(problems, key=lambda problem: problem.file)]


# The kind of a cassette, which of its recordings, and the words for them.
UNUSED = (
    ("tool", "unused", "recorded calls were not replayed"),
    ("tool", "stale", "recorded calls belong to tools that no longer exist"),
    ("chat", "unused", "recorded replies of agents' own models were not replayed"),
)


def _unused_recording_lines(cassettes: Mapping[str, UnusedRecordings]) -> Iterator[str]:
    """Say how many recordings were not used, and in which files most of them are."""
    for kind, which, words in UNUSED:
        own = {name: cassette for name, cassette in cassettes.items() if cassette.kind == kind}
        counts = {name: count for name, each in own.items() if (count := len(getattr(each, which)))}
        if counts:
            whole = sum(cassette.recorded for cassette in own.values())
            most = sorted(counts, key=lambda name: (-counts[name], name))
            files = few_names([f"{name} ({counts[name]})" for name in most], MOST_FILES, " and {} more files")
            yield f"{sum(counts.values())} of {whole} {words}: {files}"


def _session_lines(config: pytest.Config, evals: EvalSession | None) -> Iterator[str]:
    """Give lines about what this process has neither run nor saved although the user may expect it."""
    if evals is not None and evals.refusal:
        return
    if evals is not None:
        if is_header_hidden(config):
            yield from misspelt_variables(os.environ)
        yield from evals.selection_remarks
        if evals.is_empty_shard and evals.sharded is not None:
            number, total = evals.settings.shard or (1, 1)
            left = pluralize(len(evals.sharded.others), "test")
            yield f"shard {number} of {total} has nothing to do: the other shards have {left}"
        if evals.stored is not None:
            yield from evals.stored.remarks()
        if hasattr(config, "workerinput"):  # in other processes the header shows these
            yield from filter(None, [evals.reuse_summary])
            yield from not_tasks_lines(evals)
        for agent in evals.silent_agents:
            yield f"{agent}: the agent gave an empty answer in every trial that missed"
        yield from _agents_without_model(evals)
        yield from evals.failed_hooks.values()
        yield from (f"warning: {line}" for line in evals.registry.broken_benchmarks)
        for problem in evals.runner.report.unsaved if evals.has_runner else ():
            yield f"recordings not written: {problem.file}: {problem.found}"
        yield from _unused_workspaces(evals)
        yield from evals.planner.missing_agents()
    yield from _suite_hints(config)


def _agents_without_model(evals: EvalSession) -> Iterator[str]:
    """Name the agents on which ``--agent-model`` has no effect."""
    # A controller that only sums up needs no agent.
    from pytest_agenteval.agents.agent import agent_trait

    if not evals.settings.models or evals.stored is not None:
        return
    forms = {
        item.task.agent: item.task.form
        for item in evals.selected
        if item.task.form and not item.case.model.offline and item.case.model.id != OWN_MODEL
    }
    # Agents that used other models are left out: the tables show which models they used.
    for agent in sorted(forms.keys() - evals.agents_with_other_models):
        factory = evals.registry.agent_factory(agent)
        if forms[agent].get("http") and agent_trait(factory, "takes_model") is False:
            yield f"--agent-model has no effect on {agent}: put {{model}} into its `body`"


def _suite_hints(config: pytest.Config) -> list[str]:
    paths = config.stash.get(uncollected_key, None)
    if not paths:
        return []
    from pytest_agenteval.session.planning.suites import missing_suite_hints

    return missing_suite_hints(paths, config.rootpath)


def _unused_workspaces(evals: EvalSession) -> Iterator[str]:
    # These folders look like starting trees of tasks, but no task starts from them.
    for path in evals.planner.unused_workspaces():
        how = "name the task file beside it task.yaml, or name the folder in `input: {fixture_dir: ...}`"
        yield f"{short_path(path)}: no task uses this workspace; {how}"


def _messages_of_others(config: pytest.Config) -> WorkerMessages:
    messages: WorkerMessages = config.stash.get(worker_messages_key, WorkerMessages())
    return messages


ReportData: TypeAlias = dict[str, Any]

PACKED = "agenteval_packed"


class ReportPacking:
    """Packs each test report that a worker sends into one piece of bytes.

    execnet encodes and decodes a message number by number and text by text, in Python: for the three reports
    of a trial that took longer than the trial.
    """

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> Generator[None, ReportData | None, ReportData | None]:
        data = yield
        if data is not None and isinstance(report, pytest.TestReport):
            with suppress(ValueError):  # another plugin has added an object; execnet has an error for it
                return {PACKED: marshal.dumps(data)}
        return data


def unpack_report(data: ReportData) -> None:
    """Replace the piece by the report's data; what xdist put beside it stays."""
    packed = data.pop(PACKED)
    data.update(marshal.loads(packed))  # a worker of our own wrote it

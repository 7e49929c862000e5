"""What a process has to tell beside its trials: workers send it to the controller, which tells all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_agenteval.engine.executor import UnusedRecordings, merge_unused
from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.session.stash import eval_session_key, remarks_key, run_info_key, uncollected_key
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.text.formatting import pluralize

if TYPE_CHECKING:
    from pytest_agenteval.session.eval_session import EvalSession


MOST_FILES = 5
"""Cassettes that are named when recordings were not used."""


class Remarks(Record, frozen=True):
    """What is told beside trials.

    ``blocking_fixtures`` counts the trials that ran one by one, by the fixture that made them. ``lines`` say
    what was neither tried nor kept; the order is that in which they were said, each once. ``is_empty_shard``
    says that all there is belongs to other shards.
    """

    blocking_fixtures: Mapping[str, int] = NOTHING
    unused_recordings: Mapping[str, UnusedRecordings] = NOTHING
    lines: tuple[str, ...] = ()
    is_empty_shard: bool = False

    def merged(self, other: Remarks) -> Remarks:
        """Put what two processes tell together."""
        counts = dict(self.blocking_fixtures)
        for name, count in other.blocking_fixtures.items():
            counts[name] = counts.get(name, 0) + count
        return Remarks(
            counts,
            merge_unused(self.unused_recordings, other.unused_recordings),
            # Each worker looks at all tasks: most say the same.
            tuple(dict.fromkeys((*self.lines, *other.lines))),
            self.is_empty_shard or other.is_empty_shard,
        )


def add_remarks(config: pytest.Config, remarks: Remarks) -> None:
    """Take note of what a worker, or the end of the run, has to tell."""
    config.stash[remarks_key] = _remarks_of_others(config).merged(remarks)


def own_remarks(config: pytest.Config) -> Remarks:
    """Give what this process has to tell; without evals, what it left alone."""
    evals = config.stash.get(eval_session_key, None)
    lines = tuple(_lines(config, evals))
    if evals is None or not evals.has_runner:
        return Remarks(lines=lines, is_empty_shard=evals is not None and evals.is_empty_shard)
    runner = evals.runner
    blocking = dict(runner.prefetcher.readiness.blocking_fixtures)
    return Remarks(blocking, runner.report.unused_recordings, (*lines, *runner.report.remarks))


def is_empty_shard(config: pytest.Config) -> bool:
    """Whether this process, or a worker of it, found that all there is belongs to other shards."""
    evals: EvalSession | None = config.stash.get(eval_session_key, None)
    return _remarks_of_others(config).is_empty_shard or (evals is not None and evals.is_empty_shard)


def remark_lines(config: pytest.Config) -> Iterator[str]:
    """Say all that this process and its workers have to tell."""
    remarks = _remarks_of_others(config).merged(own_remarks(config))
    for name, count in remarks.blocking_fixtures.items():
        yield f"{pluralize(count, 'trial')} ran one by one: fixture {name}"
    yield from format_unused(remarks.unused_recordings)
    yield from _rate_lines(config)
    yield from remarks.lines


def _rate_lines(config: pytest.Config) -> Iterator[str]:
    if run_info_key in config.stash:
        from pytest_agenteval.session.rate_remarks import rate_lines

        yield from rate_lines(config)


def not_tasks_lines(evals: EvalSession) -> Iterator[str]:
    """Say how many files below suites are no tasks, where somebody wants to know more."""
    if evals.config.getoption("verbose", 0) > 0 and (paths := evals.planner.not_tasks()):
        are = "is no task" if len(paths) == 1 else "are no tasks"
        yield f"{pluralize(len(paths), 'file')} below suites {are}: agenteval validate lists them"


def uncollected_files(config: pytest.Config) -> list[str]:
    """List the files below suites that are no tasks, and say what may be meant as a task elsewhere."""
    evals = config.stash.get(eval_session_key, None)
    if evals is None or evals.refusal:
        return _suite_hints(config)
    listed = (f"not a task: {short_path(path)}" for path in evals.planner.not_tasks())
    return [*listed, *_suite_hints(config), *_unused_workspaces(evals), *evals.planner.missing_agents()]


def unknown_promoted(config: pytest.Config) -> list[ProblemsFound]:
    """Say of each suite of collected files which names it has promoted that no task of its files has."""
    evals = config.stash.get(eval_session_key, None)
    problems = [] if evals is None else evals.planner.promoted.problems()
    return [ProblemsFound(own) for _, own in groupby(problems, key=lambda problem: problem.file)]


def format_unused(cassettes: Mapping[str, UnusedRecordings]) -> Iterator[str]:
    """Say how many recordings nobody had a use for, and in which files most of them lie."""
    tools = {name: cassette for name, cassette in cassettes.items() if cassette.kind == "tool"}
    chats = {name: cassette for name, cassette in cassettes.items() if cassette.kind == "chat"}
    calls, replies = (sum(cassette.recorded for cassette in kind.values()) for kind in (tools, chats))
    for whole, counts in (
        (f"{calls} recorded calls were not played", _counts(tools, "unused")),
        (f"{calls} recorded calls can be made by no tool any more", _counts(tools, "stale")),
        (f"{replies} recorded replies of agents' own models were not played", _counts(chats, "unused")),
    ):
        if counts:
            yield f"{sum(counts.values())} of {whole}: {_most_files(counts)}"


def _counts(cassettes: Mapping[str, UnusedRecordings], which: Literal["unused", "stale"]) -> dict[str, int]:
    return {name: count for name, cassette in cassettes.items() if (count := len(getattr(cassette, which)))}


def _most_files(counts: Mapping[str, int]) -> str:
    most = sorted(counts, key=lambda name: (-counts[name], name))
    files = ", ".join(f"{name} ({counts[name]})" for name in most[:MOST_FILES])
    return files + (f" and {len(most) - MOST_FILES} more files" if len(most) > MOST_FILES else "")


def _lines(config: pytest.Config, evals: EvalSession | None) -> Iterator[str]:
    if evals is not None:
        yield from evals.remarks()
        if hasattr(config, "workerinput"):  # elsewhere the header says it
            yield from not_tasks_lines(evals)
        if evals.refusal:
            return
        yield from _unused_workspaces(evals)
        yield from evals.planner.missing_agents()
    yield from _suite_hints(config)


def _suite_hints(config: pytest.Config) -> list[str]:
    paths = config.stash.get(uncollected_key, None)
    if not paths:
        return []
    from pytest_agenteval.session.planning.suites import missing_suite_hints

    return missing_suite_hints(paths, config.rootpath)


def _unused_workspaces(evals: EvalSession) -> Iterator[str]:
    """Say which folders look like what tasks start from, and are not."""
    for path in evals.planner.unused_workspaces():
        how = "call the task beside it task.yaml, or name it in `input: {fixture_dir: ...}`"
        yield f"{short_path(path)}: no task starts from it; {how}"


def _remarks_of_others(config: pytest.Config) -> Remarks:
    """Give what other processes of this run have said so far."""
    remarks: Remarks = config.stash.get(remarks_key, Remarks())
    return remarks

"""The verdict on a run that has ended: its comparison, broken tasks run again, and its gates.

The process that speaks for the run makes it. With xdist this process has collected nothing, so it reads from
the run's folder what suites require.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.compare.gate import GateOutcome
from pytest_agenteval.compare.pairing import ComparedRun, compared_run
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_report import comparison_json
from pytest_agenteval.reports.report_source import ReportSource, report_source
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.reports.sides import with_baseline
from pytest_agenteval.session.inner_pytest import InnerPytest
from pytest_agenteval.session.selection import ENDINGS
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.session.suite_gates import BrokenTask, JudgedRun, RecheckedTasks, not_tried_again
from pytest_agenteval.store.record_files import replace_json
from pytest_agenteval.store.run_documents import COMPARISON
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import model_label, pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

FOLDER = "recheck"
OUTPUT = "pytest.txt"
# Settings of this run that a recheck receives with other values, or not at all.
_SET_ANEW = (
    "repetitions", "max_trials", "only", "sample", "regrade", "results", "baseline", "gate", "reports",
    "seed", "comment", "run_name",
)  # fmt: skip


def recheck(config: pytest.Config, broken: Sequence[BrokenTask]) -> RecheckedTasks:
    """Run each of these tasks again, as often as its gate says; raises KeyboardInterrupt for Ctrl-C."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        if reporter._tw.width_of_current_line:  # pytest ends the line of its dots later
            reporter.line("")
        reporter.write_line(f"agenteval: recheck: {pluralize(len(broken), 'broken task')} run again")
    tasks: list[tuple[BrokenTask, int, int]] = []
    lines: list[str] = []
    for times, group in groupby(sorted(broken, key=lambda task: task.times), key=lambda task: task.times):
        own = list(group)
        try:
            run = _run_again(config, own, times)
        except (AgentEvalError, OSError) as failed:
            return RecheckedTasks(tuple(tasks), str(failed), tuple(lines))
        keys = (entry.key for entry in run.entries if entry.ending == "passed")
        passed = Counter((key.suite, key.task, key.model, key.variant) for key in keys)
        # Counted among the trials that were to be made: one that errored has not passed.
        results = [(task, passed[task.suite, task.task, task.model, task.variant], times) for task in own]
        tasks += results
        lines.append(_result_line(results, times, run.folder, config))
    return RecheckedTasks(tuple(tasks), "", tuple(lines))


def _run_again(config: pytest.Config, broken: Sequence[BrokenTask], times: int) -> Run:
    results = config.stash[run_info_key].folder / FOLDER
    results.mkdir(exist_ok=True)
    # A run that is resumed may have been rechecked before.
    name = next(str(number) for number in count(1) if not (results / str(number)).exists())
    node_ids = [
        f"{config.rootpath / task.file}::{task.task}[{model_label(task.model, task.variant)}-{repetition}]"
        for task in broken
        for repetition in range(1, times + 1)
    ]
    inner = InnerPytest(
        [*_recheck_options(config, results.parent, times), *node_ids],
        folder=config.invocation_params.dir,
        results=results,
        name=name,
        output=results / OUTPUT,
        inherited=("AGENTEVAL_SPLIT", "AGENTEVAL_PROMPT"),
    )
    inner.wait()
    return load_run(inner.run)


def _result_line(
    results: Sequence[tuple[BrokenTask, int, int]], times: int, folder: Path, config: pytest.Config
) -> str:
    several = len({(task.model, task.variant) for task, _, _ in results}) > 1
    each = ", ".join(
        f"{task.task}{f'[{model_label(task.model, task.variant)}]' if several else ''}"
        f" passed {passed} of {trials}"
        for task, passed, trials in results
    )
    here = config.invocation_params.dir
    place = folder.relative_to(here) if folder.is_relative_to(here) else folder
    where = f" (run: {place})" if config.stash[run_info_key].is_saved else ""
    tasks, more = pluralize(len(results), "broken task"), pluralize(times, "time")
    return f"recheck: {tasks} run {more} more: {each}{where}"


def _recheck_options(config: pytest.Config, folder: Path, times: int) -> Iterator[str]:
    """Give this run's options to the recheck, without workers, reports, gates and caches."""
    option = config.option
    yield f"--rootdir={config.rootpath}"
    for flag, name in (("-p", "plugins"), ("-o", "override_ini"), ("-W", "pythonwarnings")):
        for value in dict.fromkeys(getattr(option, name, None) or ()):
            yield from (flag, str(value))
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    yield f"--import-mode={option.importmode}"
    for row in Settings.rows():
        typed: Any = row.on_command_line(config)
        if typed is None or row.attribute in _SET_ANEW:
            continue
        values = typed if isinstance(typed, list) else [typed]
        yield from (f"{row.flag}={value}" for value in values) if row.metavar else (str(row.flag),)
    settings = read_settings(config)
    # pyproject.toml may have set it, which no option undoes: so choose trials of all endings in this run.
    if settings.only:
        yield f"--agent-only={','.join(ENDINGS)}@{folder}"
    # The seed moves past those that the repetitions of this run have used.
    used = max((entry.key.repetition for entry in load_run(folder).entries), default=0)
    yield from (f"--repetitions={times}", f"--agent-seed={settings.seed + used}")


JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class RunVerdict(FrozenValue, frozen=True):
    """The verdict on a run as a whole."""

    comparison: RunComparison | None = None  # None where there is no baseline
    outcome: GateOutcome = GateOutcome()
    lines: tuple[str, ...] = ()  # which tasks ran again, and what came of the gates
    interrupted: bool = False  # Ctrl-C ended the recheck
    old: ComparedRun | None = None  # the trials of the baseline


def verdict_on(config: pytest.Config, run: Run, status: int) -> RunVerdict | None:
    """Compare a run that has ended, run broken tasks again where a gate says so, and judge the gates."""
    # Gives None for a run that has neither a baseline nor a gate, and for one without trials.
    judged = JudgedRun(run, config.rootpath, config.stash[run_info_key].baseline)
    # A shard has no suite as a whole, so the merged run is judged.
    if run.header.shards is not None:
        when = "when the shards are merged (agenteval merge)"
        if judged.gates:
            return RunVerdict(lines=(f"gate: judged {when}",))
        return RunVerdict(lines=(f"baseline: compared {when}",)) if judged.has_baseline else None
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    if status not in JUDGED:
        is_interrupted = status == pytest.ExitCode.INTERRUPTED
        return _unjudged(judged, "the run was interrupted" if is_interrupted else f"exit status {status}")
    comparison = judged.comparison(judged.tolerance)
    try:
        if judged.broken and not run.header.regraded:
            rechecked = recheck(config, judged.broken)
        else:
            rechecked = not_tried_again(judged.broken, "while regrading")
    except KeyboardInterrupt:
        line = "gate: not judged, the recheck was interrupted"
        return RunVerdict(comparison, lines=(line,), interrupted=True, old=judged.old)
    return _judge(judged, rechecked)


def verdict_on_parts(run: Run, root: Path, named: Path | None, missing: str) -> RunVerdict | None:
    """Compare a run that was put together from parts, and judge its gates; no agent acts."""
    # ``named`` is the baseline that comes before the suites' own ones, which are looked up from ``root``.
    # ``missing`` says what the run lacks; if it lacks anything, its gates are not judged.
    judged = JudgedRun(run, root, named)
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    if missing:
        return _unjudged(judged, missing)
    return _judge(judged, not_tried_again(judged.broken, "while merging"))


def _unjudged(judged: JudgedRun, why: str) -> RunVerdict:
    comparison = judged.comparison(judged.tolerance)
    lines = judged.trouble_lines(f"gate: not judged, {why}" if judged.gates else "")
    return RunVerdict(comparison, lines=lines, old=judged.old)


def _judge(judged: JudgedRun, rechecked: RecheckedTasks) -> RunVerdict:
    comparison, outcome = judged.comparison(judged.tolerance), judged.outcome(rechecked)
    lines = judged.trouble_lines(*rechecked.lines, outcome.line, judged.risk_line)
    return RunVerdict(comparison, outcome, lines, old=judged.old)


def with_end(verdict: RunVerdict, run: Run) -> RunVerdict:
    """Give the verdict with what the run took, once its end is known."""
    if verdict.comparison is None:
        return verdict
    comparison = replace(verdict.comparison, new_resources=compared_run(run).resources)
    return replace(verdict, comparison=comparison)


def write_comparison(folder: Path, verdict: RunVerdict) -> None:
    """Write the outcome of the gates, and every figure of the comparison, into the run's folder."""
    comparison = comparison_json(verdict.comparison) if verdict.comparison is not None else {}
    outcome = verdict.outcome
    gate = {"broken": outcome.broken, "held": outcome.held, "unjudged": outcome.unjudged}
    document = {**comparison, "gate": gate, "lines": verdict.lines}
    replace_json(folder / COMPARISON, KNOWN_SECRETS.value(document))


def judged_source(
    run: Run, verdict: RunVerdict | None, baseline: Path | None, scorecards: Sequence[RegisteredScorecard]
) -> ReportSource:
    """Give what report files are made of: a run, and how it compares with its baseline."""
    if verdict is None or verdict.old is None or verdict.comparison is None or not verdict.comparison.suites:
        return report_source((run,), scorecards)
    # The file of a baseline has no transcripts to show.
    old = load_run(baseline) if baseline is not None and baseline.is_dir() else None
    return ReportSource(with_baseline(verdict.old, old, run, verdict.comparison), scorecards)

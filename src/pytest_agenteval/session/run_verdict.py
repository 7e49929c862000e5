"""The verdict on a run that has ended: its comparison, broken tasks run again, and its gates.

Made by the process that speaks for the run, which has collected nothing where workers do: what suites require
is read from the run's folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.compare.gate import GateOutcome
from pytest_agenteval.compare.sides import Side
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_report import comparison_json
from pytest_agenteval.session.ended_run import ended_run
from pytest_agenteval.session.inner_pytest import (
    UNCACHED,
    inner_environment,
    last_line,
    start_pytest,
    wait_for,
)
from pytest_agenteval.session.run_info import RunInfo
from pytest_agenteval.session.selection import ENDINGS
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.session.suite_gates import BrokenTask, JudgedRun, RecheckedTasks, not_tried_again
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.run_comparison import COMPARISON
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.runs import HEADER, LATEST
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import model_label, pluralize
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

FOLDER = "recheck"
OUTPUT = "pytest.txt"
OWN = (
    "repetitions",
    "max_trials",
    "only",
    "sample",
    "regrade",
    "results",
    "baseline",
    "gate",
    "reports",
    "seed",
    "comment",
    "run_name",
)
"""Settings that the other pytest is told in its own way, or not at all."""


def recheck(config: pytest.Config, broken: Sequence[BrokenTask]) -> RecheckedTasks:
    """Try each of these tasks again, as often as its gate says; raises KeyboardInterrupt for Ctrl-C."""
    _announce(config, f"{pluralize(len(broken), 'broken task')} tried again")
    tasks: list[tuple[BrokenTask, int, int]] = []
    lines: list[str] = []
    for times, group in groupby(sorted(broken, key=lambda task: task.times), key=lambda task: task.times):
        own = list(group)
        try:
            run = _run_again(config, own, times)
        except (AgentEvalError, OSError) as failed:
            return RecheckedTasks(tuple(tasks), str(failed), tuple(lines))
        results = [(task, *_count(run, task)) for task in own]
        tasks += results
        lines.append(_line(results, times, run.folder, config))
    return RecheckedTasks(tuple(tasks), "", tuple(lines))


def _announce(config: pytest.Config, text: str) -> None:
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        if reporter._tw.width_of_current_line:  # pytest ends the line of its dots later
            reporter.line("")
        reporter.write_line(f"agenteval: recheck: {text}")


def _line(
    results: Sequence[tuple[BrokenTask, int, int]], times: int, folder: Path, config: pytest.Config
) -> str:
    several = len({(task.model, task.variant) for task, _, _ in results}) > 1
    names = [
        f"{task.task}[{model_label(task.model, task.variant)}]" if several else task.task
        for task, _, _ in results
    ]
    each = ", ".join(
        f"{name} passed {passed} of {trials}"
        for name, (_, passed, trials) in zip(names, results, strict=True)
    )
    info: RunInfo = config.stash[run_info_key]
    here = config.invocation_params.dir
    place = folder.relative_to(here) if folder.is_relative_to(here) else folder
    where = f" (run: {place})" if info.is_kept else ""
    tasks, more = pluralize(len(results), "broken task"), pluralize(times, "time")
    return f"recheck: {tasks} tried {more} more: {each}{where}"


def _count(run: Run, task: BrokenTask) -> tuple[int, int]:
    """Count the trials that passed, of those that were to be made: what errored has not passed."""
    own = (task.suite, task.task, task.model, task.variant)
    endings = [
        entry.ending
        for entry in run.entries
        if (entry.key.suite, entry.key.task, entry.key.model, entry.key.variant) == own
    ]
    return endings.count("passed"), task.times


def _run_again(config: pytest.Config, tasks: Sequence[BrokenTask], times: int) -> Run:
    """Start pytest on these tasks alone; raises AgentEvalError where it left no run."""
    info: RunInfo = config.stash[run_info_key]
    folder = info.folder / FOLDER
    folder.mkdir(exist_ok=True)
    before = set(folder.glob(f"*/{HEADER}"))
    arguments = [*_arguments(config, folder, times), *_node_ids(config, tasks)]
    environment = inner_environment("AGENTEVAL_SPLIT", "AGENTEVAL_PROMPT")
    here = config.invocation_params.dir
    with (folder / OUTPUT).open("ab") as output:
        wait_for(start_pytest(arguments, output=output, folder=here, environment=environment))
    runs = [path for path in set(folder.glob(f"*/{HEADER}")) - before if path.parent.name != LATEST]
    if len(runs) != 1:
        raise AgentEvalError(f"pytest left no run: {last_line(folder / OUTPUT)}")
    return load_run(runs[0].parent)


def _node_ids(config: pytest.Config, tasks: Sequence[BrokenTask]) -> Iterator[str]:
    for task in tasks:
        who = model_label(task.model, task.variant)
        for repetition in range(1, task.times + 1):
            yield f"{config.rootpath / task.file}::{task.task}[{who}-{repetition}]"


def _arguments(config: pytest.Config, folder: Path, times: int) -> Iterator[str]:
    """Give the options that matter, as this run was given them; no workers, reports, gates or caches."""
    option = config.option
    yield from ("-q", *UNCACHED, f"--rootdir={config.rootpath}")
    for name in dict.fromkeys(getattr(option, "plugins", None) or ()):
        yield from ("-p", str(name))
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    if getattr(option, "confcutdir", None):
        yield f"--confcutdir={option.confcutdir}"
    if getattr(option, "noconftest", False):
        yield "--noconftest"
    for override in getattr(option, "override_ini", None) or ():
        yield from ("-o", str(override))
    for warning in getattr(option, "pythonwarnings", None) or ():
        yield from ("-W", str(warning))
    yield f"--import-mode={option.importmode}"
    yield from _own_options(config)
    settings = read_settings(config)
    if settings.only:  # of pyproject.toml, perhaps: there is no way to unsay it
        yield f"--agent-only={','.join(ENDINGS)}@{folder.parent}"
    seed = settings.seed + _most_repetitions(folder.parent)
    yield from (f"--agent-results={folder}", f"--repetitions={times}", f"--agent-seed={seed}")
    none = ("baseline", "gate", "report", "comment")
    yield from (f"--agent-{name}=none" for name in none)


def _own_options(config: pytest.Config) -> Iterator[str]:
    for row in Settings.rows():
        typed: Any = row.on_command_line(config)
        if typed is None or row.attribute in OWN:
            continue
        if not row.metavar:
            yield str(row.flag)
            continue
        for value in typed if isinstance(typed, list) else [typed]:
            yield f"{row.flag}={value}"


def _most_repetitions(folder: Path) -> int:
    """Give how many seeds this run has used: those who try again draw others."""
    return max((entry.key.repetition for entry in load_run(folder).entries), default=0)


JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class RunVerdict(FrozenValue, frozen=True):
    """What is said of a run as a whole.

    ``comparison`` is None where there is no baseline, whose trials are ``old``. ``lines`` say what was tried
    again, and what came of the gates; ``interrupted`` that somebody ended that.
    """

    comparison: Comparison | None = None
    outcome: GateOutcome = GateOutcome()
    lines: tuple[str, ...] = ()
    interrupted: bool = False
    old: Side | None = None


def verdict_on(config: pytest.Config, status: int) -> RunVerdict | None:
    """Compare a run that has ended, try broken tasks again where a gate says so, and judge the gates.

    None where the run has neither a baseline nor a gate, and for one without trials.
    """
    info: RunInfo = config.stash[run_info_key]
    run = ended_run(config)
    judged = JudgedRun(run, config.rootpath, info.baseline)
    if run.header.shards is not None:
        return _of_shard(judged)
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    comparison = judged.comparison(judged.tolerance)
    if status not in JUDGED:
        return RunVerdict(
            comparison,
            lines=judged.trouble_lines(_not_judged(status) if judged.gates else ""),
            old=judged.old,
        )
    try:
        rechecked = _rechecked(judged, config)
    except KeyboardInterrupt:
        line = "gate: not judged, the recheck was interrupted"
        return RunVerdict(comparison, lines=(line,), interrupted=True, old=judged.old)
    outcome = judged.outcome(rechecked)
    lines = judged.trouble_lines(*rechecked.lines, outcome.line, judged.risk_line)
    return RunVerdict(comparison, outcome, lines, old=judged.old)


def _of_shard(judged: JudgedRun) -> RunVerdict | None:
    """Say when it is judged: no suite is there as a whole."""
    when = "when the shards are merged (agenteval merge)"
    if judged.gates:
        return RunVerdict(lines=(f"gate: judged {when}",))
    return RunVerdict(lines=(f"baseline: compared {when}",)) if judged.has_baseline else None


def verdict_on_parts(run: Run, root: Path, named: Path | None, missing: str) -> RunVerdict | None:
    """Compare a run that was put together from parts, and judge its gates; no agent acts.

    ``named`` is the baseline that comes before those of suites, which are looked up from ``root``.
    ``missing`` says what is not there of the run, where that is so: then nobody judges the gates.
    """
    judged = JudgedRun(run, root, named)
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    comparison = judged.comparison(judged.tolerance)
    if missing:
        line = f"gate: not judged, {missing}" if judged.gates else ""
        return RunVerdict(comparison, lines=judged.trouble_lines(line), old=judged.old)
    outcome = judged.outcome(not_tried_again(judged.broken, "while merging"))
    return RunVerdict(
        comparison, outcome, judged.trouble_lines(outcome.line, judged.risk_line), old=judged.old
    )


def write_comparison(folder: Path, verdict: RunVerdict) -> None:
    """Leave what came of the gates in the run's folder, with every figure of a comparison."""
    comparison = comparison_json(verdict.comparison) if verdict.comparison is not None else {}
    gate = {
        "broken": verdict.outcome.broken,
        "held": verdict.outcome.held,
        "unjudged": verdict.outcome.unjudged,
    }
    replace_json(
        folder / COMPARISON, KNOWN_SECRETS.value({**comparison, "gate": gate, "lines": verdict.lines})
    )


def _not_judged(status: int) -> str:
    why = "the run was interrupted" if status == pytest.ExitCode.INTERRUPTED else f"exit status {status}"
    return f"gate: not judged, {why}"


def _rechecked(judged: JudgedRun, config: pytest.Config) -> RecheckedTasks:
    if judged.broken and not judged.run.header.regraded:
        return recheck(config, judged.broken)
    return not_tried_again(judged.broken, "while regrading")

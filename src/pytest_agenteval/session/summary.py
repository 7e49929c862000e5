"""What is shown before, after and beside a run, by the process that speaks for it."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.chat.local.loading import loading_note
from pytest_agenteval.chat.models import transport_note
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.processes.startup import garbage_collection_paused
from pytest_agenteval.records.plan import Model
from pytest_agenteval.reports.causes import common_text, crash_place, likeness
from pytest_agenteval.reports.junit_properties import MOST_LINE
from pytest_agenteval.reports.run_screen import (
    MOST_LINES,
    ScreenParts,
    gate_lines,
    misses_block,
    screen_lines,
    unrecorded_lines,
)
from pytest_agenteval.reports.run_view import OFFLINE_NOTES
from pytest_agenteval.session.item_reports import make_longrepr
from pytest_agenteval.session.pytest_output import write_line, write_workflow_commands
from pytest_agenteval.session.run_end import WIDE, RunEnd
from pytest_agenteval.session.settings_reading import misspelt_variables
from pytest_agenteval.session.stash import uncollected_key
from pytest_agenteval.session.worker_messages import is_header_hidden, message_lines, not_tasks_lines
from pytest_agenteval.store.run_documents import RunAudit
from pytest_agenteval.store.run_folder import (
    LATEST,
    PLANNED,
    ROOT,
    RunHeader,
    list_runs,
    read_header,
    read_json,
    read_planned,
)
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import SUITE_NAMES
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, few_names, in_actions, one_line, pluralize, wrap

if TYPE_CHECKING:
    from pytest_agenteval.session.eval_session import EvalSession
    from pytest_agenteval.store.journal_entry import JournalEntry


def next_steps(
    folder: Path, here: Path, has_misses: bool = False, baseline: Path | None = None
) -> Iterator[str]:
    """Give commands about the run in ``folder``, to be typed in the folder ``here``."""
    # The first command compares the run with its ``baseline``. Without one it compares the run's two
    # variants, or the run with the one before.
    runs = folder.parent.relative_to(here) if folder.is_relative_to(here) else folder.parent
    where = "" if runs == ROOT else f" --results {shlex.quote(str(runs))}"
    if baseline is None and (variants := _two_variants(folder)):
        yield f"agenteval compare {LATEST} --variants {shlex.quote(variants)}{where}"
    else:
        earlier = _run_before(folder) if baseline is None else str(baseline)
        # A baseline beside this run is given by its name, any other by its path.
        if baseline is not None and baseline.is_relative_to(here):
            earlier = baseline.relative_to(here).as_posix()
        if baseline and baseline.is_dir() and baseline.resolve().parent == folder.resolve().parent:
            earlier = baseline.resolve().name
        if earlier:
            yield f"agenteval compare {shlex.quote(earlier)} {LATEST}{where}"
    yield f"agenteval show {LATEST}:worst{where}" if has_misses else f"agenteval report {LATEST} -v{where}"


BUDGETS = ("--agent-max-cost", "--agent-max-tokens")
LEFT_OUT = ("--maxfail", "--agent-reuse", "--agent-resume")


def resume_arguments(arguments: Iterable[str], option: str, *, budget_spent: bool = False) -> Iterator[str]:
    """Give the arguments that continue a run that was cut short: its own, and ``option``."""
    # Options that would end the run again at its first failure are left out. So is ``--agent-reuse``: what
    # was reused is in the run already. A budget that was spent is doubled: with the same one, no trial would
    # begin.
    doubled = BUDGETS if budget_spent else ()
    left = deque(arguments)
    while left:
        argument = left.popleft()
        name, has_value, value = argument.partition("=")
        if name in (*LEFT_OUT, *doubled) and not has_value and left and not left[0].startswith("-"):
            value = left.popleft()
        if name in doubled:
            yield f"{name}={2 * float(value.strip().removeprefix('$')):.12g}"
        elif name not in ("-x", "--exitfirst", *LEFT_OUT):
            yield argument
    yield option


def _two_variants(folder: Path) -> str:
    """Give the two named variants, or ``base`` and the only one, as OLD,NEW; empty without two."""
    from pytest_agenteval.compare.pairing import BASE

    header = _ended_header(folder)
    named = [name for name in header.variants if name] if header else []
    if header and len(named) == 1 and "" in header.variants:
        named.insert(0, BASE)
    return ",".join(named) if len(named) == 2 else ""


def _run_before(folder: Path) -> str:
    """Give the name of the newest run before this one that planned the same with the same judges."""
    own = _ended_header(folder)
    if own is None:
        return ""
    plan = _plan(folder, own)
    # A run that was given a name stands for something of its own, such as a baseline.
    dated = (run for run in list_runs(folder.parent) if run.path.name[:1].isdigit())
    before = (run for run in dated if run.header.started_at < own.started_at)
    like = (run for run in before if run.header.ended_at and _plan(run.path, run.header) == plan)
    return next((run.path.name for run in like), "")


def _ended_header(folder: Path) -> RunHeader | None:
    try:
        header = read_header(folder)
    except UsageMistake:
        return None
    return header if header.ended_at else None


def _plan(folder: Path, header: RunHeader) -> object:
    """Give what has to be the same for runs to be worth comparing: tasks, models, variants and judges."""
    try:
        planned = read_planned(read_json(folder / PLANNED))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    judges = frozenset(judge.name for judge in header.judges)
    return judges, {(each.suite, each.model, each.variant, each.bucket, each.tasks) for each in planned}


MOST_IN_FLIGHT = 10  # trials that are named when a run is resumed whose process died at one of them
MOST_MISSING = 50  # requests without a recording that are named under -v


def collection_header(evals: EvalSession) -> list[str]:
    """Give the lines before a run: how many trials there are, which models act, which judge."""
    trials = evals.selected
    tasks = {(item.task.suite, item.task.id) for item in trials}
    models = {item.case.model.name: item.case.model for item in trials}
    who = [_introduce(model) for model in models.values()]
    judges = ", ".join(_introduce(judge) for judge in evals.cases.judges)
    judged = f"; judged by {judges}" if judges else ""
    graders = {grader.name for item in trials for grader in item.task.graders} if judges else set()
    asking = any(asks_judges(evals.registry.grader_factory(name)) for name in graders)
    if judges and trials and not evals.calibrations and not asking:
        # A judge that a file names for all runs is not missed in those without such graders.
        is_typed = evals.settings.places.get("judges", "").startswith("--")
        judged = f"; no grader of these tasks needs a judge: {judges} is not used" if is_typed else ""
    lines = []
    if trials:
        least = f"{len(trials) - len(evals.extra.items)} to " if evals.extra and evals.extra.items else ""
        counts = f"{least}{pluralize(len(trials), 'trial')} of {pluralize(len(tasks), 'task')}"
        again = f" graded again, of {', '.join(evals.stored.names)}" if evals.stored else ""
        shard = evals.settings.shard
        part = f"shard {shard.number} of {shard.total}: " if shard else ""
        lines.append(f"agenteval: {part}{counts}{again}: {', '.join(who)}{judged}")
    if evals.reuse_summary:
        lines.append(f"agenteval: {evals.reuse_summary}")
    if evals.in_flight:
        named = few_names([key.label for key in sorted(evals.in_flight)], MOST_IN_FLIGHT)
        died = f"a process died during these trials: {named}; they run last, one by one"
        lines.append(f"agenteval: {died}")
    if evals.calibrations:
        lines.append(
            f"agenteval: {pluralize(len(evals.calibrations), 'calibration')}{judged or ': no judge'}"
        )
    misspelt = () if is_header_hidden(evals.config) else misspelt_variables(os.environ)
    return [*lines, *(f"agenteval: {line}" for line in (*not_tasks_lines(evals), *misspelt))]


def _introduce(model: Model) -> str:
    if model.offline:
        return f"{model.name} ({OFFLINE_NOTES.get(model.id, 'offline, no LLM')})"
    details = [model.id if model.name != model.id else "", loading_note(model), transport_note(model)]
    note = ", ".join(detail for detail in details if detail)
    return f"{model.name} ({note})" if note else model.name


@garbage_collection_paused()
def summarize(reporter: Any, end: RunEnd) -> None:
    """Write the misses and the end screen of a run, and the summary and annotations of GitHub Actions."""
    config, run, width = end.config, end.run, reporter._tw.fullwidth
    if end.settings.audit:
        from pytest_agenteval.reports.audit_report import audit_lines, audit_of

        audit = RunAudit.read(run.folder)
        reporter.write_sep("=", "audit of the evals")
        for line in audit_lines(audit_of(run, audit), width, tells_unseen=False) if audit else ():
            write_line(reporter, line)
        if end.info.is_saved:
            reporter.write_line(f"run: {end.relative(end.folder)}")
        return
    verbosity = config.getoption("verbose")
    calibrations = list(_calibrations(end, width))
    screen = [*calibrations, *screen_lines(end.view, width, verbosity, _screen_parts(end, verbosity, width))]
    # pytest itself has shown failed and errored trials.
    title, misses = misses_block(run, width, verbosity, MOST_LINES - len(screen) - 2, ("missed",))
    _write_block(reporter, "misses" if verbosity > 0 else title, misses)
    if verbosity > 0:
        unrecorded = map(StyledLine, unrecorded_lines(run, MOST_MISSING, width))
        _write_block(reporter, "not recorded, the most often missed first", unrecorded)
    _write_block(reporter, "agent evals", screen)
    # The figures of a shard are partial: the merged run has the summary.
    wanted = os.environ.get("GITHUB_STEP_SUMMARY") and run.header.shards is None
    if wanted and (problem := _leave_markdown(end)):
        write_line(reporter, StyledLine(f"! {problem}", "yellow"))
    if in_actions() and end.settings.annotations == "auto":
        from pytest_agenteval.reports.markdown_report import annotation_lines

        lines = annotation_lines(run, config.rootpath, end.comparison, strict=end.settings.strict)
        write_workflow_commands(reporter, lines)


def _write_block(reporter: Any, title: str, lines: Iterable[StyledLine]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            reporter.write_sep("=", title)
        write_line(reporter, line)


def _screen_parts(end: RunEnd, verbosity: int, width: int) -> ScreenParts:
    scorecards = list(end.scorecard_lines(width, whole=verbosity > 0))
    if verbosity < 0:
        scorecards = [line for line in scorecards if line.style == "red"]
    headline, footer, took = list[StyledLine](), list[StyledLine](), list[str]()
    if end.comparison is not None:
        from pytest_agenteval.reports.comparison_report import verdict_lines
        from pytest_agenteval.reports.resource_text import comparison_texts

        # With -v the comparison has them already.
        took = comparison_texts(end.comparison) if verbosity <= 0 else []
        headline = [*verdict_lines(end.comparison, width, verbosity), StyledLine("")]
    if end.sides is not None:
        from pytest_agenteval.reports.sides_report import side_verdict_lines

        headline += side_verdict_lines(end.sides, width)
    if end.settings.max_cost is not None or end.settings.max_tokens is not None:
        from pytest_agenteval.session.run_costs import budget_lines

        footer += map(StyledLine, budget_lines(end.config, end.settings))
    footer += gate_lines(end.verdict_lines)
    footer += [StyledLine(f"report: {one_line(str(end.relative(path)), MOST_LINE)}") for path in end.reports]
    remarks = list[StyledLine]()
    for remark in message_lines(end.config):
        first, *traceback = remark.splitlines()
        remarks += map(StyledLine, (*wrap(first, width), *traceback))
    return ScreenParts(
        headline=headline,
        took=took,
        totals=scorecards,
        remarks=remarks,
        footer=footer,
        place=str(end.relative(end.folder)) if end.info.is_saved else "not stored (--agent-results=none)",
        next_steps=list(_next_steps(end)) if end.info.is_saved and verbosity == 0 else (),
    )


def _next_steps(end: RunEnd) -> Iterator[str]:
    config, run = end.config, end.run
    has_misses = any(entry.ending != "passed" for entry in run.entries)
    steps = next_steps(end.folder, config.invocation_params.dir, has_misses, end.info.baseline)
    compared, *looked_at = ["", *steps][-2:]
    # A run that is incomplete is resumed, and not compared.
    if any(suite.total.not_run for suite in end.view.suites):
        again = "--agent-only=not_run" if end.settings.regrade else "--agent-resume"
        command = ("pytest", *map(str, config.invocation_params.args))
        session: Any = config.pluginmanager.get_plugin("session")
        was_interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED
        was_cut_short = session.shouldstop or session.shouldfail or was_interrupted
        # Today's command did not select the missing trials, so the run's first command is shown.
        if run.header.resumed and not was_cut_short:
            command = run.header.command
        spent = any(trial.cause == "budget" for trial in run.not_run)
        compared = shlex.join([command[0], *resume_arguments(command[1:], again, budget_spent=spent)])
    elif not (end.settings.judges or end.settings.regrade) and any(map(_waits_for_judge, run.entries)):
        own = map(str, config.invocation_params.args)
        again_graded = resume_arguments(own, f"--agent-regrade={end.folder.name}")
        compared = shlex.join(["pytest", *again_graded, "--agent-judge=MODEL"])
    return filter(None, (compared, *looked_at))


def _waits_for_judge(entry: JournalEntry) -> bool:
    """Whether a trial errored because only a judge could have graded it, and none was named."""
    return entry.cause == "ungraded" and any(grade.undecided == "no_judge" for grade in entry.grades)


def _leave_markdown(end: RunEnd) -> str:
    """Write the job's summary; give a sentence where that fails, else an empty text."""
    from pytest_agenteval.reports.markdown_report import append_summary, code_block, summary_markdown

    calibrations = [line.text for line in _calibrations(end, WIDE)]
    totals = list(end.scorecard_lines(WIDE, whole=False))
    footer = gate_lines(end.verdict_lines)
    markdown = summary_markdown(end.view, totals, footer, end.comparison, end.side_verdicts)
    path = Path(os.environ["GITHUB_STEP_SUMMARY"])
    return append_summary(path, markdown + (code_block(calibrations) if calibrations else ""))


def explain_no_trials(reporter: Any, exitstatus: int, config: pytest.Config) -> None:
    is_empty = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    for line in (*message_lines(config), *(_suites_without_tasks(reporter, config) if is_empty else ())):
        reporter.write_line(f"agenteval: {line}")


def _suites_without_tasks(reporter: Any, config: pytest.Config) -> Iterator[str]:
    """Name suite files that hold no tasks, if nothing at all was collected."""
    if any(map(reporter.stats.get, ("deselected", "error"))):
        return
    for path in config.stash.get(uncollected_key, ()):
        if path.name in SUITE_NAMES:
            ways = "list them under `tasks:` in it, or put task files beside it"
            yield f"{short_path(path)} has no tasks: {ways}"


def _calibrations(end: RunEnd, width: int) -> Iterator[StyledLine]:
    if not any(end.folder.glob("calibration-*.json")):  # as of nearly every run
        return
    from pytest_agenteval.calibration.results import page_path, read_calibrations
    from pytest_agenteval.reports.calibration_report import calibration_lines

    for calibration in read_calibrations(end.folder):
        page = end.relative(page_path(end.folder, calibration["id"])) if end.info.is_saved else "not stored"
        yield from (*calibration_lines(calibration, str(page), width), StyledLine(""))


MOST_NAMED = 5  # trials that are named below the error text that they share


def merge_equal_errors(reports: list[Any]) -> list[Any]:
    """Merge the error reports of trials that have the same text into one, which counts them.

    Crashes at one place are merged too where their messages differ only in values: one traceback says all.
    """
    groups: dict[object, list[Any]] = {}
    for report in reports:
        of_trial = any(name == "agenteval.ending" for name, _ in getattr(report, "user_properties", ()))
        groups.setdefault(_error_kind(str(report.longrepr)) if of_trial else id(report), []).append(report)
    return [_merged(*group) if len(group) > 1 else group[0] for group in groups.values()]


def _error_kind(text: str) -> object:
    place = crash_place(text)
    return (likeness(text.partition("\n")[0]).pattern, place) if place else text


def _merged(first: Any, *others: Any) -> Any:
    texts = [str(report.longrepr).rstrip("\n") for report in (first, *others)]
    heads = common_text(text.partition("\n")[0] for text in texts)
    names = [other.nodeid.rpartition("::")[2] for other in others[:MOST_NAMED]]
    names += ["..."] if len(others) > MOST_NAMED else []
    alike = "the same" if len({*texts}) == 1 else "like it"
    text = f"{texts[0]}\n{alike} in {len(others)} more: {', '.join(names)}"
    report = copy(first)
    file, line, _ = first.location
    in_short = f"{heads} ({pluralize(len(others) + 1, 'trial')})"
    report.longrepr = make_longrepr(text, file, (line or 0) + 1, in_short)
    return report

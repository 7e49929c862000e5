"""``agenteval gate-check``: how often a gate's floors fail a run in which nothing changed."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    RUN_HELP,
    add_json_option,
    add_results_option,
    apart,
    find_named_run,
    positive_int,
    terminal_width,
    write_result,
)
from pytest_agenteval.cli.suite_files import SuiteFile, suites_meant
from pytest_agenteval.compare.comparison import run_drifts
from pytest_agenteval.compare.pairing import MAY_DIFFER, MUST_EQUAL, ComparedRun, compared_run, pool_runs
from pytest_agenteval.compare.scoring.intervals import FEWEST_TASKS
from pytest_agenteval.compare.scoring.power import pass_rates
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.comparison_text import apart_text
from pytest_agenteval.reports.group_statistics import group_by_task
from pytest_agenteval.reports.run_view import Group, SuiteView, entries_by_group, suite_views
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, table_lines
from pytest_agenteval.session.suite_gates import Floor, floor_risk, floors_of, gates_of_run, percent_text
from pytest_agenteval.store.journal_entry import JournalEntry, group_of
from pytest_agenteval.store.run_folder import RunFolder, read_header, whole_runs
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.suite_spec import NO_GATE, Gate
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import NOT_KNOWN, format_figure, model_label, pluralize

LAST_RUNS = 10
# Digests that must be equal for two trials to be of the same agent on the same task, with the authors' words
# for them.
ALIKE = {**MUST_EQUAL, **MAY_DIFFER}

_agent_digests = attrgetter(*(f"digests.{name}" for name in ALIKE))
ONE_IN_100 = "1 in 100: a floor that 1 of 100 runs misses although nothing changed"
ALL_ALIKE = "the trials of each task are all alike: such an agent has the same figures in every run"
NO_TRIALS = "none of its trials has a score"
UNKNOWN = "one trial of a task does not show how trials vary: run the suite twice, or with --repetitions 3"


class CheckedFloor(FrozenValue, frozen=True):
    """A figure of a suite: what the newest run came to, and what its gate wants, null where that is nothing.

    A run in which nothing changed is below the floor with this ``chance``, and below ``one_in_100`` in one
    of a hundred runs; both are null where nobody knows.
    """

    figure: str
    name: str
    floor: float | None
    today: float | None
    chance: float | None
    one_in_100: float | None


class CheckedMisses(FrozenValue, frozen=True):
    """Tasks of which no trial may miss: one does with this ``chance`` in a run where nothing changed."""

    tasks: int
    chance: float | None


class PooledRun(FrozenValue, frozen=True):
    """A run with so many ``trials`` that count, and so many others that ``differ`` from the newest run's."""

    run: str
    trials: int
    others: int
    differ: tuple[str, ...]


class CheckedSuite(FrozenValue, frozen=True):
    """A suite with one model and variant, whose gate judges runs with so many ``repetitions``.

    ``trials`` of its ``tasks`` count, and so many tasks ``varied``: their trials do not all score the same.
    ``gate`` is the file that its floors are from, or the run; empty where there are none and floors are
    suggested. ``drifted`` says what the runs scored, where they differ by more than chance.
    """

    suite: str
    kind: str
    model: str
    variant: str
    repetitions: int
    tasks: int
    varied: int
    trials: int
    runs: tuple[PooledRun, ...]
    drifted: str
    gate: str
    floors: tuple[CheckedFloor, ...]
    misses: CheckedMisses | None


class GateCheckDocument(Document, frozen=True, kw_only=True):
    """The suites of the newest run, each with the floors of its gate, or with floors that are suggested."""

    run: str
    suites: tuple[CheckedSuite, ...]


def gate_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Trials vary, so a floor in a gate (score, buckets, pass_hat_k) also fails runs in which nothing "
        "changed. For each suite of the newest run this prints how often, and the floor that fails 1 run in "
        "100. Trials of earlier runs count if task, graders, prompt, settings, tools, code and model are the "
        "same. Floors come from suite.yaml, or from the run if suite.yaml has none."
    )
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("run", nargs="*", metavar="RUN", help=f"only these runs (default: the newest {LAST_RUNS} of its suites)")  # fmt: skip  # noqa: E501
    add("--last", type=positive_int, default=LAST_RUNS, metavar="N", help=f"how many runs (default: {LAST_RUNS})")  # fmt: skip  # noqa: E501
    add("--repetitions", type=positive_int, metavar="N", help="repetitions of future runs (default: as in the newest run)")  # fmt: skip  # noqa: E501
    add_json_option(parser)
    add_results_option(parser)


def gate_check(args: argparse.Namespace) -> int:
    """Say how often floors fail runs in which nothing changed; raises UsageMistake for an unknown run."""
    newest, *earlier = _run_folders(args)
    run = load_run(newest.path)
    pool = _TrialPool(run)
    for folder in earlier:
        # One after the other: not all of them would fit into memory.
        pool.add(load_run(folder.path))
    files, of_run = _suite_files(), gates_of_run(newest.path)
    suites = [
        _checked_suite(view, pool, files.get(view.suite), of_run.get(view.suite, NO_GATE), args.repetitions)
        for view in suite_views(run)
    ]
    document = GateCheckDocument(run=newest.path.name, suites=tuple(suites))
    tables = (table_lines(_suite_table(suite), terminal_width()) for suite in suites)
    write_result(args.json, document, apart(tables))
    return 0


def _run_folders(args: argparse.Namespace) -> list[RunFolder]:
    """Give the runs to read, newest first: those named, else the last ones of the newest run's suites."""
    if args.run:
        paths = dict.fromkeys(find_named_run(Path(args.results), name) for name in args.run)
        named = [RunFolder(path, read_header(path)) for path in paths]
        return sorted(named, key=lambda run: (run.header.started_at, run.path.name), reverse=True)
    # A run that grades stored trials again has no trials of its own.
    folders = [run for run in whole_runs(Path(args.results)) if not run.header.regraded]
    if not folders:
        raise UsageMistake(f"there are no runs in {args.results} yet")
    suites = {suite.name for suite in folders[0].header.suites}
    alike = [run for run in folders[1:] if suites & {suite.name for suite in run.header.suites}]
    return [folders[0], *alike[: args.last - 1]]


class _TrialPool:
    """Trials of several runs that are of the same agent and the same tasks as the newest run's."""

    def __init__(self, newest: Run) -> None:
        self.newest = newest.folder.name
        self._digests: dict[TrialKey, set[tuple[str, ...]]] = {}
        for entry in newest.entries:
            if entry.averaged:
                # All repetitions of a task, with its model and variant, share one entry.
                self._digests.setdefault(entry.key._replace(repetition=0), set()).add(_agent_digests(entry))
        self._carried_out: set[tuple[str, TrialKey]] = set()
        self._sides: list[ComparedRun] = []
        self.runs: dict[Group, list[PooledRun]] = {}
        self.add(newest)

    def add(self, run: Run) -> None:
        """Add the trials of a run that count, except those that it has taken over from another run here."""
        alike: list[JournalEntry] = []
        for group, entries in entries_by_group(run).items():
            averaged = (entry for entry in entries if entry.averaged)
            tried = ((entry, self._digests.get(entry.key._replace(repetition=0))) for entry in averaged)
            # A task without a scored trial in the newest run has no digests there.
            known = [(entry, digests) for entry, digests in tried if digests and self._is_first(entry, run)]
            same = [entry for entry, digests in known if _agent_digests(entry) in digests]
            differ = {word for entry, digests in known for word in _differences(entry, digests)}
            if known:
                others = len(known) - len(same)
                own = PooledRun(run.folder.name, len(same), others, tuple(sorted(differ)))
                self.runs.setdefault(group, []).append(own)
            alike += same
        self._sides.append(replace(compared_run(run), name=run.folder.name, entries=tuple(alike)))

    def _is_first(self, entry: JournalEntry, run: Run) -> bool:
        # A trial that was taken over counts once, for the run that carried it out.
        origin = entry.origin.run if entry.origin is not None and entry.origin.run else run.folder.name
        is_new = (origin, entry.key) not in self._carried_out
        self._carried_out.add((origin, entry.key))
        return is_new

    @cached_property
    def side(self) -> ComparedRun:
        # Cached, so it is read only after all runs have been added.
        return pool_runs(self._sides)


def _differences(entry: JournalEntry, wanted: Collection[tuple[str, ...]]) -> Iterator[str]:
    """Name the digests of a trial that no trial of its task in the newest run has."""
    for at, (words, digest) in enumerate(zip(ALIKE.values(), _agent_digests(entry), strict=True)):
        if digest not in {each[at] for each in wanted}:
            yield words


def _suite_files() -> dict[str, SuiteFile]:
    """Read the suite files below the current folder, by the suites' names; none where one is broken."""
    try:
        return {each.suite.name: each for each in suites_meant(None)}
    except AgentEvalError:
        return {}


def _checked_suite(
    view: SuiteView, pool: _TrialPool, file: SuiteFile | None, of_run: Gate, repetitions: int | None
) -> CheckedSuite:
    k, group = repetitions or view.total.k, (view.suite, view.model, view.variant)
    entries = [entry for entry in pool.side.entries if group_of(entry) == group]
    source, floors = (short_path(file.path), [*floors_of(file.suite.gate)]) if file else ("", [])
    if not floors:
        # Today's suite.yaml counts first; without a floor there it is the gate of the run.
        source, floors = pool.newest, [*floors_of(of_run)]
    drifts = run_drifts(entries, pool.side.run_of)
    tasks = group_by_task(entries).values()
    counts = []
    for first, *others in tasks:
        # Today's suite.yaml decides this too: a promotion counts before the next run.
        kind = file.suite.kind_of(first.key.task, first.bucket) if file else first.kind
        if kind != "capability":  # there a miss fails nothing
            counts.append((sum(each.ending == "passed" for each in (first, *others)), 1 + len(others)))
    rates = pass_rates([[entry.ending == "passed" for entry in trials] for trials in tasks])
    chance = None if rates is None else rates.chance_of_a_miss(counts, k)
    return CheckedSuite(
        suite=view.suite,
        kind=view.kind,
        model=view.model,
        variant=view.variant,
        repetitions=k,
        tasks=len(tasks),
        varied=sum(len({entry.score for entry in trials}) > 1 for trials in tasks),
        trials=len(entries),
        runs=tuple(pool.runs.get(group, ())),
        drifted=apart_text(drifts) if any(each.drifted for each in drifts) else "",
        gate=source if floors else "",
        floors=tuple(_checked_floor(each, view, entries, k) for each in floors or _suggested_floors(view, k)),
        misses=CheckedMisses(len(counts), chance) if counts else None,
    )


def _suggested_floors(view: SuiteView, k: int) -> Iterator[Floor]:
    yield Floor("score")
    if k > 1:
        yield Floor("pass_hat_k")
    if len(view.rows) > 1:
        # The floor of a small bucket would be too low to be of use.
        yield from (Floor("bucket", bucket=row.name) for row in view.rows if row.tasks >= FEWEST_TASKS)


def _checked_floor(floor: Floor, view: SuiteView, entries: Sequence[JournalEntry], k: int) -> CheckedFloor:
    risk = floor_risk(floor, entries, k)
    row = next((row for row in view.rows if row.name == floor.bucket), None) if floor.bucket else view.total
    if floor.figure == "pass_hat_k":
        # pass^k of another number of repetitions is another figure.
        today = view.total.pass_hat_k.value if view.total.pass_hat_k and view.total.k == k else None
    else:
        today = row.mean.mean if row and row.mean else None
    return CheckedFloor(floor.figure, floor.name(k), floor.least, today, risk.chance, risk.one_in_100)


def _suite_table(suite: CheckedSuite) -> ReportTable:
    who = model_label(suite.model, suite.variant)
    counted = sum(run.trials > 0 for run in suite.runs)
    of_runs = f"{pluralize(suite.trials, 'trial')} of {pluralize(counted, 'run')}"
    title = (
        f"{suite.suite} with {who}: {pluralize(suite.tasks, 'task')} x {suite.repetitions}, from {of_runs}"
    )
    columns = [
        TableColumn("today", tuple(format_figure(floor.today) for floor in suite.floors)),
        TableColumn("1 in 100", tuple(format_figure(floor.one_in_100) for floor in suite.floors)),
    ]
    if suite.gate:
        chances = (NOT_KNOWN if each.chance is None else percent_text(each.chance) for each in suite.floors)
        columns.insert(1, TableColumn("misses it", tuple(chances)))
    names = (f"{floor.name} {floor.floor:.2f}" if suite.gate else floor.name for floor in suite.floors)
    head = f"floors of {suite.gate}" if suite.gate else "its gate has no floors"
    return ReportTable(title, head, tuple(names), (tuple(columns),), notes=tuple(_suite_notes(suite)))


def _suite_notes(suite: CheckedSuite) -> Iterator[TableNote]:
    known = [floor.one_in_100 for floor in suite.floors if floor.one_in_100 is not None]
    if suite.gate and known:
        yield TableNote("misses it: the share of runs below this floor although nothing changed")
    yield TableNote(ONE_IN_100 if known else UNKNOWN if suite.trials else NO_TRIALS)
    if known and not suite.varied:
        yield TableNote(ALL_ALIKE)
    if known and not suite.gate:
        score = f"{known[0]:g}"
        yield TableNote(f"to set one: gate: {{score: {score}}} in suite.yaml, or --agent-gate=score={score}")
    if suite.misses is not None and suite.misses.chance is not None:
        which = f"each trial of {pluralize(suite.misses.tasks, 'task')} has to pass"
        percent = percent_text(suite.misses.chance)
        yield TableNote(f"{which}: where nothing changed, about {percent} of runs fail")
    for run in suite.runs:
        if run.others:
            differ = ", ".join(run.differ)
            yield TableNote(f"{pluralize(run.others, 'trial')} of {run.run} not counted: another {differ}")
    if suite.drifted:
        yield TableNote(f"{suite.drifted}: these figures leave that out")

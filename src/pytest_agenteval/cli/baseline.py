"""``agenteval baseline set``: stored runs become the file that later runs are compared with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.options import OF_MODEL, RUN, add_results_option, find_named_run
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, wrapped, write_document
from pytest_agenteval.compare.baseline import baseline_text, write_baseline
from pytest_agenteval.compare.drift import run_drifts
from pytest_agenteval.compare.pairing import pair_suites
from pytest_agenteval.compare.sides import Side, group_of, pool_runs, side_of
from pytest_agenteval.reports.comparison_report import (
    BaselineChange,
    BaselineDocument,
    BaselineTask,
    PooledGroup,
    baseline_change,
)
from pytest_agenteval.reports.comparison_text import alike_text
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_metadata import RunHeader
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import find_suite, holds_baseline, is_data_name, is_task_name
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.text.formatting import (
    StyledLine,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
)

FOLDER = Path("evals") / "baselines"
MOST_NAMED = 5
MOST_OBSTACLES = 20
MOST_ROWS = 30
MOST_NAME = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    parser.description = (
        "Keep a stored run, or several, as the baseline of later ones: a file with one line for each task, "
        "to be reviewed and committed. Against several runs of the same agent smaller changes are found. "
        "Without --to each suite's part goes to the file that its suite.yaml's gate names, else to "
        "evals/baselines/SUITE.json below this folder."
    )
    parser.epilog = RUN
    add = parser.add_argument
    add("what", choices=("set",), metavar="set", help="what is done: there is one thing yet")
    add("runs", nargs="+", metavar="RUN", help="the runs to keep: all of their trials")
    add("--to", metavar="FILE", help="the file for all of it, as in evals/baselines/pkm.json")
    add("--model", metavar="MODEL", help=OF_MODEL)
    add("--suite", metavar="SUITE", help="this suite's trials only")
    add(
        "--allow",
        action="store_true",
        help="keep runs with errored or missing trials, or of agents that differ",
    )
    add("-v", "--verbose", action="store_true", help="every task that changes")
    add_json_option(parser)
    add_results_option(parser)


def baseline(args: argparse.Namespace) -> int:
    """Write the runs' trials into the files of their suites, with what changes in each of them."""
    runs = [load_run(find_named_run(Path(args.results), name)) for name in args.runs]
    _refuse_shared_trials(runs)
    sides = [replace(side_of(run), entries=_chosen(run, args)) for run in runs]
    for run, side in zip(runs, sides, strict=True):
        if not args.allow:
            _refuse_incomplete(run, side.entries, args)
    remarks = [*_unlike_agents(sides, args.allow), *_tasks_of_some(sides)]
    pooled = pool_runs(sides)
    header = _joined_header([run.header for run in runs], pooled.name)
    changes: list[BaselineChange] = []
    for path, own in _files(pooled.entries, args.to).items():
        changes.append(baseline_change(path, own))
        write_baseline(path, baseline_text(header, own, pooled.looks, pooled.run_of))
        if args.json != STDOUT:
            print_lines(map(StyledLine, _change_lines(changes[-1], args.verbose)))
    groups = tuple(_pooled_groups(pooled))
    if args.json != STDOUT:
        texts = (*remarks, *(f"{_group_name(each)}: {alike_text(each.runs)}" for each in groups))
        print_lines(StyledLine(line) for text in texts for line in wrapped(printable(text)))
    if args.json:
        name = ", ".join(run.folder.name for run in runs)
        document = BaselineDocument(run=name, files=tuple(changes), remarks=tuple(remarks), pooled=groups)
        write_document(args.json, document)
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("baseline", BaselineDocument)


def _chosen(run: Run, args: argparse.Namespace) -> tuple[JournalEntry, ...]:
    entries = run.entries
    for kind, name in (("model", args.model), ("suite", args.suite)):
        names = list(dict.fromkeys(getattr(entry.key, kind) for entry in entries))
        if name is not None and name not in names:
            known = nearest_names(name, names) or "none"
            raise UsageMistake(f"{run.folder.name} has no {kind} {name!r}; it has {known}")
        entries = tuple(entry for entry in entries if name in (None, getattr(entry.key, kind)))
    if not entries:
        raise UsageMistake(f"{run.folder.name} has no trial that ended: nothing to compare with later")
    return entries


def _refuse_shared_trials(runs: Sequence[Run]) -> None:
    """Refuse runs that hold the same trials, which would count twice."""
    before: set[str] = set()
    for run in runs:
        name = run.header.name or run.folder.name
        sources = {name, *(Path(other).name for other in (*run.header.regraded, *run.header.reused))}
        if shared := before & sources:
            twice = name if name in shared else min(shared)
            raise UsageMistake(f"{name}: trials of {twice} would count twice: name each run once")
        before |= sources


def _refuse_incomplete(run: Run, entries: Sequence[JournalEntry], args: argparse.Namespace) -> None:
    """Refuse trials without a score, which nothing can be compared with."""
    errored = [entry.key.task for entry in entries if not entry.averaged]
    planned = sum(
        group.trials
        for group in run.planned
        if args.model in (None, group.model) and args.suite in (None, group.suite)
    )
    parts = [f"{pluralize(len(errored), 'trial')} errored ({_few(errored)})"] if errored else []
    if planned > len(entries):
        parts.append(f"{planned - len(entries)} of {planned} planned trials never ended")
    if parts:
        hint = "try them again (pytest --agent-only=errored,not_run), or keep the rest with --allow"
        raise UsageMistake(f"{run.folder.name}: {'; '.join(parts)}: {hint}")


def _unlike_agents(sides: Sequence[Side], allow: bool) -> Iterator[str]:
    """Say in what the agents of runs differ, if that is allowed; refuse tasks that cannot be averaged."""
    for at, side in enumerate(sides[1:], start=1):
        earlier = pool_runs(sides[:at])
        lacking = {*earlier.groups} ^ {*side.groups}
        if lacking:
            suite, model, variant = min(lacking)
            without, other = (side, earlier) if (suite, model, variant) in earlier.groups else (earlier, side)
            group = f"{suite} with {model_label(model, variant)}"
            hint = "choose what all of them have with --suite and --model"
            raise UsageMistake(f"{without.name} has no trial of {group}, which {other.name} has: {hint}")
        pairs = pair_suites(earlier, side)
        obstacles = [str(each) for suite in pairs for each in suite.obstacles if each.key]
        if obstacles:
            more = len(obstacles) - MOST_OBSTACLES
            lines = [*obstacles[:MOST_OBSTACLES], *([f"and {more} more"] if more > 0 else [])]
            head = f"{side.name} cannot be averaged with {earlier.name}: these tasks are not the same"
            raise UsageMistake("\n  ".join([head, *lines]))
        for each in pairs:
            if each.differs:
                group = f"{each.group.suite} with {model_label(*each.group.new)}"
                text = f"{group}: {side.name} differs from {earlier.name} in {', '.join(each.differs)}"
                if not allow:
                    raise UsageMistake(f"{text}; --allow keeps them together")
                yield text


def _tasks_of_some(sides: Sequence[Side]) -> Iterator[str]:
    """Say which tasks are not in all of the runs."""
    tried = [{entry.key._replace(repetition=0) for entry in side.entries} for side in sides]
    some = sorted(set.union(*tried) - tried[0].intersection(*tried[1:]))
    if some:
        be = "is" if len(some) == 1 else "are"
        yield f"{pluralize(len(some), 'task')} {be} not in all runs: {_few([key.task for key in some])}"


def _joined_header(headers: Sequence[RunHeader], name: str) -> RunHeader:
    """Give the newest run's header, with the suites, models and judges of all of them."""
    if len(headers) == 1:
        return replace(headers[0], name=name)
    suites = {suite.name: suite for header in headers for suite in header.suites}
    models = {model.name: model for header in headers for model in header.models}
    return replace(
        max(headers, key=lambda header: header.started_at),
        name=name,
        suites=tuple(suites.values()),
        models=tuple(models.values()),
        judges=tuple(dict.fromkeys(judge for header in headers for judge in header.judges)),
    )


def _pooled_groups(pooled: Side) -> Iterator[PooledGroup]:
    for group in pooled.groups:
        own = [entry for entry in pooled.entries if group_of(entry) == group]
        if runs := run_drifts(own, pooled.run_of):
            yield PooledGroup(*group, runs)


def _group_name(group: PooledGroup) -> str:
    return one_line(f"{group.suite} with {model_label(group.model, group.variant)}", MOST_NAME)


def _few(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = ", ..." if len(distinct) > MOST_NAMED else ""
    return ", ".join(one_line(name, MOST_NAME) for name in distinct[:MOST_NAMED]) + more


def _files(entries: Sequence[JournalEntry], to: str | None) -> Mapping[Path, tuple[JournalEntry, ...]]:
    """Give the trials by the file that they go to."""
    if to is not None:
        return {_checked(Path(to)): tuple(entries)}
    files: dict[Path, list[JournalEntry]] = {}
    places: dict[str, Path] = {}
    for entry in entries:
        suite = entry.key.suite
        if suite not in places:
            places[suite] = _gates_file(entry) or FOLDER / f"{suite.replace('/', '_')}.json"
        files.setdefault(_checked(places[suite]), []).append(entry)
    return {path: tuple(own) for path, own in files.items()}


def _checked(path: Path) -> Path:
    if path.suffix.lower() != ".json" or is_task_name(path) or not is_data_name(path.name):
        raise UsageMistake(f"{path}: expected a file NAME.json that is no task and no suite")
    if path.exists() and not holds_baseline(path):
        raise UsageMistake(f"{path}: there is such a file, and it is no baseline: nothing was written")
    return path


def _gates_file(entry: JournalEntry) -> Path | None:
    """Give the baseline's file that the suite of a trial names, if it does."""
    try:
        file = find_suite((Path.cwd() / entry.file).parent, Path.cwd()) if entry.file else None
        suite = load_suite(file) if file else None
    except ProblemsFound:
        return None
    if file is None or suite is None or suite.name != entry.key.suite or not suite.gate.baseline:
        return None
    return Path(short_path((file.parent / suite.gate.baseline).resolve()))


def _change_lines(change: BaselineChange, verbose: bool) -> Iterator[str]:
    """Say what is in the file from now on, beside what was."""
    tasks = pluralize(change.tasks, "task")
    if change.is_new:
        yield f"{change.file}: written: {tasks}, {pluralize(change.trials, 'trial')}"
        return
    counts = ((change.added, "added"), (change.gone, "gone"))
    head = ", ".join(
        [
            f"{pluralize(len(change.changed), 'task')} changed",
            *(f"{len(names)} {word}" for names, word in counts if names),
        ]
    )
    as_before = change.tasks - len(change.changed) - len(change.added)
    yield f"{change.file}: written: {head}, {as_before} as before"
    rows = [
        *(f"  {each.name}  {_change_text(each)}" for each in change.changed),
        *(f"  {each.name}  added: {_results(each.after)}" for each in change.added),
        *(f"  {each.name}  gone, was: {_results(each.before)}" for each in change.gone),
    ]
    for row in rows if verbose else rows[:MOST_ROWS]:
        yield from wrapped(row)
    if not verbose and len(rows) > MOST_ROWS:
        yield f"  and {len(rows) - MOST_ROWS} more (-v)"


def _change_text(change: BaselineTask) -> str:
    before, after = _results(change.before), _results(change.after)
    results = f"{before} -> {after}" if before != after else after
    differs = f"  (not what it was: {', '.join(change.differs)})" if change.differs else ""
    return f"{results}{differs}"


def _results(scores: Sequence[float | None]) -> str:
    return " ".join("errored" if score is None else format_figure(score) for score in scores)

"""``agenteval compare`` and ``baseline``: is a run better or worse, and what later runs are compared with."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.cli.console import (
    MODEL_HELP,
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    add_side_options,
    find_named_run,
    indented_lines,
    name_list,
    print_lines,
    print_other_runs_of_day,
    wrapped,
    write_document,
    write_text,
)
from pytest_agenteval.compare.baseline_file import baseline_text, find_baseline, write_baseline
from pytest_agenteval.compare.comparison import TOLERANCE, RunComparison, run_drifts
from pytest_agenteval.compare.pairing import ComparedRun, compared_run, pair_suites, pool_runs
from pytest_agenteval.reports.comparison_report import (
    BaselineChange,
    BaselineDocument,
    BaselineTask,
    PooledGroup,
    baseline_change,
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from pytest_agenteval.reports.comparison_text import alike_text
from pytest_agenteval.reports.markdown_report import append_summary
from pytest_agenteval.reports.sides import Sides, sides_of_places
from pytest_agenteval.reports.sides_report import against_lines, sides_document, sides_lines, sides_markdown
from pytest_agenteval.store.journal_entry import JournalEntry, group_of
from pytest_agenteval.store.run_documents import GATES
from pytest_agenteval.store.run_folder import RunHeader, find_run, list_runs
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.file_names import find_suite, holds_baseline, is_data_name, is_task_name
from pytest_agenteval.tasks.load import load_suite
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.text.formatting import (
    StyledLine,
    first_few,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
)

WORSE = 1
REFUSED = 2
MOST_OBSTACLES = 20
# Characters of the line about the results of gates.
MOST_LINE = 1000

BASELINES = Path("evals") / "baselines"
MOST_NAMED = 5

MOST_ROWS = 30
MOST_NAME = 200


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.epilog = f"{RUN_HELP} RUN may also be a baseline file."
    add("runs", nargs="+", metavar="RUN", help="the old run, then the new ones; or one run, with --models or --variants")  # fmt: skip  # noqa: E501
    add_side_options(parser)
    add("--allow", action="store_true", help="compare only the tasks that are the same on both sides")
    add(
        "--tolerance",
        type=_proportion,
        metavar="D",
        help="a fall of up to D counts as not worse (default: 0.05)",
    )
    add("--judge-noise", nargs="*", metavar="RUN", help="measure the judge's share of noise, from --agent-regrade runs")  # fmt: skip  # noqa: E501
    add("-v", "--verbose", action="store_true", help="list every bucket, grader and task")
    add_json_option(parser)
    add("--markdown", metavar="FILE", help="write it as Markdown (- for standard output)")
    add_results_option(parser)


def _proportion(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; found {text}")
    return value


def compare(args: argparse.Namespace) -> int:
    """Compare sides; 1 where something is worse than the first of them, 2 where nothing can be compared."""
    if args.json == args.markdown == STDOUT:
        raise UsageMistake("--json - and --markdown - both write to standard output: write one to a file")
    models, variants = name_list(args.models, "--models"), name_list(args.variants, "--variants")
    for name in dict.fromkeys(args.runs):
        print_other_runs_of_day(Path(args.results), name)
    sides = _compared_sides(args, models, variants)
    comparisons = [sides.comparison(0, new) for new in range(1, len(sides))]
    for side, comparison in zip(sides.sides[1:], comparisons, strict=True):
        which = f" ({sides.sides[0].name}; {side.name})" if len(sides) > 2 else ""
        _refuse_obstacles(comparison, which, args)
    if args.judge_noise is not None:
        sides = _with_judge_noise(sides, args)
        comparisons = [sides.comparison(0, 1)]
    several = len(sides) > 2
    if args.json:
        document = sides_document(sides) if several else comparison_json(comparisons[0])
        write_document(args.json, document)
    markdown = sides_markdown(sides) if several else comparison_markdown(comparisons[0])
    if args.markdown:
        write_text(args.markdown, markdown)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        # A summary that cannot be written is reported, and hides no verdict.
        problem = append_summary(Path(summary), markdown)
        print(problem, end="\n" if problem else "", file=sys.stderr)
    if STDOUT not in (args.json, args.markdown):
        print_lines(_compared_lines(sides, args))
    for line in dict.fromkeys(line for comparison in comparisons for line in comparison.odd):
        print(line, file=sys.stderr)
    # An agent that always raises must not look like one that did not change.
    if not any(comparison.has_scores for comparison in comparisons):
        return REFUSED
    return WORSE if any(comparison.worse for comparison in comparisons) else 0


def _compared_sides(args: argparse.Namespace, models: Sequence[str], variants: Sequence[str]) -> Sides:
    results, tolerance = Path(args.results), args.tolerance or TOLERANCE
    places = [find_baseline(results, name) for name in args.runs]
    # A run may be named twice, as latest and by its name. Named twice alone, it is compared with itself.
    different = list({place.resolve(): place for place in places}.values())
    places = different if len(different) > 1 else places
    sides = sides_of_places(places, models, variants, tolerance=tolerance)
    if len(sides) < 2:
        how = "name another run, or --models A,B or --variants A,B of this one"
        raise UsageMistake(f"expected two sides or more; found {sides.sides[0].name}: {how}")
    return sides


def _compared_lines(sides: Sides, args: argparse.Namespace) -> Iterator[StyledLine]:
    width = shutil.get_terminal_size().columns
    if len(sides) > 2:
        yield from sides_lines(sides, width)
        yield from against_lines(sides, 0, width, verbosity=int(args.verbose))
        return
    yield from comparison_lines(sides.comparison(0, 1), width, whole=args.verbose)
    if not (args.models or args.variants) and len(args.runs) == 2 and (line := _gate_line(args)):
        yield StyledLine(line)


def _gate_line(args: argparse.Namespace) -> str:
    """Say what becomes of the gates of the new run; empty for a run without gates."""
    old, new = (find_baseline(Path(args.results), name) for name in args.runs)
    if not (new / GATES).is_file():
        return ""
    from pytest_agenteval.session.suite_gates import JudgedRun, not_tried_again

    judged = JudgedRun(load_run(new), Path.cwd(), old)
    return one_line(judged.outcome(not_tried_again(judged.broken, "while comparing")).line, MOST_LINE)


def _with_judge_noise(sides: Sides, args: argparse.Namespace) -> Sides:
    from pytest_agenteval.compare.comparison import with_judge_noise

    if len(sides) > 2:
        raise UsageMistake(f"--judge-noise: expected two sides; found {len(sides)}")
    results = Path(args.results)
    runs = [load_run(find_run(results, name)) for name in dict.fromkeys(args.runs)]
    names = {run.folder.name for run in runs}
    # Without names: all runs that graded trials of these again.
    folders = [find_run(results, name) for name in args.judge_noise] or [
        run.path for run in list_runs(results) if names.intersection(run.header.regraded)
    ]
    compared = with_judge_noise(sides.comparison(0, 1), runs, [load_run(folder) for folder in folders])
    if all(suite.judge_share is None for suite in compared.suites):
        how = "pytest EVALS --agent-regrade=RUN --agent-judge=JUDGE, twice or more"
        found = ", ".join(folder.name for folder in folders) or "none"
        expected = "expected runs that regraded the same trials, with results that differ"
        raise UsageMistake(f"--judge-noise: {expected}; found {found}; {how}")
    return Sides(sides.sides, sides.legend, comparison=compared)


def _refuse_obstacles(comparison: RunComparison, which: str, args: argparse.Namespace) -> None:
    """Refuse two sides without a suite in common or, without --allow, with tasks that differ."""
    # Two models on one side and two others on the other: nobody knows which belong together.
    if not comparison.suites:
        old, new = (
            ", ".join(names) or "nothing" for names in (comparison.unmatched_old, comparison.unmatched_new)
        )
        raise UsageMistake(f"the two sides share no task{which}: old has {old}; new has {new}")
    if comparison.obstacles and not args.allow:
        head = f"not comparable: these tasks are not the same on both sides{which}"
        hint = "--allow compares all other tasks"
        lines = indented_lines(comparison.obstacles, MOST_OBSTACLES)
        raise UsageMistake("\n".join([head, *lines, hint]))


def baseline_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Save a stored run, or several, as the baseline of later ones: a file with one line for each task, "
        "to be reviewed and committed. With several runs of the same agent, smaller changes are found. "
        "Without --to each suite's part goes to the file that its suite.yaml's gate names, else to "
        "evals/baselines/SUITE.json below this folder."
    )
    parser.epilog = RUN_HELP
    add = parser.add_argument
    add("what", choices=("set",), metavar="set", help="the only action")
    add("runs", nargs="+", metavar="RUN", help="the runs to save, with all their trials")
    add("--to", metavar="FILE", help="one file for all suites, such as evals/baselines/pkm.json")
    add("--model", metavar="MODEL", help=MODEL_HELP)
    add("--suite", metavar="SUITE", help="this suite's trials only")
    add("--allow", action="store_true", help="accept errored or missing trials, and agents that differ")
    add("-v", "--verbose", action="store_true", help="list every task that changes")
    add_json_option(parser)
    add_results_option(parser)


def baseline(args: argparse.Namespace) -> int:
    """Write the runs' trials into the files of their suites, and say what changes in each of them."""
    runs = [load_run(find_named_run(Path(args.results), name)) for name in args.runs]
    before: set[str] = set()
    for each in runs:
        which = each.header.name or each.folder.name
        # A run that regrades or reuses another one holds its trials.
        sources = {which, *(Path(other).name for other in (*each.header.regraded, *each.header.reused))}
        if shared := before & sources:
            twice = which if which in shared else min(shared)
            raise UsageMistake(f"{which}: trials of {twice} are in it twice: name each run once")
        before |= sources
    sides = [replace(compared_run(run), entries=_chosen_entries(run, args)) for run in runs]
    for run, side in zip(runs, sides, strict=True):
        if not args.allow:
            errored = [entry.key.task for entry in side.entries if not entry.averaged]
            planned = sum(
                group.trials
                for group in run.planned
                if args.model in (None, group.model) and args.suite in (None, group.suite)
            )
            parts = []
            if errored:
                parts.append(f"{pluralize(len(errored), 'trial')} errored ({_some_names(errored)})")
            if planned > len(side.entries):
                parts.append(f"{planned - len(side.entries)} of {planned} planned trials never ended")
            if parts:
                hint = "run them again (pytest --agent-only=errored,not_run), or save the rest with --allow"
                raise UsageMistake(f"{run.folder.name}: {'; '.join(parts)}: {hint}")
    remarks = [*_agent_differences(sides, args.allow), *_partial_tasks(sides)]
    pooled = pool_runs(sides)
    header = _joined_header([run.header for run in runs], pooled.name)
    changes: list[BaselineChange] = []
    for path, own in _entries_by_file(pooled.entries, args.to).items():
        changes.append(baseline_change(path, own))
        write_baseline(path, baseline_text(header, own, pooled.looks, pooled.run_of))
        if args.json != STDOUT:
            print_lines(map(StyledLine, _change_lines(changes[-1], args.verbose)))
    by_group = {
        group: run_drifts([entry for entry in pooled.entries if group_of(entry) == group], pooled.run_of)
        for group in pooled.groups
    }
    groups = tuple(PooledGroup(*group, runs) for group, runs in by_group.items() if runs)
    if args.json != STDOUT:
        texts = (*remarks, *(f"{_group_name(each)}: {alike_text(each.runs)}" for each in groups))
        print_lines(StyledLine(line) for text in texts for line in wrapped(printable(text)))
    if args.json:
        name = ", ".join(run.folder.name for run in runs)
        document = BaselineDocument(run=name, files=tuple(changes), remarks=tuple(remarks), pooled=groups)
        write_document(args.json, document)
    return 0


def _chosen_entries(run: Run, args: argparse.Namespace) -> tuple[JournalEntry, ...]:
    entries = run.entries
    for kind, name in (("model", args.model), ("suite", args.suite)):
        names = list(dict.fromkeys(getattr(entry.key, kind) for entry in entries))
        if name is not None and name not in names:
            known = nearest_names(name, names) or "none"
            raise UsageMistake(f"{run.folder.name} has no {kind} {name!r}; it has {known}")
        entries = tuple(entry for entry in entries if name in (None, getattr(entry.key, kind)))
    if not entries:
        raise UsageMistake(f"{run.folder.name} has no trial that ended, so it cannot be a baseline")
    return entries


def _agent_differences(sides: Sequence[ComparedRun], allow: bool) -> Iterator[str]:
    """Say how the agents of the runs differ, if ``allow`` is set; refuse tasks that cannot be averaged."""
    for at, side in enumerate(sides[1:], start=1):
        # Each run against all before it, since the trials of all of them are averaged.
        earlier = pool_runs(sides[:at])
        lacking = {*earlier.groups} ^ {*side.groups}
        if lacking:
            suite, model, variant = min(lacking)
            without, other = (side, earlier) if (suite, model, variant) in earlier.groups else (earlier, side)
            group = f"{suite} with {model_label(model, variant)}"
            hint = "choose one that all runs have, with --suite and --model"
            raise UsageMistake(f"{without.name} has no trial of {group}, which {other.name} has: {hint}")
        pairs = pair_suites(earlier, side)
        obstacles = [str(each) for suite in pairs for each in suite.obstacles if each.key]
        if obstacles:
            head = f"{side.name} cannot be averaged with {earlier.name}: these tasks are not the same"
            raise UsageMistake("\n".join([head, *indented_lines(obstacles, MOST_OBSTACLES)]))
        for each in pairs:
            if each.differs:
                group = f"{each.group.suite} with {model_label(*each.group.new)}"
                text = f"{group}: {side.name} differs from {earlier.name} in {', '.join(each.differs)}"
                if not allow:
                    raise UsageMistake(f"{text}; --allow saves them all the same")
                yield text


def _partial_tasks(sides: Sequence[ComparedRun]) -> Iterator[str]:
    tried = [{entry.key._replace(repetition=0) for entry in side.entries} for side in sides]
    some = sorted(set.union(*tried) - tried[0].intersection(*tried[1:]))
    if some:
        be = "is" if len(some) == 1 else "are"
        names = _some_names([key.task for key in some])
        yield f"{pluralize(len(some), 'task')} {be} not in all runs: {names}"


def _joined_header(headers: Sequence[RunHeader], name: str) -> RunHeader:
    """Give the newest run's header, with the suites, models and judges of all runs."""
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


def _group_name(group: PooledGroup) -> str:
    return one_line(f"{group.suite} with {model_label(group.model, group.variant)}", MOST_NAME)


def _some_names(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(first_few([one_line(name, MOST_NAME) for name in distinct], MOST_NAMED, "..."))


def _entries_by_file(
    entries: Sequence[JournalEntry], to: str | None
) -> Mapping[Path, tuple[JournalEntry, ...]]:
    if to is not None:
        return {_checked_path(Path(to)): tuple(entries)}
    files: dict[Path, list[JournalEntry]] = {}
    places: dict[str, Path] = {}
    for entry in entries:
        suite = entry.key.suite
        if suite not in places:
            # A slash in the name of a suite would be a folder.
            places[suite] = _gate_baseline(entry) or BASELINES / f"{suite.replace('/', '_')}.json"
        files.setdefault(_checked_path(places[suite]), []).append(entry)
    return {path: tuple(own) for path, own in files.items()}


def _checked_path(path: Path) -> Path:
    # A mistyped name must not write over a task, a suite or any other file.
    if path.suffix.lower() != ".json" or is_task_name(path) or not is_data_name(path.name):
        raise UsageMistake(f"{path}: expected a file NAME.json that is not a task or suite file")
    if path.exists() and not holds_baseline(path):
        raise UsageMistake(f"{path}: this file exists and is not a baseline: nothing was written")
    return path


def _gate_baseline(entry: JournalEntry) -> Path | None:
    """Give the baseline file that the suite of a trial names in its gate; None where it names none."""
    try:
        file = find_suite((Path.cwd() / entry.file).parent, Path.cwd()) if entry.file else None
        suite = load_suite(file) if file else None
    # A suite that is broken today names no file, so the default place is used.
    except ProblemsFound:
        return None
    if file is None or suite is None or suite.name != entry.key.suite or not suite.gate.baseline:
        return None
    return Path(short_path((file.parent / suite.gate.baseline).resolve()))


def _change_lines(change: BaselineChange, verbose: bool) -> Iterator[str]:
    tasks = pluralize(change.tasks, "task")
    if change.is_new:
        yield f"{change.file}: written: {tasks}, {pluralize(change.trials, 'trial')}"
        return
    counts = ((change.added, "added"), (change.gone, "gone"))
    changed = f"{pluralize(len(change.changed), 'task')} changed"
    head = ", ".join([changed, *(f"{len(names)} {word}" for names, word in counts if names)])
    as_before = change.tasks - len(change.changed) - len(change.added)
    yield f"{change.file}: written: {head}, {as_before} unchanged"
    rows = [
        *(f"  {each.name}  {_change_text(each)}" for each in change.changed),
        *(f"  {each.name}  added: {_scores_text(each.after)}" for each in change.added),
        *(f"  {each.name}  gone, was: {_scores_text(each.before)}" for each in change.gone),
    ]
    for row in rows if verbose else first_few(rows, MOST_ROWS, "  and {} more (-v)"):
        yield from wrapped(row)


def _change_text(change: BaselineTask) -> str:
    before, after = _scores_text(change.before), _scores_text(change.after)
    results = f"{before} -> {after}" if before != after else after
    differs = f"  (changed: {', '.join(change.differs)})" if change.differs else ""
    return f"{results}{differs}"


def _scores_text(scores: Sequence[float | None]) -> str:
    return " ".join("errored" if score is None else format_figure(score) for score in scores)

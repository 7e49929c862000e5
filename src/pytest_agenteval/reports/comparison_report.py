"""A comparison on a terminal, as Markdown and as JSON, and what a run changes in a baseline's file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from pytest_agenteval.compare.baseline_file import read_baseline, tasks_of
from pytest_agenteval.compare.comparison import Pair, RunComparison, RunDrift, SuiteComparison, TaskChange
from pytest_agenteval.compare.pairing import MUST_EQUAL
from pytest_agenteval.compare.resource_figures import ResourceFigures
from pytest_agenteval.compare.scoring.aggregates import LEAST_TRIALS
from pytest_agenteval.compare.verdict import LEAST_SHOWN, Change
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.reports.comparison_text import (
    MOST_NAME,
    NO_SCORES,
    bucket_name,
    change_sentences,
    drift_text,
    format_change,
    format_p,
    headline,
    look_text,
    pooled_text,
    repetitions_text,
    scores_text,
    sent_text,
    suite_label,
    tasks_compared,
    tasks_left_out,
    too_few_text,
    verdict_text,
)
from pytest_agenteval.reports.resource_text import change_markdown, comparison_texts
from pytest_agenteval.reports.tables import ReportTable, TableColumn, body_lines, folded_markdown
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_documents import RULES
from pytest_agenteval.text.formatting import (
    NOT_KNOWN,
    Style,
    StyledLine,
    clamp_width,
    escape_markdown,
    first_few,
    flow,
    format_duration,
    format_figure,
    model_label,
    one_line,
    pluralize,
    printable,
    wrapped_lines,
)
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_EACH_WAY = 5
"""Small buckets, and tasks, that are named of those that rose, and of those that fell."""

MOST_OBSTACLES = 10


def comparison_lines(
    comparison: RunComparison, width: int, *, whole: bool = False, basis: bool = False
) -> list[StyledLine]:
    """Give a comparison as lines of at most ``width`` columns.

    ``basis`` adds what verdicts rest on: p-values, and how much of the noise comes from repetitions and from
    judges. ``whole`` leaves nothing out.
    """
    width = clamp_width(width)
    lines = _headline_lines(comparison, width)
    lines += map(StyledLine, flow(comparison_texts(comparison), width))
    for suite in comparison.suites:
        lines += [StyledLine(""), *_suite_lines(suite, comparison, width, whole, basis or whole)]
    return [*lines, *_remarks(comparison, width, whole)]


def _headline_lines(comparison: RunComparison, width: int) -> list[StyledLine]:
    return wrapped_lines(headline(comparison), width, "red" if comparison.worse else "bold", indent="")


def _suite_lines(
    suite: SuiteComparison, comparison: RunComparison, width: int, whole: bool, basis: bool
) -> Iterator[StyledLine]:
    old, new = map(printable, (pooled_text(suite, names=whole) or comparison.old, comparison.new))
    runs = "same run" if comparison.same_run else f"{old} -> {new}"
    changed = f"  changed: {', '.join(suite.differs)}" if suite.differs else ""
    # Tasks that errored on one side throughout are compared, but have no change.
    scored = sum(task.change is not None for task in suite.tasks)
    tasks = f"{pluralize(len(suite.tasks), 'task')} {repetitions_text(suite)}"
    tasks = tasks if scored in (0, len(suite.tasks)) else f"{scored} of {tasks}"
    compared = tasks if suite.tasks else "no task compared"
    yield from wrapped_lines(f"{suite_label(suite)}  {compared}, {runs}{changed}", width, indent="")
    if not suite.differs and suite.old_who == suite.new_who:
        yield from wrapped_lines("No difference found in prompts, settings, tools or code.", width)
    for each in suite.sent:
        yield from wrapped_lines(printable(sent_text(each)), width)
    if suite.suite is None:
        yield from wrapped_lines("   ".join([NO_SCORES, *_errored_text(suite)]), width)
        return
    if suite.suite.verdict == "identical":
        score = format_figure(suite.suite.new)
        yield from wrapped_lines(f"score {score}, every trial scored the same", width)
        # Few tasks that all scored as before do not show that tasks like these would.
        for text in too_few_text(suite.suite, comparison.tolerance, suite.levels.suite):
            yield from wrapped_lines(text, width)
        return
    yield from wrapped_lines(_score_text(suite, suite.suite), width)
    for text in change_sentences(suite, suite.suite, comparison, basis=basis):
        yield from wrapped_lines(printable(text), width)
    yield from _buckets(suite, width, whole, basis)
    yield from _tasks(suite, width, whole)
    if whole:
        yield from _graders(suite, width)

        def both(pair: Pair, form: Callable[[float], str], unknown: str) -> str:
            if pair.old is None and pair.new is None:
                return unknown
            return " -> ".join("unknown" if value is None else form(value) for value in (pair.old, pair.new))

        # The unit stands once where both figures are known: "1,200 -> 1,300 tokens".
        tokens = both(suite.tokens, lambda value: f"{value:,.0f} tokens", "tokens unknown")
        parts = [tokens.replace(" tokens ->", " ->"), both(suite.seconds, format_duration, NOT_KNOWN)]
        if suite.cost_usd != Pair(0, 0):
            parts.append(both(suite.cost_usd, lambda value: f"${value:.4f}", "cost unknown"))
        yield from wrapped_lines(f"per trial: {', '.join(parts)}", width)


def _score_text(suite: SuiteComparison, change: Change) -> str:
    parts = [f"score {scores_text(change)}", format_change(change.change)]
    if change.interval is not None:
        # A verdict may have moved an end just beyond 0: it is shown as 0.
        ends = (change.interval.low, change.interval.high)
        low, high = (format_change(0.0 if abs(end) <= LEAST_SHOWN else end) for end in ends)
        parts[-1] += f", between {low} and {high} for tasks like these"
    if not change.testable:
        # Repetitions may help where tasks were tried once and all changes are in one direction: three are the
        # fewest that can give a verdict where two tasks change, five where one does.
        changes = [task.change for task in suite.tasks if task.change and abs(task.change) > ROUNDING]
        fewest, remedy = 3 if len(changes) > 1 else 5, ""
        if len({change > 0 for change in changes}) == 1 and all(most <= 1 for _, most in suite.repetitions):
            remedy = f" (--repetitions {fewest} may find more)"
        parts.append(f"too few differences to call it better or worse{remedy}")
    return "   ".join([*parts, *_errored_text(suite)])


def _errored_text(suite: SuiteComparison) -> Iterator[str]:
    if any(suite.errored):
        yield f"errored {suite.errored[0]} -> {suite.errored[1]}"


def _buckets(suite: SuiteComparison, width: int, whole: bool, basis: bool) -> Iterator[StyledLine]:
    """Give the buckets that were tested, then those without a verdict that moved."""
    # Buckets that could be tested come first, the surest first: those are what a verdict rests on.
    testable = sorted((change for change in suite.buckets if change.testable), key=lambda change: change.p)
    others = [change for change in suite.buckets if not change.testable]
    moved = [change for change in others if abs(change.change) > ROUNDING]
    moved_most = sorted(moved, key=lambda change: -change.change) if whole else _furthest(moved)
    # The others are counted in a line below: a suite may have dozens of buckets of one task each.
    if testable or moved:
        yield StyledLine("")
        changes = [*testable, *moved_most]
        columns = [
            *_change_columns([(change.tasks, change.old, change.new, change.change) for change in changes]),
            TableColumn("verdict", tuple(map(verdict_text, changes))),
        ]
        if basis:
            p = tuple(format_p(change.p) if change.testable else NOT_KNOWN for change in changes)
            columns.insert(-1, TableColumn("p", p, spare=1))
        names = tuple(map(bucket_name, changes))
        yield from body_lines(ReportTable("", "bucket", names, (tuple(columns),)), width)
    if len(moved_most) < len(moved):
        yield StyledLine(f"  {len(moved) - len(moved_most)} more that changed (-v)", "dim")
    if others:
        sizes = sorted({change.tasks for change in others})
        tasks = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        buckets = f"{pluralize(len(others), 'bucket')} of {tasks} {'task' if sizes[-1] == 1 else 'tasks'}"
        text = f"-  too few differences for a verdict: {buckets}, {len(moved) or 'none'} of which changed"
        yield from wrapped_lines(text, width, "dim")


def _change_columns(rows: Sequence[tuple[int, float, float, float]]) -> Iterator[TableColumn]:
    """Give the columns of changes over tasks: how many, from what to what, and by how much."""
    tasks, old, new, change = zip(*rows, strict=True)
    yield TableColumn("tasks", tuple(map(str, tasks)))
    yield TableColumn("old", tuple(map(format_figure, old)))
    yield TableColumn("new", tuple(map(format_figure, new)))
    yield TableColumn("change", tuple(map(format_change, change)))


def _furthest(changes: Iterable[Change]) -> list[Change]:
    """Give the changes that rose most and those that fell most, the highest first."""
    ordered = sorted(changes, key=lambda change: -change.change)
    if len(ordered) <= 2 * MOST_EACH_WAY:
        return ordered
    up = [change for change in ordered if change.change > 0]
    down = [change for change in ordered if change.change < 0]
    return [*up[:MOST_EACH_WAY], *down[-MOST_EACH_WAY:]]


def _tasks(suite: SuiteComparison, width: int, whole: bool) -> Iterator[StyledLine]:
    changes = [(task, task.change) for task in suite.tasks if task.change is not None]
    up = sum(change > ROUNDING for _, change in changes)
    down = sum(change < -ROUNDING for _, change in changes)
    yield StyledLine("")
    # Equal means may differ in the last bit of a float, as 0.3 and 0.1 + 0.2 do: hence ROUNDING.
    same = len(changes) - up - down
    yield from wrapped_lines(f"{pluralize(same, 'task')} unchanged, {up} up, {down} down", width)
    moved = sorted((pair for pair in changes if abs(pair[1]) > ROUNDING), key=lambda pair: pair[1])
    if whole:
        for task, _ in moved:
            yield from wrapped_lines(_task_text(task), width, indent="    ")
    elif moved and moved[0][1] < 0:
        yield from wrapped_lines(f"Fell most: {_task_text(moved[0][0])}", width)
    mended = [printable(task.task) for task in suite.tasks if task.mended]
    broken = [printable(task.task) for task in suite.tasks if task.broken]
    if mended:
        yield from wrapped_lines(f"Fixed (none passed, now all do): {', '.join(mended)}", width)
    # With few repetitions chance alone breaks many tasks, so the number is beside them, and without any
    # broken task it is shown only where the repetitions are enough to see one.
    if broken or (whole and min(suite.repetitions[0][0], suite.repetitions[1][0]) >= LEAST_TRIALS):
        by_chance = f"chance alone would break about {suite.broken_by_chance:.1f}"
        text = f"Broken (all passed, now none does): {', '.join(broken) or 'none'} ({by_chance})"
        yield from wrapped_lines(text, width, "red" if broken else "")


def _task_text(task: TaskChange) -> str:
    old, new = (" ".join(map(format_figure, scores)) for scores in (task.old, task.new))
    return f"{printable(task.task)}  {old} -> {new}"


def _graders(suite: SuiteComparison, width: int) -> Iterator[StyledLine]:
    if not suite.graders:
        return
    pairs = [(grader.tasks, grader.scores.old or 0.0, grader.scores.new or 0.0) for grader in suite.graders]
    columns = tuple(_change_columns([(tasks, old, new, new - old) for tasks, old, new in pairs]))
    names = tuple(one_line(grader.grader, MOST_NAME) or NOT_KNOWN for grader in suite.graders)
    yield StyledLine("")
    yield from body_lines(ReportTable("", "grader", names, (columns,)), width)


def _remarks(comparison: RunComparison, width: int, whole: bool) -> Iterator[StyledLine]:
    obstacles = comparison.obstacles
    # Counted by task, and listed one by one: a task may have an obstacle for each model.
    if obstacles:
        yield StyledLine("")
        tasks = pluralize(len(tasks_left_out(comparison)), "task")
        yield from wrapped_lines(f"{tasks} not compared:", width, "yellow", indent="")
    for text in first_few(obstacles, len(obstacles) if whole else MOST_OBSTACLES, "and {} more (-v)"):
        yield from wrapped_lines(printable(text), width)
    if not (comparison.suites or obstacles):
        yield StyledLine("")
    for names, where in ((comparison.unmatched_old, "old"), (comparison.unmatched_new, "new")):
        if names:
            yield from wrapped_lines(f"only in {where}: {printable(', '.join(names))}", width, indent="")


MOST_BUCKETS = 5
"""Buckets of a suite that are named."""


def verdict_lines(
    comparison: RunComparison, width: int, verbosity: int, *, buckets: bool = True
) -> list[StyledLine]:
    """Give the lines of a comparison that end a run with a baseline.

    At verbosity 0 these are the verdict, suites and changed ``buckets``, below 0 the verdict, from 1 on all.
    """
    if verbosity > 0:
        return comparison_lines(comparison, width, whole=True)
    lines = _headline_lines(comparison, width)
    return lines if verbosity < 0 else [*lines, *_brief(comparison, clamp_width(width), buckets)]


def _brief(comparison: RunComparison, width: int, buckets: bool) -> Iterator[StyledLine]:
    for suite in comparison.suites:
        if suite.suite is not None and suite.suite.verdict != "identical":
            whole = suite.suite
            parts = [f"{suite_label(suite)}  {scores_text(whole)}"]
            if whole.interval is not None:
                low, high = map(format_change, (whole.interval.low, whole.interval.high))
                parts.append(f"{format_change(whole.change)}, between {low} and {high}")
            if pooled := pooled_text(suite):
                parts.append(pooled)
            if suite.look is not None:
                parts.append(f"x {suite.look.repetitions}{look_text(suite.look)}")
            yield from wrapped_lines("   ".join([*parts, *_errored_text(suite)]), width)
            for text in drift_text(suite):
                yield from wrapped_lines(printable(text), width, "yellow", indent="    ")
            changed = [
                change for change in suite.buckets if buckets and change.verdict in ("better", "worse")
            ]
            # What fell most comes first: where the list is cut, falls stay.
            for change in sorted(changed, key=lambda change: change.change)[:MOST_BUCKETS]:
                text = f"{bucket_name(change)}  {scores_text(change)}  {verdict_text(change)}"
                style: Style = "red" if change.verdict == "worse" else ""
                yield from wrapped_lines(text, width, style, indent="    ")
    if comparison.obstacles:
        first = printable(str(comparison.obstacles[0]))
        left = len(comparison.obstacles) - 1
        text = f"not compared: {first}{f', and {left} more (-v)' if left else ''}"
        yield from wrapped_lines(text, width, "yellow")
    # Sides of one run have all of its tasks, but for those above.
    if not comparison.same_run:
        tasks = pluralize(len(tasks_compared(comparison)), "task")
        yield from wrapped_lines(f"{tasks} compared with {printable(comparison.old)}", width, "dim")


FORMAT = RULES
"""The form of the file changes with the rules that its verdicts were made by."""

WIDE = 120
"""Columns of what is not written into a terminal."""


def comparison_markdown(comparison: RunComparison) -> str:
    """Give the verdict as a heading, and the screen folded away below it."""
    # Names of models and suites come from users, and Markdown is published as a comment or a summary.
    verdict = KNOWN_SECRETS.text(headline(comparison))
    block = "\n".join(["```text", *basis_lines(comparison), "```"])
    folded = folded_markdown("details of the verdict", block)
    parts = [f"### {escape_markdown(verdict, len(verdict))}", change_markdown(comparison), folded]
    return "\n\n".join(filter(None, parts)) + "\n"


def basis_lines(comparison: RunComparison) -> list[str]:
    """Give the screen without its headline, for a page or a block of code in Markdown."""
    # Backticks in a name could end the block. The headline, perhaps wrapped, ends at the first empty line.
    lines = [line.text.replace("`", "'") for line in comparison_lines(comparison, WIDE, basis=True)]
    return lines[lines.index("") + 1 :] if "" in lines else []


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Give every figure of a comparison, with all digits, as JSON values."""
    figures: dict[str, Any] = msgspec.to_builtins(comparison)
    for name in ("old_resources", "new_resources"):
        took: ResourceFigures | None = getattr(comparison, name)
        figures[name] = took.to_json() if took else None
    return {"v": FORMAT, "headline": headline(comparison), **figures}


MOST_TASK_NAME = 200


class BaselineTask(FrozenValue, frozen=True):
    """The scores of a task's trials in a baseline's file, null for errored ones, before and after.

    ``differs`` names what of the task is not what it was, so that the scores cannot be compared.
    """

    name: str
    before: tuple[float | None, ...]
    after: tuple[float | None, ...]
    differs: tuple[str, ...] = ()


class BaselineChange(FrozenValue, frozen=True):
    """A baseline's file with what is in it from now on, and which tasks are not as they were."""

    file: str
    is_new: bool
    trials: int
    tasks: int
    changed: tuple[BaselineTask, ...]
    added: tuple[BaselineTask, ...]
    gone: tuple[BaselineTask, ...]


class PooledGroup(FrozenValue, frozen=True):
    """A suite with one model and variant whose trials are of several runs, each tested against the others."""

    suite: str
    model: str
    variant: str
    runs: tuple[RunDrift, ...]


class BaselineDocument(Document, frozen=True, kw_only=True):
    """The files that a run, or several, were written into.

    ``remarks`` say in what several runs differ besides their scores, ``pooled`` whether their scores do.
    """

    run: str
    files: tuple[BaselineChange, ...]
    remarks: tuple[str, ...] = ()
    pooled: tuple[PooledGroup, ...] = ()


def baseline_change(path: Path, entries: Sequence[JournalEntry]) -> BaselineChange:
    """Compare what will be written into a baseline's file with what it holds now."""
    after = _results_by_task(entries)
    before = _results_by_task(read_baseline(path).entries) if path.exists() else {}
    changed = []
    for name, (scores, digests) in after.items():
        if name in before and before[name] != after[name]:
            # Scores may be equal although the task is another one: its digests are compared as well.
            differs = tuple(words for words, each in digests.items() if before[name][1][words] != each)
            changed.append(BaselineTask(name, before[name][0], scores, differs))
    return BaselineChange(
        file=str(path),
        is_new=not path.exists(),
        trials=len(entries),
        tasks=len(after),
        changed=tuple(changed),
        added=tuple(BaselineTask(name, (), after[name][0]) for name in after if name not in before),
        gone=tuple(BaselineTask(name, before[name][0], ()) for name in before if name not in after),
    )


TaskResults: TypeAlias = tuple[tuple[float | None, ...], Mapping[str, frozenset[str]]]
"""The scores of a task's trials, None for errored ones, and the digests that comparable trials share."""


def _results_by_task(entries: Sequence[JournalEntry]) -> dict[str, TaskResults]:
    by_task: dict[str, TaskResults] = {}
    for trials in tasks_of(entries):
        key = trials[0].key
        name = one_line(f"{key.suite}/{key.task}[{model_label(key.model, key.variant)}]", MOST_TASK_NAME)
        digests = {
            words: frozenset(getattr(trial.digests, digest) for trial in trials)
            for digest, words in MUST_EQUAL.items()
        }
        by_task[name] = (tuple(trial.score if trial.averaged else None for trial in trials), digests)
    return by_task

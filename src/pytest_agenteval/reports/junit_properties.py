"""Properties, files and lines of trials in JUnit files, and the totals of each suite.

pytest writes ``file`` and ``line`` in the family xunit1 only, and counts lines from 0, which readers take for
no line at all. dorny/test-reporter reads neither: it looks for a line of a stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pytest_agenteval.compare.scoring.intervals import format_interval
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.formatting import format_figure, one_line

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_agenteval.reports.run_view import RunView, SuiteView
    from pytest_agenteval.store.journal_entry import JournalEntry
    from pytest_agenteval.store.notes import Note


MOST_VALUE = 200
MOST_PATH = 500
MOST_LABEL = 60
MOST_LINE = 1000
"""Characters of a person's comment, and of a property about a run as a whole: its verdict, its gates."""
Property = tuple[str, str]


def trial_properties(trial: Trial | JournalEntry, transcript_path: str = "") -> list[Property]:
    """Give the properties of a trial's test case, each short and legal in XML."""
    properties = list(_trial_facts(trial))
    if transcript_path:
        properties.append(_text("agenteval.transcript", transcript_path, MOST_PATH))
    return [*properties, *map(_grade, trial.grades)]


def prefix_endings(cases: Iterable[Element]) -> None:
    """Let a message begin with the ending: ``MISSED 0.40: …``, ``FAILED 0.40: …``, ``NOT RUN: …``."""
    # The reason that pytest passes on lacks the word, which stands before it on a terminal.
    for case in cases:
        properties = {element.get("name"): element.get("value") for element in case.iter("property")}
        if properties.get("agenteval.ending") in ("missed", "failed"):
            score = format_figure(float(properties["agenteval.score"] or 0))
            for tag, word in (("skipped", "MISSED"), ("failure", "FAILED")):
                for element in case.iter(tag):
                    element.set("message", f"{word} {score}: {element.get('message')}")
        elif properties.get("agenteval.ending") == "not_run":
            for element in case.iter("skipped"):
                element.set("message", f"NOT RUN: {element.get('message')}")


def suite_properties(view: RunView) -> list[Property]:
    run = ("agenteval.run", bounded(view.path, MOST_PATH))
    return [run] + [
        (f"agenteval.{bounded(suite.suite, MOST_LABEL)}[{bounded(suite.who, MOST_LABEL)}].{name}", value)
        for suite in view.suites
        for name, value in _suite_facts(suite)
    ]


def verdict_properties(headline: str, old: str, lines: Iterable[str]) -> Iterator[Property]:
    """Give the verdict on a run, the baseline that it was compared with, and the results of its gates.

    A line such as ``gate: broken …`` becomes the property ``agenteval.gate``.
    """
    if headline:
        yield "agenteval.verdict", one_line(headline, MOST_LINE)
        yield "agenteval.baseline", one_line(old, MOST_LINE)
    for line in lines:
        name, _, text = line.partition(": ")
        yield f"agenteval.{name}", one_line(text, MOST_LINE)


def _trial_facts(trial: Trial | JournalEntry) -> Iterator[Property]:
    key, judging = trial.key, trial.judging
    yield _text("agenteval.ending", trial.ending)
    # What is unknown has no property: a score or a cost of 0 would enter somebody's average.
    if trial.score is not None:
        yield _figure("agenteval.score", trial.score)
    facts = {"limit": trial.limit, "cause": trial.cause, "suite": key.suite, "task": key.task}
    facts |= {"bucket": trial.bucket, "model": key.model, "variant": key.variant}
    for name, value in facts.items():
        if value:
            yield _text(f"agenteval.{name}", value)
    yield _text("agenteval.repetition", str(key.repetition))
    if trial.attempt > 1:
        yield _text("agenteval.attempt", str(trial.attempt))
    yield from _usage("agenteval.", trial.usage)
    if judging.asks:
        yield from _usage("agenteval.judge_", judging)


def _usage(prefix: str, usage: Usage) -> Iterator[Property]:
    if usage.tokens is not None:
        yield _text(f"{prefix}tokens", str(usage.tokens))
    if usage.cost_usd is not None:
        yield _figure(f"{prefix}cost_usd", usage.cost_usd, 6)


def _grade(grade: Grade) -> Property:
    """Give a grader's measure, which may lie past 0..1 where its score does not."""
    name = f"agenteval.grade.{bounded(grade.grader, MOST_LABEL)}"
    if grade.value is None:
        return _text(name, "crashed" if grade.crashed else "undecided")
    return _figure(name, grade.value)


# One object for equal properties: most occur in other trials too, and pytest holds every report to the end.
@lru_cache(1024)
def _text(name: str, value: str, most: int = MOST_VALUE) -> Property:
    return name, bounded(value, most)


@lru_cache(1024)
def _figure(name: str, value: float, digits: int = 4) -> Property:
    return name, _number(value, digits)


def _suite_facts(suite: SuiteView) -> Iterator[Property]:
    total = suite.total
    if total.score is not None:
        yield "mean_score", _number(total.score)
    # No property at all in place of a dash: readers of the file would have to know what a dash means.
    if total.interval is not None:
        yield "interval_95", format_interval(total.interval)
    rates = {"pass@1": total.pass_1}
    if total.k > 1:
        rates |= {f"pass^{total.k}": total.pass_hat_k, f"pass@{total.k}": total.pass_at_k}
    for name, rate in rates.items():
        if rate is not None:
            yield name, _number(rate.value)
    yield "trials", str(total.averaged)
    yield "planned", str(total.planned)
    yield "errored", str(total.errors)
    yield "not_run", str(total.not_run)
    if total.unscored:
        yield "without_judge", str(total.unscored)
    yield "tasks", str(total.tasks)
    yield "tasks_decided", str(total.tasks_decided)
    yield "tasks_passed", str(total.tasks_passed)
    if (tokens := total.spent.tokens.value) is not None:
        yield "tokens", str(tokens)
    if (cost := total.spent.cost.value) is not None:
        yield "cost_usd", _number(cost, 6)
    if suite.note:
        yield "note", suite.note


def bounded(text: str, most: int = MOST_VALUE) -> str:
    """Put a text on one line of at most ``most`` bytes in UTF-8."""
    # xdist sends reports through a pipe, and most texts are short ASCII: they are returned as they are.
    if len(text) <= most and text.isascii() and text.isprintable():
        return text
    line = one_line(text, most)
    return line if len(line.encode()) <= most else line.encode()[: most - 3].decode(errors="ignore") + "…"


def _number(value: float, digits: int = 4) -> str:
    """Write a number with this many digits; like ``format_figure``, it never rounds to 0 or 1."""
    rounded = round(value, digits)
    # A trial that missed by a hair did not reach 1: such a number gets more digits.
    near = rounded in (0, 1) and abs(value - rounded) > 1e-9
    return f"{value:.{2 * digits + 1 if near else digits}f}"


def note_properties(note: Note) -> Iterator[Property]:
    """Give what a person says about a trial; nothing without a note."""
    if note.looked_at:
        yield _text("agenteval.looked_at", note.looked_at)
    if note.comment:
        yield _text("agenteval.comment", note.comment, MOST_LINE)


FILE, LINE = "agenteval.file", "agenteval.line"


def place_properties(file: str, line: int | None) -> list[Property]:
    """Give the place of a trial's task: its file from pytest's rootdir, and a line from 1 if it is known."""
    if not file:
        return []
    return [(FILE, bounded(file, MOST_PATH)), *([(LINE, str(line))] if line else [])]


def set_places(cases: Iterable[Element]) -> None:
    """Give each test case the file and the line that its properties name.

    They are also added as the last line of the text of a failure or an error.
    """
    for case in cases:
        properties = {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}
        if FILE not in properties:
            continue
        case.set("file", properties[FILE])
        # pytest has written one in the family xunit1, and counts lines from 0.
        case.attrib.pop("line", None)
        if LINE in properties:
            case.set("line", properties[LINE])
            # dorny/test-reporter looks for a line of a stack trace, and reads no attribute.
            frame = stack_line(properties[FILE], int(properties[LINE]))
            for broken in (*case.iter("failure"), *case.iter("error")):
                broken.text = "\n".join(filter(None, (broken.text, frame)))


def stack_line(file: str, line: int) -> str:
    """Write a place as a line of a stack trace: ``at evals.travel(flights.yaml:12)``; empty at the root."""
    # Folders are taken from the end as long as a reader cannot mistake one for a class, which begins with a
    # capital letter, or for several folders, which are joined by dots.
    path = PurePosixPath(file)
    folders = reversed(path.parts[:-1])
    packages = list(takewhile(lambda folder: folder[0] > "Z" and "." not in folder, folders))
    return f"at {'.'.join(reversed(packages))}({path.name}:{line})" if packages else ""

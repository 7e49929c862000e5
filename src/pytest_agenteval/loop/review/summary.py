"""What came of a review: as values for programs, and as lines for whoever has labelled."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from pytest_agenteval.calibration.label_file import LabelFile
from pytest_agenteval.calibration.label_reader import Scale
from pytest_agenteval.calibration.people import PeopleAgreement, agreement_with_others
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.loop.review.dialog import Review
from pytest_agenteval.loop.review.planned_tasks import PlannedTasks
from pytest_agenteval.loop.review.shown_trials import ReviewPool
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.registry.lazy_names import UnknownName
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.formatting import format_figure, pluralize


class LabelledTrial(FrozenValue, frozen=True):
    """A trial that was labelled: ``id`` is its line's in the file; None is what cannot be told."""

    id: str
    suite: str
    task: str
    bucket: str
    scores: Mapping[str, float | None]
    note: str


class ReviewSummary(Document, frozen=True, kw_only=True):
    """What a person labelled in one sitting, and how much is left.

    ``scores`` lie on ``scale``. ``left`` counts the chosen trials with an open dimension, ``skipped`` those
    of them that the person passed over; ``left_out`` says how many of the run's trials were never chosen, by
    the reason. ``agreement`` compares the whole file with those of other people beside it, ``calibrate`` is
    the command that compares a judge with it.
    """

    run: str
    rubric: str
    file: str
    labeller: str
    scale: Scale
    labelled: tuple[LabelledTrial, ...]
    done: int
    left: int
    skipped: int
    left_out: Mapping[str, int]
    agreement: tuple[PeopleAgreement, ...]
    calibrate: str


def summarize(run: str, pool: ReviewPool, review: Review, labels: LabelFile, calibrate: str) -> ReviewSummary:
    """Put together how a sitting stands."""
    left = review.left
    return ReviewSummary(
        run=run,
        rubric=pool.rubric.name,
        file=short_path(labels.path),
        labeller=labels.labeller,
        scale=labels.scale,
        labelled=tuple(_labelled(review, place) for place in sorted(review.labelled)),
        done=len(review.trials) - left,
        left=left,
        skipped=len(review.skipped),
        left_out=pool.left_out,
        agreement=tuple(agreement_with_others(labels.path, pool.rubric)),
        calibrate=calibrate,
    )


def _labelled(review: Review, place: int) -> LabelledTrial:
    entry, labels = review.trials[place].entry, review.labels_of(place)
    key = entry.key
    return LabelledTrial(review.ids[place], key.suite, key.task, entry.bucket, labels.scores, labels.note)


def opening_lines(summary: ReviewSummary, repaired: bool) -> Iterator[str]:
    """Say what is going to be asked, and where answers go."""
    trials = pluralize(summary.done + summary.left, "trial")
    yield f"{summary.run}, rubric {summary.rubric}: {trials}, {summary.done} labelled, {summary.left} to go"
    if summary.left_out:
        reasons = ", ".join(f"{count} {why}" for why, count in summary.left_out.items())
        yield f"left out: {reasons}"
    yield f"labels: {summary.file}"
    if repaired:
        yield "half a line at the end of it, which a crash left behind, was cut off"


def closing_lines(summary: ReviewSummary) -> Iterator[str]:
    """Say what was labelled, what is left, and what comes next."""
    skipped = f", {summary.skipped} of them skipped" if summary.skipped else ""
    labelled = pluralize(len(summary.labelled), "trial")
    complete = f"{summary.done} of {summary.done + summary.left} complete"
    yield f"{labelled} labelled now; {complete}, {summary.left} left{skipped}"
    if summary.done or summary.labelled:
        yield from _agreement_lines(summary.agreement)
        yield f"next: {summary.calibrate}"


def _agreement_lines(agreement: Sequence[PeopleAgreement]) -> Iterator[str]:
    """Say of each other file how far it agrees, by dimension."""
    for file, dimensions in groupby(agreement, key=lambda each: each.file):
        texts = (
            f"{each.dimension} alpha {format_figure(each.alpha)} on {each.examples}" for each in dimensions
        )
        yield f"beside {file}: {', '.join(texts)}"


def default_file(folder: Path, rubric: str, labeller: str) -> Path:
    """Give where labels go unless somebody says: beside the suite, whose conftests calibrate heeds too.

    Not into the run's folder: that is thrown away, and labels are work of people.
    """
    return folder / "labels" / f"{rubric}{f'.{labeller}' if labeller else ''}.jsonl"


def calibrate_command(
    file: Path, rubric: Rubric, named: str | None, folder: Path, tasks: PlannedTasks
) -> str:
    """Write the command that compares a judge with these labels."""
    where = named if named and named.endswith(".jinja") else _rubric_place(rubric, folder, tasks)
    return shlex.join(["agenteval", "calibrate", short_path(file), "--rubric", where, "--judge", "MODEL"])


def _rubric_place(rubric: Rubric, folder: Path, tasks: PlannedTasks) -> str:
    """Give a registered rubric's name, else the file of the suite that holds it."""
    try:
        if tasks.registry.rubric(rubric.name).digest() == rubric.digest():
            return rubric.name
    except UnknownName:
        pass
    files = sorted(folder.rglob("*.jinja"))
    same = (path for path in files if rubric.text == path.read_text(encoding="utf-8", errors="replace"))
    return next(map(short_path, same), f"{rubric.name}.jinja")

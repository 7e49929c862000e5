"""What a benchmark makes of a suite's trials beside their scores: groups of metrics, and one total.

A benchmark works a scorecard out; reports draw it, on terminals, in Markdown, JSON and on leaderboards,
and know nothing of what its groups are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.records.record import Record, from_builtins
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake, exception_text

if TYPE_CHECKING:
    from pytest_agenteval.store.run_reader import Run


ScorecardMaker: TypeAlias = "Callable[..., Scorecard | None]"
"""Makes a suite's scorecard for one model from ``(entries, **options)``, or None."""
ReportFormat: TypeAlias = "Callable[[Sequence[Run], Any], Iterable[Path | str]]"
"""Writes files of runs: ``(runs, folder)`` returns their paths."""


class Metric(Record, frozen=True):
    """A figure over tasks.

    ``value`` is at most 1, may lie below 0, and is None where no task could decide it. ``tasks`` counts
    those that could. ``unjudged`` counts tasks that lack a grade only a judge gives: reports mark the figure.
    """

    name: str
    value: float | None
    interval: Interval | None = None
    tasks: int = 0
    unjudged: int = 0


class MetricGroup(Record, frozen=True):
    """Metrics of a group, such as a level; ``total`` is the group's own figure.

    ``metrics`` are what the figure is made of, ``beside`` is shown with the group and is no part of it.
    ``reason`` says in a few words why a group that was tried has no value: ``needs --agent-judge``.
    """

    total: Metric
    metrics: tuple[Metric, ...]
    beside: tuple[Metric, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """The group's name: ``L3``."""
        return self.total.name

    @property
    def value(self) -> float | None:
        """The group's own figure, None where nothing in it is decided."""
        return self.total.value


class TotalPart(Record, frozen=True):
    """A part of a total: the mean of ``groups`` times ``weight``."""

    name: str
    value: float | None
    weight: float
    groups: tuple[str, ...]


class Total(Record, frozen=True):
    """A model's weighted total, by which leaderboards are ordered.

    ``value`` is None where groups that it needs are ``missing``: the others alone never make one.
    ``beside`` names a group that is in no part and is shown beside the total.
    """

    name: str
    value: float | None
    interval: Interval | None
    parts: tuple[TotalPart, ...]
    missing: tuple[str, ...] = ()
    beside: str = ""


class Scorecard(Record, frozen=True):
    """A suite's trials with one model, in a benchmark's terms.

    Every scorecard of a benchmark has the same groups with the same metrics in the same order, decided or
    not: on a leaderboard they stand in one column. ``group_word`` says what a group is; ``notes`` stand below
    the table, a line each.
    """

    groups: tuple[MetricGroup, ...]
    total: Total | None = None
    notes: tuple[str, ...] = ()
    group_word: str = "level"

    def group(self, name: str) -> MetricGroup | None:
        """Give a group by its name, None where there is none."""
        return next((group for group in self.groups if group.name == name), None)

    def is_unjudged(self, names: Iterable[str]) -> bool:
        """Whether some of these groups' figures lack a judge's grade."""
        return any(group.total.unjudged for name in names if (group := self.group(name)))


class ReportOption(msgspec.Struct, frozen=True):
    """An option of ``agenteval report`` for a scorecard.

    What ``parse`` makes of its text is handed to the scorecard's maker under the flag's name without dashes.
    ``parse`` raises ValueError with what is wrong with the text.
    """

    flag: str
    metavar: str
    help: str
    parse: Callable[[str], object]


class RegisteredScorecard(msgspec.Struct, frozen=True):
    """A scorecard by name, imported when ``load`` or ``options`` is called.

    It is made for suites in which a grade has one of the labels ``graders``. ``settings`` are the values
    that the command line gives for its options.
    """

    name: str
    graders: frozenset[str]
    load: Callable[[], ScorecardMaker]
    options: Callable[[], Sequence[ReportOption]]
    settings: Mapping[str, Any] = {}


def relevant_scorecards(
    entries: Iterable[JournalEntry], scorecards: Iterable[RegisteredScorecard]
) -> list[RegisteredScorecard]:
    """Give the scorecards that know the label of some grade of these trials; none of them is imported."""
    # A run of somebody's own suite must not pay for the import of a benchmark.
    labels = {grade.grader for entry in entries for grade in entry.grades}
    return [registered for registered in scorecards if not labels.isdisjoint(registered.graders)]


class BrokenScorecard(UsageMistake):
    """A benchmark's scorecard that cannot be made or drawn; everything else of the run can."""


def scorecard_of(
    entries: Sequence[JournalEntry], scorecards: Iterable[RegisteredScorecard]
) -> Scorecard | None:
    """Give the first scorecard that some benchmark makes of a suite's trials with one model, else None.

    Raises BrokenScorecard where a benchmark's own code raises, or returns something else.
    """
    for registered in relevant_scorecards(entries, scorecards):
        try:
            maker = registered.load()
        except AgentEvalError as lost:
            raise BrokenScorecard(str(lost)) from None
        try:
            made = maker(entries, **registered.settings)
        # A value on the command line is wrong, which is the user's mistake and not the benchmark's.
        except AgentEvalError:
            raise
        # An author's code may raise anything.
        except Exception as raised:
            last = extract_tb(raised.__traceback__)[-1]
            reason = f"{type(raised).__name__}: {exception_text(raised)} ({last.filename}:{last.lineno})"
            raise BrokenScorecard(f"the scorecard {registered.name!r} cannot be made: {reason}") from raised
        try:
            card = _checked(made)
        except msgspec.ValidationError as mistake:
            raise BrokenScorecard(f"the scorecard {registered.name!r} cannot be drawn: {mistake}") from None
        if card is not None:
            return card
    return None


def _checked(made: object) -> Scorecard | None:
    """Give what a benchmark returned; raises ValidationError where a field is not of its type."""
    # Checked before anything is drawn: a wrong one would take all tables of the run with it.
    if made is None:
        return None
    if not isinstance(made, Scorecard):
        raise msgspec.ValidationError(f"expected a Scorecard or None; found {made!r:.80}")
    # JSON has no number that is not finite: such a figure is a text there, and refused.
    card = from_builtins(Scorecard, made.to_json())
    if not card.groups:
        raise msgspec.ValidationError("groups: expected one or more; found none")
    names = [group.name for group in card.groups]
    for name in names:
        if names.count(name) > 1:
            raise msgspec.ValidationError(f"groups: {name!r} is there twice")
    return card

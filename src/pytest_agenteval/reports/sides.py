"""The sides of a report: runs, models, prompt variants and baselines beside each other, in any number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations, product
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

from msgspec.structs import replace

from pytest_agenteval.compare.baseline_file import read_baseline
from pytest_agenteval.compare.comparison import TOLERANCE, RunComparison, SuiteComparison, compare_runs
from pytest_agenteval.compare.pairing import (
    BASE,
    Compared,
    ComparedRun,
    ModelVariant,
    compared_run,
    pair_suites,
)
from pytest_agenteval.compare.resource_figures import ResourceFigures
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.run_view import SuiteView, suite_views
from pytest_agenteval.store.journal_entry import JournalEntry, group_of
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake, nearest_names
from pytest_agenteval.text.formatting import MOST_NAME, model_label, one_line

MOST_LABEL = 20
"""Characters of a side's label; where one would be longer, letters stand for all of them."""

MOST_COMPARED = 8
"""Sides of which each pair is compared; of more, each is compared with the old one alone."""


class Side(FrozenValue, frozen=True):
    """Whatever is compared: a whole run, the trials of one model or variant of it, or a baseline.

    ``label`` is short: the part of the name that differs between the sides, else a letter. ``run`` holds the
    transcripts; it is None for the file of a baseline, which has none. ``suites`` are the side's figures.
    """

    label: str
    name: str
    run: Run | None
    compared: ComparedRun
    suites: tuple[SuiteView, ...]
    is_whole_run: bool

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        return self.compared.entries

    @property
    def resources(self) -> ResourceFigures:
        """What the side took."""
        return self.compared.resources

    def suite_entries(self, suite: SuiteView) -> list[JournalEntry]:
        """Give the side's trials of a suite with its model and variant."""
        return [entry for entry in self.entries if group_of(entry) == suite.group]


class Lane(FrozenValue, frozen=True):
    """The trials of one suite that belong together on all sides, by model and variant, None without any.

    A suite has one lane where each side has it with one model and variant, and else one for each of them.
    """

    suite: str
    whos: tuple[ModelVariant | None, ...]

    def has(self, pair: tuple[int, int]) -> bool:
        """Whether both sides of a pair have it."""
        old, new = pair
        return self.whos[old] is not None and self.whos[new] is not None


class Sides:
    """Sides in their order, the old ones first, and how each pair of them compares.

    ``legend`` says what letters stand for; it is empty where labels speak for themselves. Of three sides and
    more, verdicts are stricter: the level is shared by all pairs, so that chance alone gives any verdict in
    at most 5 % of lanes.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        legend: Sequence[str] = (),
        *,
        tolerance: float = TOLERANCE,
        comparison: RunComparison | None = None,
    ) -> None:
        self.sides, self.legend, self.tolerance = tuple(sides), tuple(legend), tolerance
        # The one of a run that has ended was made with its gates, which know its baseline.
        self._comparisons: dict[tuple[int, int], RunComparison] = {(0, 1): comparison} if comparison else {}

    def __len__(self) -> int:
        return len(self.sides)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs that are compared, by the numbers of their sides: old and new."""
        if len(self.sides) > MOST_COMPARED:
            return [(0, new) for new in range(1, len(self.sides))]
        return list(combinations(range(len(self.sides)), 2))

    def comparison(self, old: int, new: int) -> RunComparison:
        """Compare two sides by their numbers; each comparison is made once."""
        if (old, new) not in self._comparisons:
            before, after = self.sides[old], self.sides[new]
            self._comparisons[old, new] = compare_runs(
                before.compared,
                after.compared,
                compared=_what_differs(before, after),
                tolerance=self.tolerance,
                pairs=max(1, len(self.pairs)),
            )
        return self._comparisons[old, new]

    def lanes(self) -> list[Lane]:
        """Give the lanes of all suites, in the order in which the sides have them."""
        suites = dict.fromkeys(suite.suite for side in self.sides for suite in side.suites)
        return [lane for suite in suites for lane in self._lanes_of(suite)]

    def suite_view(self, side: int, lane: Lane) -> SuiteView | None:
        """Give the figures of a side in a lane."""
        who = lane.whos[side]
        views = self.sides[side].suites
        return next((view for view in views if view.group == (lane.suite, *who)), None) if who else None

    def suite_comparison(self, old: int, new: int, lane: Lane) -> SuiteComparison | None:
        """Give how two sides compare in a lane; None where they have nothing in common there."""
        for part in self.comparison(old, new).suites:
            if (part.name, part.old_who, part.new_who) == (lane.suite, lane.whos[old], lane.whos[new]):
                return part
        return None

    def _lanes_of(self, suite: str) -> Iterator[Lane]:
        groups = [[(v.model, v.variant) for v in side.suites if v.suite == suite] for side in self.sides]
        if all(len(whos) <= 1 for whos in groups):
            yield Lane(suite, tuple(whos[0] if whos else None for whos in groups))
            return
        # The newest side that has the suite gives the lanes; the others' models are paired with its own as
        # in a comparison, and those without a counterpart get lanes of their own.
        newest = max(at for at, whos in enumerate(groups) if whos)
        lanes: dict[ModelVariant, list[ModelVariant | None]] = {
            who: [None] * len(groups) for who in groups[newest]
        }
        for at, whos in enumerate(groups):
            partners = self._partners(suite, at, newest) if at != newest else {who: who for who in whos}
            for who in whos:
                lanes.setdefault(partners.get(who, who), [None] * len(groups))[at] = who
        yield from (Lane(suite, tuple(whos)) for whos in lanes.values())

    def _partners(self, suite: str, side: int, newest: int) -> dict[ModelVariant, ModelVariant]:
        old, new = self.sides[side], self.sides[newest]
        pairs_of = pair_suites(old.compared, new.compared, _what_differs(old, new))
        groups = (pairs.group for pairs in pairs_of)
        return {group.old: group.new for group in groups if group.suite == suite}


def _what_differs(old: Side, new: Side) -> Compared:
    """Say whether sides are two models, whose variants belong together, or two variants; else neither."""
    models, variants = (
        [{getattr(suite, name) for suite in side.suites} for side in (old, new)]
        for name in ("model", "variant")
    )
    if all(len(names) == 1 for names in models) and models[0] != models[1]:
        return "model" if variants[0] & variants[1] else ""
    if all(len(names) == 1 for names in variants) and variants[0] != variants[1]:
        return "variant"
    return ""


def sides_of(
    runs: Sequence[Run],
    models: Sequence[str] = (),
    variants: Sequence[str] = (),
    *,
    tolerance: float = TOLERANCE,
) -> Sides:
    """Give the sides of some runs: those models and variants that are named, else what makes them differ.

    Two runs are two sides, whatever models they have. Of one run, each model with each variant is a side; of
    more runs each run is one, unless their models differ. Raises UsageMistake where a run lacks a model or
    variant that was named.
    """
    return _sides_of([_whole(run) for run in runs], models, variants, tolerance)


def sides_of_places(
    places: Sequence[Path],
    models: Sequence[str] = (),
    variants: Sequence[str] = (),
    *,
    tolerance: float = TOLERANCE,
) -> Sides:
    """Give the sides of folders of runs and of files of baselines, as ``sides_of`` does."""
    wholes = [
        _baseline(read_baseline(place), place) if place.is_file() else _whole(load_run(place))
        for place in places
    ]
    return _sides_of(wholes, models, variants, tolerance)


class Baseline(NamedTuple):
    """The file of a baseline that has been read."""

    path: Path
    compared: ComparedRun


class SidePick(NamedTuple):
    """A side that a reader has picked: a run or the file of a baseline, or a model or variant of it.

    An empty ``model`` or ``variant`` is any of them.
    """

    place: Run | Baseline
    model: str = ""
    variant: str = ""


def sides_of_picks(picks: Sequence[SidePick]) -> Sides:
    """Give the sides that were picked, in their order; whole runs alone are as in ``sides_of``.

    Raises UsageMistake for a model or variant that the run does not have, and is not going to have.
    """
    wholes = {id(pick.place): _whole_of(pick.place) for pick in picks}
    for pick in picks:
        whole = wholes[id(pick.place)]
        header = whole.run.header
        coming = [model.name for model in header.models], [variant or BASE for variant in header.variants]
        for kind, name, more in zip(("model", "variant"), (pick.model, pick.variant), coming, strict=True):
            if name and name not in more:
                _check_name(whole, kind, name)
    if not any(pick.model or pick.variant for pick in picks):
        return _sides_of(list(wholes.values()), (), (), TOLERANCE)
    parts: dict[int, _Part] = {}
    for place, whole in wholes.items():
        own = [at for at, pick in enumerate(picks) if id(pick.place) == place]
        chosen = [_groups_of(whole, picks[at].model, picks[at].variant) for at in own]
        parts |= dict(zip(own, _chosen_parts(whole, chosen), strict=True))
    return _labelled([parts[at] for at in range(len(picks))], TOLERANCE)


def _whole_of(place: Run | Baseline) -> _Part:
    return _whole(place) if isinstance(place, Run) else _baseline(place.compared, place.path)


def _sides_of(
    wholes: Sequence[_Part], models: Sequence[str], variants: Sequence[str], tolerance: float
) -> Sides:
    parts = list(wholes)
    if models or variants:
        parts = [part for whole in wholes for part in _named_parts(whole, models, variants)]
    elif _are_split(wholes):
        parts = [part for whole in wholes for part in _parts_of(whole)]
    return _labelled(parts, tolerance)


def with_baseline(old: ComparedRun, old_run: Run | None, run: Run, comparison: RunComparison) -> Sides:
    """Give a run beside its baseline, with the comparison that judged it."""
    before = replace(_whole(old_run), compared=old) if old_run else _baseline(old)
    sides = _labelled([before, _whole(run)], comparison.tolerance)
    return Sides(sides.sides, sides.legend, tolerance=comparison.tolerance, comparison=comparison)


class _Part(FrozenValue, frozen=True):
    """A side before it has a label."""

    run: Run
    compared: ComparedRun
    suites: tuple[SuiteView, ...]
    is_whole_run: bool = True
    is_baseline: bool = False

    @property
    def who(self) -> str:
        """The models with their variants, those that an agent chose by itself included."""
        return ", ".join(dict.fromkeys(suite.who for suite in self.suites))

    @property
    def models(self) -> str:
        return ", ".join(dict.fromkeys(replace(suite, variant="").who for suite in self.suites))

    @property
    def variants(self) -> str:
        return ", ".join(dict.fromkeys(suite.variant or BASE for suite in self.suites))


def _whole(run: Run) -> _Part:
    return _Part(run, compared_run(run), suite_views(run))


def _baseline(old: ComparedRun, path: Path | None = None) -> _Part:
    """Give the side of a baseline's file, which has scores and no transcripts."""
    name = path.stem if path else old.name
    run = Run(path or Path(old.name), RunHeader("", name=name), (), old.entries)
    return _Part(run, old, suite_views(run), is_baseline=True)


def _are_split(wholes: Sequence[_Part]) -> bool:
    """Whether the models of runs are sides of their own."""
    if len(wholes) == 2:
        return False
    groups = [{view.group for view in whole.suites} for whole in wholes]
    several = [len(own) > len({suite for suite, _, _ in own}) for own in groups]
    return any(several) and (len(wholes) == 1 or any(own != groups[0] for own in groups))


def _parts_of(whole: _Part) -> Iterator[_Part]:
    """Give a part for each model with each variant; a run without trials is one."""
    if not whole.suites:
        yield whole
    for model, variant in dict.fromkeys((view.model, view.variant) for view in whole.suites):
        yield _part(whole, {(model, variant)})


def _named_parts(whole: _Part, models: Sequence[str], variants: Sequence[str]) -> Iterator[_Part]:
    for kind, names in (("model", models), ("variant", variants)):
        for name in names:
            _check_name(whole, kind, name)
    chosen = [_groups_of(whole, *names) for names in product(models or [""], variants or [""])]
    yield from _chosen_parts(whole, [groups for groups in chosen if groups])


def _check_name(whole: _Part, kind: str, name: str) -> None:
    """Raise UsageMistake where a run has no such model or variant; it shows the right ones."""
    known = list(dict.fromkeys(getattr(view, kind) or BASE for view in whole.suites))
    if name not in known:
        near = nearest_names(name, known) or "none"
        raise UsageMistake(f"{whole.compared.name} has no {kind} {name!r}; it has {near}")


def _groups_of(whole: _Part, model: str, variant: str) -> set[ModelVariant]:
    """Give the models and variants that are meant; an empty name is any of them."""
    groups = {(view.model, view.variant) for view in whole.suites}
    return {who for who in groups if model in ("", who[0]) and variant in ("", who[1] or BASE)}


def _chosen_parts(whole: _Part, chosen: Sequence[set[ModelVariant]]) -> Iterator[_Part]:
    """Give parts of a run, which then has the trials of these parts alone."""
    run = _restricted(whole.run, set().union(*chosen))
    suites = suite_views(run)
    rest = replace(whole, run=run, suites=suites, is_whole_run=len(suites) == len(whole.suites))
    yield from (_part(rest, groups) for groups in chosen)


def _restricted(run: Run, chosen: set[ModelVariant]) -> Run:
    """Give a run with the trials of some models and variants alone: no view of it shows any other."""

    def are_chosen(model: str, variant: str) -> bool:
        return (model, variant) in chosen

    return Run(
        run.folder,
        run.header,
        tuple(group for group in run.planned if are_chosen(group.model, group.variant)),
        tuple(entry for entry in run.entries if are_chosen(entry.key.model, entry.key.variant)),
        tuple(each for each in run.begun if are_chosen(each.key.model, each.key.variant)),
        run.odd,
        run.looks,
        tuple(trial for trial in run.not_run if are_chosen(trial.key.model, trial.key.variant)),
    )


def _part(whole: _Part, chosen: set[ModelVariant]) -> _Part:
    """Give the trials of some models, each with a variant."""
    views = tuple(view for view in whole.suites if (view.model, view.variant) in chosen)
    groups = {view.group for view in views}
    entries = tuple(entry for entry in whole.compared.entries if group_of(entry) in groups)
    return replace(
        whole,
        compared=replace(whole.compared, entries=entries),
        suites=views,
        is_whole_run=whole.is_whole_run and views == whole.suites,
    )


def _labelled(parts: Sequence[_Part], tolerance: float) -> Sides:
    """Give each part a label: what differs between the parts, a letter where that is long."""
    names = [_name(part) for part in parts]
    labels, legend = list(map(_short, _differing(parts))), []
    if len(set(labels)) < len(labels) or any(len(label) > MOST_LABEL for label in labels):
        labels = [_letter(at) for at in range(len(parts))]
        is_one_run = len({part.run.folder for part in parts}) == 1
        stand_for = [part.who if is_one_run and part.who else _name(part) for part in parts]
        legend = [f"{label}: {_short(text)}" for label, text in zip(labels, stand_for, strict=True)]
    sides = [
        Side(
            label=label,
            name=name,
            run=None if part.is_baseline else part.run,
            compared=part.compared,
            suites=part.suites,
            is_whole_run=part.is_whole_run,
        )
        for label, name, part in zip(labels, names, parts, strict=True)
    ]
    return Sides(sides, legend, tolerance=tolerance)


def _short(text: str) -> str:
    return one_line(text, MOST_NAME)


def _name(part: _Part) -> str:
    run = f"baseline {part.run.name}" if part.is_baseline else part.run.name
    return _short(f"{run}, {part.who}" if part.who else run)


def _differing(parts: Sequence[_Part]) -> list[str]:
    """Name each part by its model, variant and run, as far as these differ."""
    several_models = len({part.models for part in parts}) > 1
    several_variants = len({part.variants for part in parts}) > 1
    several_runs = len({(part.run.folder, part.is_baseline) for part in parts}) > 1
    # One model in each of several runs names them: which run it is stands in the legend of the report.
    by_who = len({(part.models, part.variants) for part in parts}) == len(parts)
    labels = []
    for part in parts:
        who = part.models if several_models else ""
        if several_variants:
            who = model_label(who, part.variants) if who and part.variants != BASE else who or part.variants
        labels.append(" ".join(filter(None, (who, _run_label(part) if several_runs and not by_who else ""))))
    return labels if all(labels) else [part.who or _run_label(part) for part in parts]


def _run_label(part: _Part) -> str:
    """Name a run by when it started, and one with a name of its own, or a baseline, by that."""
    if part.is_baseline:
        return "baseline"
    started = part.run.header.started_at
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return part.run.name
    # Runs without a name of their own begin with the moment at which they started.
    if not part.run.name.startswith(moment.strftime("%Y%m%d")):
        return part.run.name
    return f"{moment.astimezone():%d %b %H:%M}".lstrip("0")


def _letter(number: int) -> str:
    more, last = divmod(number, len(ascii_uppercase))
    return f"{_letter(more - 1) if more else ''}{ascii_uppercase[last]}"

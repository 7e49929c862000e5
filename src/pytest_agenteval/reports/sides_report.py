"""Sides beside each other on a terminal, as Markdown and as JSON: tables of suites, and which beat which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_agenteval.compare.comparison import SuiteComparison
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.reports.comparison_report import FORMAT, comparison_json, verdict_lines
from pytest_agenteval.reports.comparison_text import bucket_name, format_p
from pytest_agenteval.reports.page_index import side_figures
from pytest_agenteval.reports.resource_text import cost_cell, tokens_cell, turn_cell, wall_cell
from pytest_agenteval.reports.run_view import SuiteView
from pytest_agenteval.reports.sides import MOST_COMPARED, Lane, Side, Sides
from pytest_agenteval.reports.suite_tables import (
    interval_cell,
    judge_caveat,
    mean_cell,
    tasks_passed,
    trials_cell,
)
from pytest_agenteval.reports.tables import ReportTable, TableColumn, TableNote, stacked_lines, table_markdown
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    StyledLine,
    clamp_width,
    escape_markdown,
    first_few,
    format_figure,
    model_label,
    one_line,
    pluralize,
    wrapped_lines,
)

MOST_BUCKETS = 5
"""Buckets in which one side beats another, of a suite."""

MOST_SENTENCES = 12


class _Standing(NamedTuple):
    """A side in a lane, by its number."""

    at: int
    side: Side
    view: SuiteView


def sides_lines(sides: Sides, width: int) -> Iterator[StyledLine]:
    """Give a table of each suite, the best side first, with who beats whom, and what letters stand for."""
    width = clamp_width(width)
    yield from stacked_lines(sides_tables(sides), width)
    for line in sides.legend:
        yield from wrapped_lines(line, width, "dim", indent="")


def sides_markdown(sides: Sides) -> str:
    parts = [table_markdown(table) for table in sides_tables(sides)]
    parts += ["\n".join(f"- {escape_markdown(line)}" for line in sides.legend)] if sides.legend else []
    return "\n\n".join(parts) + "\n"


def sides_tables(sides: Sides) -> Iterator[ReportTable]:
    """Give a table for each suite and lane: a row for each side, and its verdicts as notes."""
    lanes = sides.lanes()
    for lane in lanes:
        standings = _standings(sides, lane)
        if not standings:
            continue
        totals = [standing.view.total for standing in standings]
        spent = [total.spent for total in totals]
        columns: tuple[TableColumn, ...] = (
            TableColumn("score", tuple(map(mean_cell, totals))),
            TableColumn("95 %", tuple(map(interval_cell, totals)), spare=3),
            TableColumn("tasks passed", tuple(map(tasks_passed, totals))),
            TableColumn("trials", tuple(map(trials_cell, totals)), spare=1),
            TableColumn("tokens", tuple(tokens_cell(part.tokens) for part in spent), spare=2),
            TableColumn("cost", tuple(cost_cell(part.cost) for part in spent), spare=5),
            TableColumn("wall", tuple(wall_cell(total.wall) for total in totals), spare=4),
        )
        turns = tuple(turn_cell(total.turns) for total in totals)
        if any(turns):
            columns += (TableColumn("turn p50/p95", tuple(cell or NOT_KNOWN for cell in turns), spare=6),)
        names = tuple(standing.side.label for standing in standings)
        caveats = [
            f"{standing.side.label}: {judge_caveat(standing.view.total)}"
            for standing in standings
            if standing.view.total.lacking
        ]
        notes = tuple(map(TableNote, lane_sentences(sides, lane)))
        title = f"{lane_name(lane, lanes)}: {pluralize(len(standings), 'side')}, best first"
        yield ReportTable(title, "side", names, (columns,), notes, tuple(caveats))


def lane_name(lane: Lane, lanes: Sequence[Lane]) -> str:
    """Name a lane by its suite, with its newest model where the suite has several lanes."""
    name = one_line(lane.suite, MOST_NAME)
    who = next((model_label(*who) for who in reversed(lane.whos) if who), "")
    several = [other.suite for other in lanes].count(lane.suite) > 1
    return f"{name} with {one_line(who, MOST_NAME)}" if several and who else name


def _standings(sides: Sides, lane: Lane) -> list[_Standing]:
    """Give the sides that have a lane, best first."""
    views = [(at, side, sides.suite_view(at, lane)) for at, side in enumerate(sides.sides)]
    standings = [_Standing(at, side, view) for at, side, view in views if view is not None]
    return sorted(standings, key=lambda each: (each.view.total.score is None, -(each.view.total.score or 0)))


def verdict_sentences(sides: Sides) -> list[str]:
    """Say which sides beat which, a sentence for each that does; with its suite where there are several."""
    lanes = sides.lanes() if len(sides) > 1 else []
    return [
        f"{lane_name(lane, lanes)}: {sentence}" if len(lanes) > 1 else sentence
        for lane in lanes
        for sentence in lane_sentences(sides, lane)
    ]


def verdict_texts(sides: Sides) -> list[str]:
    """Say which sides beat which, and what letters stand for, where no table of the sides says it."""
    sentences = verdict_sentences(sides)
    return [*sentences, *sides.legend] if sentences else []


def side_verdict_lines(sides: Sides, width: int) -> list[StyledLine]:
    """Give the verdicts between the sides of one run, for the head of its screen; nothing for one side."""
    lines = [
        line
        for text in verdict_texts(sides)
        for line in wrapped_lines(text, width, "dim" if text in sides.legend else "bold", indent="")
    ]
    return [*lines, StyledLine("")] if lines else []


def lane_sentences(sides: Sides, lane: Lane) -> list[str]:
    """Say which sides beat which in a suite, in which buckets, and of which sides nothing is known."""
    parts = {pair: sides.suite_comparison(*pair, lane) for pair in sides.pairs}
    compared = {pair: part for pair, part in parts.items() if part is not None and part.suite is not None}
    wins: dict[int, list[tuple[int, Change]]] = {}
    for (old, new), part in compared.items():
        if part.suite and part.suite.verdict in ("better", "worse"):
            winner, loser = (new, old) if part.suite.verdict == "better" else (old, new)
            wins.setdefault(winner, []).append((loser, part.suite))
    order = {standing.at: place for place, standing in enumerate(_standings(sides, lane))}
    sentences = [
        f"{sides.sides[winner].label} beats {_losers(sides, losers)}"
        for winner, losers in sorted(wins.items(), key=lambda each: order.get(each[0], 0))
    ]
    for words in OPEN_WORDS:
        pairs = [pair for pair, part in compared.items() if part.suite and _open_words(part.suite) == words]
        if pairs:
            link = " between " if words == TOO_FEW else ": "
            sentences.append(f"{words}{link}{_pair_names(sides, pairs)}")
    if len(sides) > 1:
        sentences += _gaps(sides, lane, compared)
    sentences += _bucket_sentences(sides, compared)
    return first_few(sentences, MOST_SENTENCES, "and {} more")


def _losers(sides: Sides, losers: Sequence[tuple[int, Change]]) -> str:
    """Name the sides that one beats, those of these tasks alone last, with the largest p of each kind."""
    texts = []
    for of_these_tasks in (False, True):
        changes = [
            (sides.sides[at].label, each) for at, each in losers if each.of_these_tasks == of_these_tasks
        ]
        if changes:
            p = format_p(max(change.p_of_verdict for _, change in changes))
            labels, where = (
                _joined(label for label, _ in changes),
                " on these tasks" if of_these_tasks else "",
            )
            scores = f"{_scores(changes[0][1])}, " if len(losers) == 1 else ""
            texts.append(
                f"{labels}{where} ({scores}p {p}{' or less' if len(changes) > 1 and p[0] != '<' else ''})"
            )
    return ", and ".join(texts)


IDENTICAL, UNDONE = "every trial scored the same", "cannot tell, because of errored trials"
OPEN, TOO_FEW = "cannot tell", "cannot tell: too few differences"
OPEN_WORDS = (IDENTICAL, OPEN, UNDONE, TOO_FEW)
"""Why neither of two sides beats the other."""


def _open_words(change: Change) -> str:
    """Say why neither side beats the other; empty where one does."""
    if change.verdict in ("better", "worse"):
        return ""
    if change.verdict == "identical":
        return IDENTICAL
    if change.undone:
        return UNDONE
    return OPEN if change.testable else TOO_FEW


def _gaps(sides: Sides, lane: Lane, compared: Mapping[tuple[int, int], SuiteComparison]) -> Iterator[str]:
    """Say which sides and pairs of a suite cannot be compared, and which on some of their tasks alone."""
    many = len(sides) > MOST_COMPARED
    if many:
        yield f"of {len(sides)} sides, each is compared with {sides.sides[0].label} alone"
    if not compared:
        which = f"no side and {sides.sides[0].label}" if many else "no two sides"
        yield f"{which} have a task in common that can be compared"
        return
    pairs = [pair for pair in sides.pairs if lane.has(pair)]
    reached = {at for pair in compared for at in pair}
    for at in sorted({at for pair in pairs for at in pair} - reached):
        view = sides.suite_view(at, lane)
        why = "no task is the same on another side" if view and view.total.mean else "it has no scores"
        yield f"{sides.sides[at].label} cannot be compared: {why}"
    apart = [pair for pair in pairs if pair not in compared and reached.issuperset(pair)]
    if apart:
        yield f"no task in common that can be compared: {_pair_names(sides, apart)}"
    partial: dict[str, list[tuple[int, int]]] = {}
    for pair, part in compared.items():
        left_out = len({obstacle.task for obstacle in part.obstacles})
        if left_out:
            over = f"compared over {len(part.tasks)} of {pluralize(len(part.tasks) + left_out, 'task')} only"
            partial.setdefault(over, []).append(pair)
    yield from (f"{over}: {_pair_names(sides, own)}" for over, own in partial.items())


def _pair_names(sides: Sides, pairs: Sequence[tuple[int, int]]) -> str:
    """Name pairs of sides: ``a and b, b and c``; sides of which all pairs are meant stand together."""
    groups = list(_groups_of_pairs(pairs))
    names = [_joined((sides.sides[at].label for at in group), "and") for group in groups]
    return (", " if all(len(group) == 2 for group in groups) else "; ").join(names)


def _groups_of_pairs(pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Give sides of which all pairs are among these, until each pair is in some group."""
    left, members = list(pairs), sorted({at for pair in pairs for at in pair})
    while left:
        group = list(left[0])
        for at in members:
            if at not in group and all(tuple(sorted((at, other))) in pairs for other in group):
                group.append(at)
        yield sorted(group)
        left = [pair for pair in left if not set(pair) <= set(group)]


def _bucket_sentences(sides: Sides, compared: dict[tuple[int, int], SuiteComparison]) -> list[str]:
    """Say which side beats which in buckets, where the whole suite does not say so already."""
    found: list[tuple[float, str]] = []
    for (old, new), part in compared.items():
        whole = part.suite.verdict if part.suite else ""
        for change in part.buckets:
            if change.verdict in ("better", "worse") and change.verdict != whole:
                winner, loser = (new, old) if change.verdict == "better" else (old, new)
                text = (
                    f"in {bucket_name(change)} {sides.sides[winner].label} beats "
                    f"{sides.sides[loser].label} ({_evidence(change)})"
                )
                found.append((change.p, text))
    texts = [text for _, text in sorted(found, key=lambda each: each[0])]
    return first_few(texts, MOST_BUCKETS, "and in {} more buckets")


def _evidence(change: Change) -> str:
    on_these = " on these tasks" if change.of_these_tasks else ""
    return f"{_scores(change)}{on_these}, p {format_p(change.p_of_verdict)}"


def _scores(change: Change) -> str:
    low, high = sorted((change.old, change.new))
    return f"{format_figure(high)} to {format_figure(low)}"


def _joined(texts: Iterable[str], word: str = "and") -> str:
    """Join texts as a sentence does: ``a, b and c``."""
    *others, last = texts
    return f"{', '.join(others)} {word} {last}" if others else last


def against_lines(sides: Sides, old: int, width: int, verbosity: int) -> Iterator[StyledLine]:
    """Give each side's comparison with the old one, in brief or, with ``verbosity`` 1, at length."""
    for new, side in enumerate(sides.sides):
        if new != old:
            yield StyledLine("")
            yield from wrapped_lines(
                f"{side.label} against {sides.sides[old].label}", width, "bold", indent=""
            )
            # The sentence names the buckets that changed: a list of them would say it again.
            yield from verdict_lines(sides.comparison(old, new), width, verbosity, buckets=False)


def sides_document(sides: Sides) -> dict[str, Any]:
    """Give the document of more than two sides."""
    return {"v": FORMAT, "sides": sides_json(sides), "comparisons": comparisons_json(sides)}


def sides_json(sides: Sides) -> list[dict[str, Any]]:
    """Give the sides: each with its run, what of it the side has, and figures over all of that."""
    return [
        {
            "label": side.label,
            "name": side.name,
            "run": side.run.name if side.run else "",
            "path": str(side.run.folder) if side.run else "",
            "groups": [
                {"suite": view.suite, "model": view.model, "variant": view.variant} for view in side.suites
            ],
            "figures": side_figures(side),
        }
        for side in sides.sides
    ]


def comparisons_json(sides: Sides) -> list[dict[str, Any]]:
    """Give every pair of sides that is compared, by the numbers of its sides, with all figures."""
    return [
        {"old_side": old, "new_side": new, "comparison": comparison_json(sides.comparison(old, new))}
        for old, new in sides.pairs
    ]

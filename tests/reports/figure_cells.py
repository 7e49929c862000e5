"""How the figures of a document are written, by the package's own functions: the cells of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.compare.resource_figures import TurnTimes
from pytest_agenteval.records.plan import own_label
from pytest_agenteval.records.transcript import Figure, format_cost, format_seconds, format_tokens
from pytest_agenteval.reports.resource_text import cost_cell, tokens_cell, turn_cell
from pytest_agenteval.text.formatting import (
    MOST_NAME,
    NOT_KNOWN,
    format_ends,
    format_figure,
    model_label,
    one_line,
    pluralize,
)

Json: TypeAlias = dict[str, Any]


class Row(NamedTuple):
    """A row of a table: its name, and a cell for each column."""

    name: str
    cells: tuple[str, ...]


class Table(NamedTuple):
    """A table that has to be printed: the titles of its columns, and its rows in their order."""

    titles: tuple[str, ...]
    rows: tuple[Row, ...]


def figure(value: float | None, lacking: int = 0) -> str:
    """Write a score, marked where trials lack a judge's grade."""
    return format_figure(value) + ("*" if lacking and value is not None else "")


def score(figures: Json) -> str:
    """Write the mean score."""
    return figure(figures["score"], figures["without_judge"])


def interval(figures: Json) -> str:
    """Write the interval of the score."""
    return NOT_KNOWN if figures["low"] is None else format_ends(figures["low"], figures["high"])


def passed(figures: Json) -> str:
    """Write how many tasks passed, marked where a judge could undo it."""
    return f"{figures['tasks_passed']}{'*' if figures['unproven'] else ''}"


def passed_of(figures: Json) -> str:
    """Write how many tasks passed, of how many that were decided."""
    return f"{passed(figures)} of {figures['tasks_decided']}"


def trials(figures: Json) -> str:
    """Write how many trials are averaged, of how many planned ones."""
    return f"{figures['averaged']} of {figures['planned']}"


def sum_of(spent: Json, name: str, unknown: str) -> Figure:
    """Give a sum with the number of its unknown parts."""
    return Figure(spent[name] or 0, spent[unknown])


def tokens_of(spent: Json) -> Figure:
    """Give the tokens that agents took."""
    return sum_of(spent, "tokens", "tokens_untold")


def cost_of(spent: Json) -> Figure:
    """Give what agents cost."""
    return sum_of(spent, "cost_usd", "unpriced")


def time_of(spent: Json) -> Figure:
    """Give how long agents took."""
    return sum_of(spent, "seconds", "untimed")


def wall_of(spent: Json) -> Figure:
    """Give the time that passed."""
    return sum_of(spent, "wall_seconds", "wall_untimed")


def turns(spent: Json) -> str:
    """Write how long a turn is, empty where nothing is to be said."""
    return turn_cell(TurnTimes(spent["turns"], spent["turns_untimed"], spent["turn_p50"], spent["turn_p95"]))


def known(seconds: Figure, otherwise: str = "unknown") -> str:
    """Write a time, in one word where nothing of it is known."""
    return otherwise if seconds.known_part is None else format_seconds(seconds)


def took_texts(spent: Json, *, with_wall: bool = True) -> list[str]:
    """Write what was taken as a row of texts."""
    texts = [f"wall {known(wall_of(spent))}"] if with_wall else []
    texts.append(f"agents {known(time_of(spent))}")
    if tokens_of(spent) or cost_of(spent):
        texts += [format_tokens(tokens_of(spent)), format_cost(cost_of(spent))]
    return [*texts, *([f"turn p50/p95 {turns(spent)}"] if turns(spent) else [])]


def group_names(document: Json, row: Json, suite: str) -> tuple[str, str]:
    """Give the suite of a row, and its model with its variant as reports name it."""
    own = {
        name
        for trial in document["trials"]
        if (trial["run"], trial["suite"], trial["model"]) == (row["run"], suite, row["model"])
        and trial["variant"] == row["variant"]
        for name in trial["own_models"]
    }
    label = own_label(row["model"], sorted(own)) if own and row["model"] in OWN else row["model"]
    return suite, model_label(label, row["variant"])


OWN = ("own", "rules", "nop", "oracle", "scripted")
"""Models beside which those are named that an agent calls by itself."""


def buckets_table(row: Json) -> Table:
    """Give the table of a suite's buckets, as ``-v`` and Markdown have it."""
    rows = [*row["buckets"].items(), ("all", row["all"])]
    rows = rows if len(row["buckets"]) != 1 else list(row["buckets"].items())
    k = row["all"]["k"]
    titles = ["bucket", "tasks", "passed", "score", "95 %", "trials", "full", "pass@1"]
    titles += [f"pass^{k}", f"pass@{k}"] if k > 1 else []
    return Table(tuple(titles), tuple(Row(name_of(name), _bucket_cells(each, k)) for name, each in rows))


def name_of(bucket: str) -> str:
    """Write a name as tables do."""
    return one_line(bucket, MOST_NAME) or NOT_KNOWN


def _bucket_cells(figures: Json, k: int) -> tuple[str, ...]:
    rates = ("pass_1", "pass_hat_k", "pass_at_k") if k > 1 else ("pass_1",)
    return (
        str(figures["tasks"]),
        passed(figures),
        score(figures),
        interval(figures),
        trials(figures),
        figure(figures["full"], figures["without_judge"]),
        *(figure(figures[rate], figures["unproven"]) for rate in rates),
    )


def suites_table(labels: Sequence[str], rows: Sequence[Json]) -> Table:
    """Give the table of all suites of a run: the models of each in the order of their scores."""
    names = list(dict.fromkeys(label.partition("[")[0] for label in labels))
    pairs = sorted(
        zip(labels, rows, strict=True),
        key=lambda each: (names.index(each[0].partition("[")[0]), -(each[1]["all"]["score"] or 0)),
    )
    labels, rows = [label for label, _ in pairs], [row for _, row in pairs]
    totals = [row["all"] for row in rows]
    titles = ["suite", "score", "95 %", "tasks passed", "trials", "agents"]
    columns = [[score(all_), interval(all_), passed_of(all_), trials(all_)] for all_ in totals]
    for cells, all_ in zip(columns, totals, strict=True):
        cells.append(known(time_of(all_["spent"])))
    for more, texts in _optional_columns(totals):
        titles.append(more)
        for cells, text in zip(columns, texts, strict=True):
            cells.append(text or NOT_KNOWN)
    return Table(tuple(titles), tuple(Row(*pair) for pair in zip(labels, map(tuple, columns), strict=True)))


def _optional_columns(totals: Sequence[Json]) -> Iterator[tuple[str, list[str]]]:
    """Give columns that are there only where one of the suites has something in it."""
    spent = [all_["spent"] for all_ in totals]
    if any(tokens_of(each) or cost_of(each) for each in spent):
        yield "tokens", [tokens_cell(tokens_of(each)) for each in spent]
        yield "cost", [cost_cell(cost_of(each)) for each in spent]
    if any(map(turns, spent)):
        yield "turn p50/p95", list(map(turns, spent))


def suite_lines(labels: Sequence[str], rows: Sequence[Json]) -> list[Row]:
    """Give the rows of suites on a run's screen, whose cells explain themselves."""
    totals = [row["all"] for row in rows]
    beside = dict(_optional_columns(totals))
    lines = []
    for at, (label, all_) in enumerate(zip(labels, totals, strict=True)):
        cells = [score(all_), f"({interval(all_)})"] if all_["low"] is not None else [score(all_)]
        decided = all_["tasks_decided"]
        undecided = f"0 of {pluralize(all_['tasks'], 'task')} decided"
        cells.append(f"{passed_of(all_)} {plural_of(decided, 'task')} passed" if decided else undecided)
        cells.append(f"{trials(all_)} {plural_of(all_['planned'], 'trial')}")
        if len(rows) > 1:
            cells.append(f"agents {known(time_of(all_['spent']))}")
            if "tokens" in beside:
                cells.append(format_tokens(tokens_of(all_["spent"])))
                # Where no suite cost anything, the line above says so.
                costs = any(cost_of(each["spent"]) for each in totals)
                cells += [format_cost(cost_of(all_["spent"]))] if costs else []
            turn = beside.get("turn p50/p95", [""] * len(rows))[at]
            cells.append(f"turn {turn}" if turn else "")
        lines.append(Row(label, tuple(filter(None, cells))))
    return lines


def plural_of(number: int, thing: str) -> str:
    """Write the name of one or of several things."""
    return pluralize(number, thing).split()[1]


def sides_table(standings: Sequence[tuple[str, Json]]) -> Table:
    """Give the table of a suite's sides, by label, the best first."""
    ordered = sorted(standings, key=lambda each: (each[1]["score"] is None, -(each[1]["score"] or 0)))
    titles = ["side", "score", "95 %", "tasks passed", "trials", "tokens", "cost", "wall"]
    has_turns = any(turns(figures["spent"]) for _, figures in ordered)
    rows = []
    for label, figures in ordered:
        spent = figures["spent"]
        cells = [score(figures), interval(figures), passed_of(figures), trials(figures)]
        cells += [tokens_cell(tokens_of(spent)), cost_cell(cost_of(spent))]
        cells += [known(wall_of(spent), NOT_KNOWN), *([turns(spent) or NOT_KNOWN] if has_turns else [])]
        rows.append(Row(label, tuple(cells)))
    return Table((*titles, *(["turn p50/p95"] if has_turns else [])), tuple(rows))


def board_table(board: Json) -> Table:
    """Give the table of a board by bucket; its columns are named by numbers, whatever stands above them."""
    rows = board["rows"]
    buckets = dict.fromkeys(name for row in rows for name in row["buckets"])
    titles = ("bucket", *(str(at) for at, _ in enumerate(rows, 1)))
    lines = [
        Row(title, tuple(cell(row["all"]) for row in rows))
        for title, cell in (("score", score), ("95 %", interval), ("trials", trials))
    ]
    lines += [Row(name_of(name), tuple(_board_cell(row, name) for row in rows)) for name in buckets]
    return Table(titles, tuple(lines))


def _board_cell(row: Json, name: str) -> str:
    figures = row["buckets"].get(name)
    if figures is None:
        return NOT_KNOWN
    return score(figures) + (f" {interval(figures)}" if figures["low"] is not None else "")

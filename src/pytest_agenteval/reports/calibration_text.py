"""A calibration as plain lines for a terminal, from what its JSON file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.reports.formatting import format_cost, format_figure, one_line, pluralize
from pytest_agenteval.reports.tables import Column, ReportTable, body_lines
from pytest_agenteval.reports.text_width import INDENT, WIDEST, StyledLine, clamp_width, shorten_middle, wrap

SHOWN = 5
"""Disagreements that are told; the page has more."""
MOST_NAME = 20
MOST_SAID = 160
PANEL = "all judges together"

SCORED_METRIC = "scored"
"""The threshold that is about a number of examples, and no figure."""

JsonObject = Mapping[str, Any]


FIGURES = {
    "spearman": "spearman",
    "pearson": "pearson",
    "mae": "MAE",
    "within": "within",
    "kappa": "kappa",
    "alpha": "alpha",
}
"""The figures of the table, each with its title; the file and the page have more."""


def calibration_lines(data: JsonObject, page: str, width: int = 80) -> list[StyledLine]:
    """Give the table of a calibration, its thresholds, its largest disagreements and where its page is."""
    width = clamp_width(width)
    lines = [StyledLine(shorten_middle(_title(data), width), "bold"), StyledLine(INDENT + _against(data))]
    for judge in dict.fromkeys(each["judge"] for each in data["measured"]):
        lines += [StyledLine(INDENT + shorten_middle(judge_label(data, judge), width - len(INDENT)))]
        lines += body_lines(_table(data, judge), width, indent=2 * INDENT)
        lines += [
            StyledLine(piece, "dim") for text in _remarks(data, judge) for piece in wrap(INDENT + text, width)
        ]
    for text in _together(data):
        lines += [StyledLine(piece) for piece in wrap(INDENT + text, width)]
    lines += _thresholds(data, width)
    lines += _disagreements(data, width)
    return [*lines, StyledLine(f"{INDENT}page: {page}")]


def judge_label(data: JsonObject, judge: str) -> str:
    """Say which model a judge is; all of them together where the name is empty."""
    if not judge:
        return f"{PANEL} ({data['combine']})"
    return f"judge {judge_model_label(next(each for each in data['judges'] if each['name'] == judge))}"


def judge_model_label(judge: JsonObject) -> str:
    """Say what model a judge is: ``claude (anthropic/claude-x)``."""
    name, id = (one_line(judge[key], 3 * MOST_NAME) for key in ("name", "id"))
    if judge["offline"]:
        return f"{name} (offline, no LLM)"
    return name if name == id else f"{name} ({id})"


def format_threshold(wanted: JsonObject) -> str:
    """Say what a threshold asks for: ``spearman of coherence 0.7 or more``."""
    side = "or less" if wanted["metric"] == "mae" else "or more"
    return f"{wanted['metric']} of {wanted['dimension']} {wanted['threshold']:g} {side}"


def format_shortfall(wanted: JsonObject) -> str:
    """Say what a threshold asks for and what was found, with so many digits that they differ."""
    found, text = wanted["found"], format_threshold_value(wanted)
    if (
        wanted["metric"] != SCORED_METRIC
        and found["value"] is not None
        and float(format_statistic(found["value"])) == wanted["threshold"]
    ):
        text = f"{found['value']:.6f}"
    return f"{format_threshold(wanted)} (found {text})"


def format_unreadable(judge: JsonObject) -> str:
    """Say how many of a judge's replies could not be read, and why."""
    unread = judge["unread"]
    replies = pluralize(unread["asks"], "reply")
    problem = one_line(unread["problem"], MOST_SAID)
    return f"{one_line(judge['name'], MOST_NAME)}: {unread['count']} of {replies} cannot be read: {problem}"


def format_statistic(value: float | None) -> str:
    """Write a figure, which may lie below 0; a hair below is 0."""
    return format_figure(abs(value) if value is not None and -0.005 < value < 0 else value)


def format_threshold_value(wanted: JsonObject) -> str:
    """Say what was found of what a threshold is about: a figure, or a number of examples."""
    found = wanted["found"]
    is_count = wanted["metric"] == SCORED_METRIC and found["value"] is not None
    return f"{found['value']:.0f}" if is_count else format_estimate(found)


def format_estimate(found: JsonObject) -> str:
    """Say what was found: ``0.55, 95 % 0.31 to 0.72``, or why nothing was."""
    if found["value"] is None:
        return f"none: {found['reason']}"
    value = format_statistic(found["value"])
    return f"{value}, {format_estimate_interval(found, ' to ')}" if "low" in found else value


def format_estimate_interval(found: JsonObject, between: str = "-") -> str:
    """Write the interval of a figure, which may reach below 0."""
    if "low" not in found:
        return ""
    if found["low"] < 0 and between == "-":
        between = ".."
    return f"{format_statistic(found['low'])}{between}{format_statistic(found['high'])}"


def _title(data: JsonObject) -> str:
    rubric = data["rubric"]
    return one_line(f"calibration {data['id']} (rubric {rubric['name']} {rubric['version']})", WIDEST)


def _against(data: JsonObject) -> str:
    """Say what judges are compared with: where labels come from is never left out."""
    asked = f", each asked about {data['repeats']} times" if data["repeats"] > 1 else ""
    return f"compared with {data['labels']['said']}{asked}"


def _table(data: JsonObject, judge: str) -> ReportTable:
    """Give a row for each figure and a column for each dimension."""
    columns = tuple(
        Column(shorten_middle(each["dimension"], MOST_NAME), (str(each["scored"]), *_figure_cells(each)))
        for each in data["measured"]
        if each["judge"] == judge
    )
    return ReportTable("", "value, 95 %", ("scored", *FIGURES.values()), (columns,))


def _figure_cells(measured: JsonObject) -> Iterator[str]:
    for metric in FIGURES:
        figure = measured["figures"][metric]
        yield f"{format_statistic(figure['value'])} {format_estimate_interval(figure)}".strip()


def _confusion(each: JsonObject) -> str:
    """Write how often each category of the labels met each of the scores: a row for each label."""
    found = each["confusion"]
    categories = ", ".join(f"{category:g}" for category in found["categories"])
    rows = " / ".join(" ".join(map(str, row)) for row in found["rows"])
    return f"{each['dimension']}, labels {categories} by scores: {rows}"


def _remarks(data: JsonObject, judge: str) -> Iterator[str]:
    """Say what stands behind a judge's figures: why some are missing, what it could not tell, its noise."""
    yield from (format_unreadable(one) for one in data["judges"] if one["name"] == judge and "unread" in one)
    for each in data["measured"]:
        if each["judge"] != judge:
            continue
        name = each["dimension"]
        yield _confusion(each)
        left = each["examples"] - each["scored"]
        if left:
            yield f"{name}: no score for {left} of {pluralize(each['examples'], 'example')}"
        shown = {metric: each["figures"][metric] for metric in FIGURES}
        missing = {metric: one for metric, one in shown.items() if one["value"] is None}
        for reason in dict.fromkeys(one["reason"] for one in missing.values()):
            metrics = [metric for metric, one in missing.items() if one["reason"] == reason]
            yield f"{name}: no {', '.join(metrics)}: {reason}"
        if "noise" in each:
            yield f"{name}, asked {data['repeats']} times: {format_noise(each['noise'])}"


def format_noise(found: JsonObject) -> str:
    """Say how far a judge's scores move when it is asked again."""
    spread, flips = found["spread"], found["flips"]
    if spread["value"] is None:
        return f"noise not known: {spread['reason']}"
    moved = f"standard deviation {format_statistic(spread['value'])}{_bracketed(spread)}"
    between = f" ({flips['low']:.0%} to {flips['high']:.0%})" if "low" in flips else ""
    share = f"{flips['value']:.0%} of {pluralize(found['examples'], 'example')}{between}"
    return f"{moved}; {share} flip between pass and fail"


def _bracketed(found: JsonObject) -> str:
    return f" ({format_estimate_interval(found, ' to ')})" if "low" in found else ""


def _together(data: JsonObject) -> Iterator[str]:
    for name, found in data["among_judges"].items():
        yield f"the judges among themselves, {name}: alpha {format_estimate(found)}"
    used = [each["usage"] for each in data["judges"] if each["usage"]]
    if used:
        asks, costs = sum(each["asks"] for each in used), [each["cost_usd"] for each in used]
        known = sum(each["tokens"] for each in used)
        untold = any(each["asks"] and not each["tokens"] and each["cost_usd"] is None for each in used)
        taken = "tokens unknown" if untold else pluralize(known, "token")
        paid = format_cost(None if None in costs else sum(costs), 0)
        yield f"judges: {pluralize(asks, 'reply')}, {taken}, {paid}"


def _thresholds(data: JsonObject, width: int) -> Iterator[StyledLine]:
    wanted = data["thresholds"]
    if not wanted and not data["passed"]:
        yield StyledLine(f"{INDENT}not passed: a judge's replies cannot be read", "red")
    elif not wanted:
        yield StyledLine(f"{INDENT}no threshold: nothing had to be reached", "dim")
    elif data["passed"]:
        yield StyledLine(f"{INDENT}{pluralize(len(wanted), 'threshold')} reached")
    for each in wanted:
        if not each["reached"]:
            text = f"{INDENT}not reached: {format_shortfall(each)}"
            yield from (StyledLine(piece, "red") for piece in wrap(text, width))


def _disagreements(data: JsonObject, width: int) -> Iterator[StyledLine]:
    found = data["disagreements"][:SHOWN]
    if found:
        yield StyledLine(f"{INDENT}largest disagreements:", "dim")
    for each in found:
        said = [(vote["judge"], vote["rationale"]) for vote in each["votes"] if vote["rationale"]]
        by = f"{said[0][0]}: " if len(each["votes"]) > 1 and said else ""
        why = f": {by}{said[0][1]}" if said else ""
        scores = f"label {format_figure(each['label'])}, score {format_figure(each['score'])}"
        text = one_line(f"{each['id']}, {each['dimension']}: {scores}{why}", MOST_SAID)
        yield from (StyledLine(piece) for piece in wrap(2 * INDENT + text, width))

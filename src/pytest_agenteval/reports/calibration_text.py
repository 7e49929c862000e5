"""A calibration as plain lines for a terminal, from what its JSON file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.compare.scoring.agreement import AT_MOST
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    Usage,
    cost_figure,
    format_cost,
    format_tokens,
    token_figure,
)
from pytest_agenteval.reports.tables import Column, ReportTable, body_lines
from pytest_agenteval.text.formatting import (
    INDENT,
    WIDEST,
    StyledLine,
    clamp_width,
    format_figure,
    one_line,
    pluralize,
    shorten_middle,
    wrapped_lines,
)

MOST_DISAGREEMENTS = 5
"""Disagreements that are shown; the page has more."""
MOST_NAME = 20
MOST_REASON = 160
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
    """Give the table of a calibration, its thresholds, its largest disagreements and where its page is.

    ``data`` is what ``calibration_json`` gave, ``page`` the path of the page.
    """
    width = clamp_width(width)
    lines = [
        StyledLine(shorten_middle(_title(data), width), "bold"),
        StyledLine(INDENT + _label_sources(data)),
    ]
    for judge in dict.fromkeys(agreement["judge"] for agreement in data["measured"]):
        lines += [StyledLine(INDENT + shorten_middle(judge_label(data, judge), width - len(INDENT)))]
        lines += body_lines(_table(data, judge), width, indent=2 * INDENT)
        lines += [line for note in _judge_notes(data, judge) for line in wrapped_lines(note, width, "dim")]
    lines += [line for note in _panel_notes(data) for line in wrapped_lines(note, width)]
    lines += _threshold_lines(data, width)
    lines += _disagreement_lines(data, width)
    return [*lines, StyledLine(f"{INDENT}page: {page}")]


def judge_label(data: JsonObject, judge: str) -> str:
    """Say which model a judge is; all of them together where the name is empty."""
    if not judge:
        return f"{PANEL} ({data['combine']})"
    return f"judge {judge_model_label(next(row for row in data['judges'] if row['name'] == judge))}"


def judge_model_label(judge: JsonObject) -> str:
    """Say what model a judge is: ``claude (anthropic/claude-x)``."""
    name, id = (one_line(judge[key], 3 * MOST_NAME) for key in ("name", "id"))
    if judge["offline"]:
        return f"{name} (offline, no LLM)"
    return name if name == id else f"{name} ({id})"


def format_threshold(threshold: JsonObject) -> str:
    """Say what a threshold asks for: ``spearman of coherence 0.7 or more``."""
    side = "or less" if threshold["metric"] in AT_MOST else "or more"
    return f"{threshold['metric']} of {threshold['dimension']} {threshold['threshold']:g} {side}"


def format_shortfall(threshold: JsonObject) -> str:
    """Say what a threshold asks for and what was found, with so many digits that they differ."""
    value, text = threshold["found"]["value"], format_threshold_value(threshold)
    if (
        threshold["metric"] != SCORED_METRIC
        and value is not None
        and float(format_statistic(value)) == threshold["threshold"]
    ):
        text = f"{value:.6f}"
    return f"{format_threshold(threshold)} (found {text})"


def format_unreadable(judge: JsonObject) -> str:
    """Say how many of a judge's replies could not be read, and why."""
    unread = judge["unread"]
    replies = pluralize(unread["asks"], "reply")
    problem = one_line(unread["problem"], MOST_REASON)
    return f"{one_line(judge['name'], MOST_NAME)}: {unread['count']} of {replies} cannot be read: {problem}"


def format_statistic(value: float | None) -> str:
    """Write a figure, which may lie below 0; a hair below is 0."""
    return format_figure(abs(value) if value is not None and -0.005 < value < 0 else value)


def format_threshold_value(threshold: JsonObject) -> str:
    """Say what was found of what a threshold is about: a figure, or a number of examples."""
    estimate = threshold["found"]
    is_count = threshold["metric"] == SCORED_METRIC and estimate["value"] is not None
    return f"{estimate['value']:.0f}" if is_count else format_estimate(estimate)


def format_estimate(estimate: JsonObject) -> str:
    """Say what was found: ``0.55, 0.31 to 0.72``, or why there is no figure or no interval."""
    if estimate["value"] is None:
        return f"none: {estimate['reason']}"
    beside = format_estimate_interval(estimate, " to ") or estimate.get("reason", "")
    value = format_statistic(estimate["value"])
    return f"{value}, {beside}" if beside else value


def format_estimate_interval(estimate: JsonObject, between: str = "-") -> str:
    """Write the interval of a figure, which may reach below 0."""
    if "low" not in estimate:
        return ""
    if estimate["low"] < 0 and between == "-":
        between = ".."  # a dash would be taken for a minus
    return f"{format_statistic(estimate['low'])}{between}{format_statistic(estimate['high'])}"


def format_noise(noise: JsonObject) -> str:
    """Say how far a judge's scores move when it is asked again."""
    spread, flips = noise["spread"], noise["flips"]
    if spread["value"] is None:
        return f"noise not known: {spread['reason']}"
    beside = format_estimate_interval(spread, " to ") or spread.get("reason", "")
    interval = f" ({beside})" if beside else ""
    deviation = f"standard deviation {format_statistic(spread['value'])}{interval}"
    between = f" ({flips['low']:.0%} to {flips['high']:.0%})" if "low" in flips else ""
    share = f"{flips['value']:.0%} of {pluralize(noise['examples'], 'example')}{between}"
    return f"{deviation}; {share} flip between pass and fail"


def _title(data: JsonObject) -> str:
    rubric = data["rubric"]
    return one_line(f"calibration {data['id']} (rubric {rubric['name']} {rubric['version']})", WIDEST)


def _label_sources(data: JsonObject) -> str:
    """Say what judges are compared with: where labels come from is never left out."""
    repeats = f", each asked about {data['repeats']} times" if data["repeats"] > 1 else ""
    return f"compared with {data['labels']['said']}{repeats}"


def _table(data: JsonObject, judge: str) -> ReportTable:
    """Give a row for each figure and a column for each dimension."""
    columns = tuple(
        Column(
            shorten_middle(agreement["dimension"], MOST_NAME),
            (str(agreement["scored"]), *_figure_cells(agreement)),
        )
        for agreement in _agreements(data, judge)
    )
    return ReportTable("", "value, 95 %", ("scored", *FIGURES.values()), (columns,))


def _figure_cells(agreement: JsonObject) -> Iterator[str]:
    for metric in FIGURES:
        estimate = agreement["figures"][metric]
        yield f"{format_statistic(estimate['value'])} {format_estimate_interval(estimate)}".strip()


def _agreements(data: JsonObject, judge: str) -> list[JsonObject]:
    """Give how one judge did, dimension by dimension."""
    return [agreement for agreement in data["measured"] if agreement["judge"] == judge]


def _judge_notes(data: JsonObject, judge: str) -> Iterator[str]:
    """Say what stands behind a judge's figures: why some are missing, what it could not tell, its noise."""
    for row in data["judges"]:
        if row["name"] == judge and "unread" in row:
            yield format_unreadable(row)
    for agreement in _agreements(data, judge):
        name = agreement["dimension"]
        yield _confusion(agreement)
        unscored = agreement["examples"] - agreement["scored"]
        if unscored:
            yield f"{name}: no score for {unscored} of {pluralize(agreement['examples'], 'example')}"
        yield from (f"{name}: {text}" for text in _undefined(agreement["figures"]))
        if "noise" in agreement:
            yield f"{name}, asked {data['repeats']} times: {format_noise(agreement['noise'])}"


def _confusion(agreement: JsonObject) -> str:
    """Write how often each category of the labels met each of the scores: a row for each label."""
    confusion = agreement["confusion"]
    categories = ", ".join(f"{category:g}" for category in confusion["categories"])
    rows = " / ".join(" ".join(map(str, row)) for row in confusion["rows"])
    return f"{agreement['dimension']}, labels {categories} by scores: {rows}"


def _undefined(figures: JsonObject) -> Iterator[str]:
    """Say why figures of the table have no value, those with one reason together, or no interval."""
    reasons = {metric: figures[metric]["reason"] for metric in FIGURES if figures[metric]["value"] is None}
    for reason in dict.fromkeys(reasons.values()):
        yield f"no {', '.join(metric for metric, why in reasons.items() if why == reason)}: {reason}"
    shown = [figures[metric] for metric in FIGURES if figures[metric]["value"] is not None]
    yield from dict.fromkeys(estimate["reason"] for estimate in shown if "reason" in estimate)


def _panel_notes(data: JsonObject) -> Iterator[str]:
    """Say how far the judges agree with each other, and what all of them took."""
    for name, estimate in data["among_judges"].items():
        yield f"the judges among themselves, {name}: alpha {format_estimate(estimate)}"
    usages = [judge["usage"] for judge in data["judges"] if judge["usage"]]
    if usages:
        took = sum(map(_judge_usage, usages), NO_USAGE)
        tokens, cost = format_tokens(token_figure(took)), format_cost(cost_figure(took))
        yield f"judges: {pluralize(took.asks or 0, 'reply')}, {tokens}, {cost}"


def _judge_usage(stored: JsonObject) -> Usage:
    return Usage(stored["tokens"], cost_usd=stored["cost_usd"], asks=stored["asks"])


def _threshold_lines(data: JsonObject, width: int) -> Iterator[StyledLine]:
    thresholds = data["thresholds"]
    if not thresholds and not data["passed"]:
        yield StyledLine(f"{INDENT}not passed: a judge's replies cannot be read", "red")
    elif not thresholds:
        yield StyledLine(f"{INDENT}no threshold: nothing had to be reached", "dim")
    elif data["passed"]:
        yield StyledLine(f"{INDENT}{pluralize(len(thresholds), 'threshold')} reached")
    for threshold in thresholds:
        if not threshold["reached"]:
            yield from wrapped_lines(f"not reached: {format_shortfall(threshold)}", width, "red")


def _disagreement_lines(data: JsonObject, width: int) -> Iterator[StyledLine]:
    disagreements = data["disagreements"][:MOST_DISAGREEMENTS]
    if disagreements:
        yield StyledLine(f"{INDENT}largest disagreements:", "dim")
    for disagreement in disagreements:
        label, score = format_figure(disagreement["label"]), format_figure(disagreement["score"])
        where = f"{disagreement['id']}, {disagreement['dimension']}"
        text = f"{where}: label {label}, score {score}{_first_rationale(disagreement['votes'])}"
        yield from wrapped_lines(one_line(text, MOST_REASON), width, indent=2 * INDENT)


def _first_rationale(votes: Sequence[JsonObject]) -> str:
    """Give what the first judge with a reason says, with its name where there are several."""
    vote = next((vote for vote in votes if vote["rationale"]), None)
    if vote is None:
        return ""
    by = f"{vote['judge']}: " if len(votes) > 1 else ""
    return f": {by}{vote['rationale']}"

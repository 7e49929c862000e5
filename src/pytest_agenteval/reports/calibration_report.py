"""A calibration as lines of a terminal and as one HTML file, from what its JSON file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from pytest_agenteval.compare.scoring.agreement import AT_MOST, METRICS
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    Usage,
    cost_figure,
    format_cost,
    format_tokens,
    token_figure,
)
from pytest_agenteval.reports.html_report import page_environment, page_file
from pytest_agenteval.reports.tables import ReportTable, TableColumn, body_lines
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

FIGURES = {name: name for name in ("spearman", "pearson", "mae", "within", "kappa", "alpha")} | {"mae": "MAE"}
"""The figures of the table, each with its title; the file and the page have more."""


def calibration_lines(data: JsonObject, page: str, width: int = 80) -> list[StyledLine]:
    """Give the table of a calibration, its thresholds, its largest disagreements and where its page is.

    ``data`` is what ``calibration_json`` gave, ``page`` the path of the page.
    """
    width = clamp_width(width)
    rubric = data["rubric"]
    title = one_line(f"calibration {data['id']} (rubric {rubric['name']} {rubric['version']})", WIDEST)
    repeats = f", each judged {data['repeats']} times" if data["repeats"] > 1 else ""
    lines = [
        StyledLine(shorten_middle(title, width), "bold"),
        StyledLine(f"{INDENT}compared with {data['labels']['said']}{repeats}"),
    ]
    for judge in dict.fromkeys(agreement["judge"] for agreement in data["measured"]):
        # Ids of models differ mostly at their ends, so a long one is shortened in its middle.
        lines += [StyledLine(INDENT + shorten_middle(_judge_label(data, judge), width - len(INDENT)))]
        columns = []
        for agreement in _agreements(data, judge):
            figures = (agreement["figures"][metric] for metric in FIGURES)
            cells = (f"{format_statistic(each['value'])} {_format_interval(each)}" for each in figures)
            name = shorten_middle(agreement["dimension"], MOST_NAME)
            columns.append(TableColumn(name, (str(agreement["scored"]), *map(str.strip, cells))))
        table = ReportTable("", "value, 95 %", ("scored", *FIGURES.values()), (tuple(columns),))
        lines += body_lines(table, width, indent=2 * INDENT)
        lines += [line for note in _judge_notes(data, judge) for line in wrapped_lines(note, width, "dim")]
    lines += [line for note in _panel_notes(data) for line in wrapped_lines(note, width)]
    lines += _threshold_lines(data, width)
    lines += _disagreement_lines(data, width)
    return [*lines, StyledLine(f"{INDENT}page: {page}")]


def _judge_label(data: JsonObject, judge: str) -> str:
    """Name a judge with its model, or all judges together where the name is empty."""
    if not judge:
        return f"{PANEL} ({data['combine']})"
    return f"judge {_judge_model_label(next(row for row in data['judges'] if row['name'] == judge))}"


def _judge_model_label(judge: JsonObject) -> str:
    """Name the model of a judge: ``claude (anthropic/claude-x)``."""
    name, id = (one_line(judge[key], 3 * MOST_NAME) for key in ("name", "id"))
    if judge["offline"]:
        return f"{name} (offline, no LLM)"
    return name if name == id else f"{name} ({id})"


def _format_threshold(threshold: JsonObject) -> str:
    """Write what a threshold requires: ``spearman of coherence 0.7 or more``."""
    side = "or less" if threshold["metric"] in AT_MOST else "or more"
    return f"{threshold['metric']} of {threshold['dimension']} {threshold['threshold']:g} {side}"


def _format_found(threshold: JsonObject) -> str:
    """Write what was found for a threshold: a figure, or a number of examples."""
    value = threshold["found"]["value"]
    is_count = threshold["metric"] == SCORED_METRIC and value is not None
    return f"{value:.0f}" if is_count else _format_estimate(threshold["found"])


def format_shortfall(threshold: JsonObject) -> str:
    """Write what a threshold requires and what was found, with enough digits to show the difference."""
    value, text = threshold["found"]["value"], _format_found(threshold)
    is_figure = threshold["metric"] != SCORED_METRIC and value is not None
    # 0.6996 is written as 0.70: "0.7 or more (found 0.70)" would look reached.
    if is_figure and float(format_statistic(value)) == threshold["threshold"]:
        text = f"{value:.6f}"
    return f"{_format_threshold(threshold)} (found {text})"


def format_unreadable(judge: JsonObject) -> str:
    unread = judge["unread"]
    replies = pluralize(unread["asks"], "reply")
    problem = one_line(unread["problem"], MOST_REASON)
    return f"{one_line(judge['name'], MOST_NAME)}: {unread['count']} of {replies} cannot be read: {problem}"


def format_statistic(value: float | None) -> str:
    """Write a figure, which may be negative; one that rounds to 0 is written without a sign."""
    return format_figure(abs(value) if value is not None and -0.005 < value < 0 else value)


def _format_estimate(estimate: JsonObject) -> str:
    """Write a figure with its interval, ``0.55, 0.31 to 0.72``, or why there is no figure or no interval."""
    if estimate["value"] is None:
        return f"none: {estimate['reason']}"
    beside = _format_interval(estimate, " to ") or estimate.get("reason", "")
    value = format_statistic(estimate["value"])
    return f"{value}, {beside}" if beside else value


def _format_interval(estimate: JsonObject, between: str = "-") -> str:
    if "low" not in estimate:
        return ""
    # Correlations and agreements may lie below 0, where a dash between the ends would look like a minus.
    if estimate["low"] < 0 and between == "-":
        between = ".."
    return f"{format_statistic(estimate['low'])}{between}{format_statistic(estimate['high'])}"


def _format_noise(noise: JsonObject) -> str:
    """Write how far a judge's scores move when it grades the same example again."""
    spread, flips = noise["spread"], noise["flips"]
    if spread["value"] is None:
        return f"noise not known: {spread['reason']}"
    beside = _format_interval(spread, " to ") or spread.get("reason", "")
    interval = f" ({beside})" if beside else ""
    deviation = f"standard deviation {format_statistic(spread['value'])}{interval}"
    between = f" ({flips['low']:.0%} to {flips['high']:.0%})" if "low" in flips else ""
    share = f"{flips['value']:.0%} of {pluralize(noise['examples'], 'example')}{between}"
    return f"{deviation}; {share} flip between pass and fail"


def _agreements(data: JsonObject, judge: str) -> list[JsonObject]:
    return [agreement for agreement in data["measured"] if agreement["judge"] == judge]


def _judge_notes(data: JsonObject, judge: str) -> Iterator[str]:
    """Give what explains a judge's figures: unreadable replies, the confusion, missing scores, its noise."""
    for row in data["judges"]:
        if row["name"] == judge and "unread" in row:
            yield format_unreadable(row)
    for agreement in _agreements(data, judge):
        name = agreement["dimension"]
        # The page draws the confusion; on a terminal it is one line, its rows between slashes.
        confusion = agreement["confusion"]
        categories = ", ".join(f"{category:g}" for category in confusion["categories"])
        rows = " / ".join(" ".join(map(str, row)) for row in confusion["rows"])
        yield f"{agreement['dimension']}, labels {categories} by scores: {rows}"
        unscored = agreement["examples"] - agreement["scored"]
        if unscored:
            yield f"{name}: no score for {unscored} of {pluralize(agreement['examples'], 'example')}"
        yield from (f"{name}: {text}" for text in _undefined(agreement["figures"]))
        if "noise" in agreement:
            yield f"{name}, judging {data['repeats']} times: {_format_noise(agreement['noise'])}"


def _undefined(figures: JsonObject) -> Iterator[str]:
    """Say why figures of the table have no value or no interval; those with one reason stand together."""
    reasons = {metric: figures[metric]["reason"] for metric in FIGURES if figures[metric]["value"] is None}
    for reason in dict.fromkeys(reasons.values()):
        yield f"no {', '.join(metric for metric, why in reasons.items() if why == reason)}: {reason}"
    shown = [figures[metric] for metric in FIGURES if figures[metric]["value"] is not None]
    yield from dict.fromkeys(estimate["reason"] for estimate in shown if "reason" in estimate)


def _panel_notes(data: JsonObject) -> Iterator[str]:
    """Say how far the judges agree with each other, and what all of them used and cost."""
    for name, estimate in data["among_judges"].items():
        yield f"agreement between judges, {name}: alpha {_format_estimate(estimate)}"
    usages = [judge["usage"] for judge in data["judges"] if judge["usage"]]
    if usages:
        # Added up as usages and not as numbers: a sum of which one part is unknown is written as such.
        each = (Usage(used["tokens"], cost_usd=used["cost_usd"], asks=used["asks"]) for used in usages)
        took = sum(each, NO_USAGE)
        tokens, cost = format_tokens(token_figure(took)), format_cost(cost_figure(took))
        yield f"judges: {pluralize(took.asks or 0, 'reply')}, {tokens}, {cost}"


def _threshold_lines(data: JsonObject, width: int) -> Iterator[StyledLine]:
    thresholds = data["thresholds"]
    if thresholds and data["passed"]:
        yield StyledLine(f"{INDENT}{pluralize(len(thresholds), 'threshold')} reached")
    elif not thresholds:
        # Without a threshold a calibration fails for one reason only.
        passed = StyledLine(f"{INDENT}no threshold is set", "dim")
        failed = StyledLine(f"{INDENT}not passed: a judge's replies cannot be read", "red")
        yield passed if data["passed"] else failed
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
        votes = disagreement["votes"]
        # One rationale fits into the line; the page has those of all judges.
        vote = next((vote for vote in votes if vote["rationale"]), None)
        by = f"{vote['judge']}: " if vote and len(votes) > 1 else ""
        why = f": {by}{vote['rationale']}" if vote else ""
        text = f"{where}: label {label}, score {score}{why}"
        yield from wrapped_lines(one_line(text, MOST_REASON), width, indent=2 * INDENT)


SIDE = 100.0
"""The side of a plot; positions in it, and in the bars of figures, are percents."""

SMALLEST, LARGEST, GROWTH = 1.5, 5.5, 0.7
METRIC_TITLES: Mapping[str, str] = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "mae": "Mean absolute error",
    "within": "Within tolerance",
    "kappa": "Cohen’s κ, quadratic",
    "kappa_linear": "Cohen’s κ, linear",
    "alpha": "Krippendorff’s α, interval",
    "alpha_ordinal": "Krippendorff’s α, ordinal",
    "alpha_nominal": "Krippendorff’s α, nominal",
    "decided": "Decided",
}
FROM_ZERO = frozenset({"mae", "within", "decided"})


def calibration_page(data: JsonObject) -> str:
    """Give the page of a calibration, from what its JSON file says.

    Every text of labels and judges is escaped: what an agent wrote is shown, and never obeyed.
    """
    # All judges together come last where there are several: that is the one that thresholds are about.
    judges = list(dict.fromkeys(agreement["judge"] for agreement in data["measured"]))
    sources: list[str] = data["labels"]["sources"]
    sections = []
    for name, says in data["dimensions"].items():
        among = _format_estimate(data["among_judges"][name]) if name in data["among_judges"] else ""
        cards = [_card(data, name, judge, judge == judges[-1]) for judge in judges]
        sections.append({"name": name, "says": says, "among": among, "cards": cards})
    page = page_environment().get_template("calibration.html.jinja")
    return page.render(
        data=data,
        kit=page_file("kit.css"),
        names=[_judge_model_label(judge) for judge in data["judges"]],
        # What was constructed is never called a human label.
        label=f"{sources[0]} label" if len(sources) == 1 else "label",
        thresholds=[(each, _format_threshold(each), _format_found(each)) for each in data["thresholds"]],
        sections=sections,
        number=format_statistic,
        count=len(data["disagreements"]),
        no_disagreement=_no_disagreement(data),
        unread=[format_unreadable(judge) for judge in data["judges"] if "unread" in judge],
    )


def _no_disagreement(data: JsonObject) -> str:
    """Give the sentence that stands in place of the list where no score differs from its label."""
    agreements = _agreements(data, data["measured"][-1]["judge"])
    scored, labelled = (sum(agreement[key] for agreement in agreements) for key in ("scored", "examples"))
    # A judge that gave no score at all has no disagreement either, which must not look like praise.
    return f"None: {scored} of {pluralize(labelled, 'label')} have a score, and each score equals its label."


def _card(data: JsonObject, dimension: str, judge: str, is_decisive: bool) -> dict[str, Any]:
    """Give one judge's plot and figures; the decisive judge's have the thresholds."""
    agreement = next(row for row in _agreements(data, judge) if row["dimension"] == dimension)
    thresholds = {
        threshold["metric"]: threshold
        for threshold in data["thresholds"]
        if is_decisive and threshold["dimension"] == dimension
    }
    # The corners of the band within the tolerance of the diagonal, from the lower left one. SVG counts y from
    # the top, hence SIDE - y below.
    reach = SIDE * min(data["tolerance"], 1.0)
    left, right = (0.0, reach), (SIDE - reach, SIDE)
    corners = [(0.0, 0.0), left, right, (SIDE, SIDE), (SIDE, SIDE - reach), (reach, 0.0)]
    return {
        "who": _judge_label(data, judge),
        "found": agreement,
        "dots": list(_dots(data, dimension, judge)),
        "band": " ".join(f"{x:g},{SIDE - y:g}" for x, y in corners),
        "bars": [_bar(name, agreement["figures"][name], thresholds.get(name)) for name in METRICS],
        "heat": _confusion_heat(agreement["confusion"]),
        "noise": _format_noise(agreement["noise"]) if "noise" in agreement else "",
    }


def _dots(data: JsonObject, dimension: str, judge: str) -> Iterator[JsonObject]:
    """Put scores that lie at the same place into one dot, the more of them the larger."""
    places: Counter[tuple[float, float, str]] = Counter()
    for example in data["examples"]:
        label = example["labels"].get(dimension)
        for ask in example["asks"] if label is not None else ():
            scores: JsonObject = ask["scores"]
            if judge:
                scores = next((vote["scores"] for vote in ask["votes"] if vote["judge"] == judge), {})
            score: float | None = scores.get(dimension)
            # Rounded, so that scores that differ in the last bit of a float do not lie on top of each other.
            if score is not None:
                places[round(label, 4), round(score, 4), example["source"]] += 1
    # Large dots are drawn first: small ones would disappear below them.
    for (x, y, source), count in sorted(places.items(), key=lambda place: -place[1]):
        # By the root of the count, so that the area of a dot and not its width grows with it.
        radius = round(min(LARGEST, SMALLEST + GROWTH * sqrt(count - 1)), 2)
        says = f"{source} label {format_statistic(x)}, score {format_statistic(y)}: {count}×"
        yield {"x": SIDE * x, "y": SIDE * y, "radius": radius, "source": source, "says": says}


def _bar(name: str, estimate: JsonObject, threshold: JsonObject | None) -> JsonObject:
    """Give a figure in a row of a table, its interval as a bar; places are None where there is no figure."""

    def at(value: float | None) -> float | None:
        if value is None:
            return None
        # Correlations and agreements run from -1 to 1, the figures of FROM_ZERO from 0 to 1.
        share = value if name in FROM_ZERO else (value + 1) / 2
        return round(100 * min(1.0, max(0.0, share)), 2)

    side = "at most" if name in AT_MOST else "at least"
    return {
        "title": METRIC_TITLES[name],
        "explained": METRICS[name],
        "value": format_statistic(estimate["value"]),
        "interval": _format_interval(estimate, " to "),
        "reason": estimate.get("reason", ""),
        "at": at(estimate["value"]),
        "low": at(estimate.get("low")),
        "high": at(estimate.get("high")),
        "zero": 0.0 if name in FROM_ZERO else 50.0,
        "threshold": at(threshold["threshold"]) if threshold else None,
        "reached": not threshold or threshold["reached"],
        "threshold_text": f"{side} {threshold['threshold']:g}" if threshold else "",
    }


def _confusion_heat(confusion: JsonObject) -> JsonObject:
    """Give how often a label's category met a score's, with the share of its row in percent as a shade."""
    # Of its row and not of the whole: labels that are rare would otherwise have pale rows.
    names = [format_figure(category) for category in confusion["categories"]]
    rows = []
    for place, (name, row) in enumerate(zip(names, confusion["rows"], strict=True)):
        cells = [
            {"times": times, "shade": round(100 * times / sum(row)) if times else 0, "agrees": place == other}
            for other, times in enumerate(row)
        ]
        rows.append((name, cells))
    return {"names": names, "rows": rows}

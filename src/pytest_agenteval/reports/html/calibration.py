"""A calibration as one HTML file: plots, figures and the largest disagreements, with nothing to load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from pytest_agenteval.compare.scoring.agreement import AT_MOST, METRICS
from pytest_agenteval.reports.calibration_text import (
    JsonObject,
    format_estimate,
    format_estimate_interval,
    format_noise,
    format_statistic,
    format_threshold,
    format_threshold_value,
    format_unreadable,
    judge_label,
    judge_model_label,
)
from pytest_agenteval.reports.html.environment import page_environment, page_file
from pytest_agenteval.text.formatting import format_figure

SIDE = 100.0
"""The side of a plot; positions in it are percents."""
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


class Dot(NamedTuple):
    """All scores at one place of a plot, in percents from its lower left corner."""

    x: float
    y: float
    radius: float
    source: str
    says: str


class Bar(NamedTuple):
    """A figure in a row of a table, its interval as a bar; places are percents, None where there is none."""

    title: str
    explained: str
    value: str
    interval: str
    reason: str
    at: float | None
    low: float | None
    high: float | None
    zero: float
    threshold: float | None
    reached: bool
    threshold_text: str


def calibration_page(data: JsonObject) -> str:
    """Give the page of a calibration, from what its JSON file says.

    Every text of labels and judges is escaped: what an agent wrote is shown, and never obeyed.
    """
    judges = list(dict.fromkeys(agreement["judge"] for agreement in data["measured"]))
    return (
        page_environment()
        .get_template("calibration.html.jinja")
        .render(
            data=data,
            kit=page_file("kit.css"),
            names=[judge_model_label(judge) for judge in data["judges"]],
            label=_label(data),
            thresholds=[
                (threshold, format_threshold(threshold), format_threshold_value(threshold))
                for threshold in data["thresholds"]
            ],
            sections=[_section(data, name, judges) for name in data["dimensions"]],
            number=format_statistic,
            count=len(data["disagreements"]),
            no_disagreement=_no_disagreement(data),
            unread=[format_unreadable(judge) for judge in data["judges"] if "unread" in judge],
        )
    )


def _no_disagreement(data: JsonObject) -> str:
    """Say what it means that no score lay away from its label: nothing, where there is no score."""
    decisive = data["measured"][-1]["judge"]
    agreements = [agreement for agreement in data["measured"] if agreement["judge"] == decisive]
    scored, labelled = (sum(agreement[key] for agreement in agreements) for key in ("scored", "examples"))
    if not scored:
        return "No example has a score: there is nothing to compare."
    if scored < labelled:
        return f"There is none among the {scored} scores; {labelled - scored} labels have none beside them."
    return "There is none: every score is the label."


def _section(data: JsonObject, dimension: str, judges: Sequence[str]) -> dict[str, Any]:
    """Give what is said of one dimension, judge by judge."""
    return {
        "name": dimension,
        "says": data["dimensions"][dimension],
        "among": format_estimate(data["among_judges"][dimension])
        if dimension in data["among_judges"]
        else "",
        "cards": [_card(data, dimension, judge, judge == judges[-1]) for judge in judges],
    }


def _card(data: JsonObject, dimension: str, judge: str, is_decisive: bool) -> dict[str, Any]:
    """Give one judge's plot and figures; thresholds are about the decisive one."""
    agreement = next(
        row for row in data["measured"] if (row["dimension"], row["judge"]) == (dimension, judge)
    )
    thresholds = {
        threshold["metric"]: threshold
        for threshold in data["thresholds"]
        if is_decisive and threshold["dimension"] == dimension
    }
    return {
        "who": judge_label(data, judge),
        "found": agreement,
        "dots": list(_dots(data, dimension, judge)),
        "band": _band(data["tolerance"]),
        "bars": [_bar(name, agreement["figures"][name], thresholds.get(name)) for name in METRICS],
        "heat": confusion_heat(agreement["confusion"]),
        "noise": format_noise(agreement["noise"]) if "noise" in agreement else "",
    }


def _label(data: JsonObject) -> str:
    """Name what the judges are compared with: what was constructed is never called human."""
    sources: list[str] = data["labels"]["sources"]
    return f"{sources[0]} label" if len(sources) == 1 else "label"


def _dots(data: JsonObject, dimension: str, judge: str) -> Iterator[Dot]:
    """Put scores that lie at the same place into one dot, the more of them the larger."""
    places: Counter[tuple[float, float, str]] = Counter()
    for example in data["examples"]:
        label = example["labels"].get(dimension)
        for ask in example["asks"] if label is not None else ():
            score = _score(ask, dimension, judge)
            if score is not None:
                places[round(label, 4), round(score, 4), example["source"]] += 1
    for (x, y, source), count in sorted(places.items(), key=lambda place: -place[1]):
        radius = min(LARGEST, SMALLEST + GROWTH * sqrt(count - 1))
        says = f"{source} label {format_statistic(x)}, score {format_statistic(y)}: {count}×"
        yield Dot(SIDE * x, SIDE * y, round(radius, 2), source, says)


def _score(ask: JsonObject, dimension: str, judge: str) -> float | None:
    scores: JsonObject = ask["scores"]
    if judge:
        scores = next((vote["scores"] for vote in ask["votes"] if vote["judge"] == judge), {})
    score: float | None = scores.get(dimension)
    return score


def _band(tolerance: float) -> str:
    """Give the corners of what lies within the tolerance of the diagonal, from the lower left corner."""
    reach = SIDE * min(tolerance, 1.0)
    left, right = (0.0, reach), (SIDE - reach, SIDE)
    corners = [(0.0, 0.0), left, right, (SIDE, SIDE), (SIDE, SIDE - reach), (reach, 0.0)]
    return " ".join(f"{x:g},{SIDE - y:g}" for x, y in corners)


def _bar(name: str, estimate: JsonObject, threshold: JsonObject | None) -> Bar:
    def at(value: float | None) -> float | None:
        if value is None:
            return None
        share = value if name in FROM_ZERO else (value + 1) / 2
        return round(100 * min(1.0, max(0.0, share)), 2)

    side = "at most" if name in AT_MOST else "at least"
    return Bar(
        title=METRIC_TITLES[name],
        explained=METRICS[name],
        value=format_statistic(estimate["value"]),
        interval=format_estimate_interval(estimate, " to "),
        reason=estimate.get("reason", ""),
        at=at(estimate["value"]),
        low=at(estimate.get("low")),
        high=at(estimate.get("high")),
        zero=0.0 if name in FROM_ZERO else 50.0,
        threshold=at(threshold["threshold"]) if threshold else None,
        reached=not threshold or threshold["reached"],
        threshold_text=f"{side} {threshold['threshold']:g}" if threshold else "",
    )


class Cell(NamedTuple):
    """How often a label's category met a score's; ``shade`` is its share of the row, in percent."""

    times: int
    shade: int
    agrees: bool


class Heat(NamedTuple):
    """The cells of a confusion, a row for each category of labels, and the categories' names."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def confusion_heat(confusion: JsonObject) -> Heat:
    """Give a confusion with the shade of every cell: the more often a pair was met, the stronger its cell."""
    names = tuple(format_figure(category) for category in confusion["categories"])
    rows = tuple(
        (name, tuple(Cell(count, _share(count, row), place == other) for other, count in enumerate(row)))
        for place, (name, row) in enumerate(zip(names, confusion["rows"], strict=True))
    )
    return Heat(names, rows)


def _share(count: int, row: list[int]) -> int:
    return round(100 * count / sum(row)) if count else 0

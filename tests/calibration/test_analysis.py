"""Judges whose scores are known give the figures that the definitions say."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_agenteval.calibration.results import read_calibrations
from pytest_agenteval.compare.scoring.agreement import spearman
from pytest_agenteval.reports.calibration_report import calibration_lines, format_shortfall
from pytest_agenteval.session.calibration_items import shortfalls
from pytest_agenteval.text.formatting import format_figure
from tests.calibration.judges import calibrated, figures, rows

pytestmark = pytest.mark.usefixtures("few_draws")


def values(found: dict[str, Any], judge: str, dimension: str = "order") -> dict[str, Any]:
    """Give every figure's value of one judge."""
    return {name: figure["value"] for name, figure in figures(found, judge, dimension).items()}


def lines_of(found: dict[str, Any], width: int = 120) -> list[str]:
    """Give what the terminal shows."""
    return [line.text for line in calibration_lines(found, "page.html", width)]


def test_a_perfect_judge_reaches_every_threshold(tmp_path: Path) -> None:
    """Who says what the labels say has every figure at its best."""
    wanted = "thresholds: {spearman: 1, kappa: 1, alpha: 1, within: 1, mae: 0, decided: 1}\n"
    found = calibrated(tmp_path, "perfect", more=wanted)

    assert found["passed"]
    assert len(found["thresholds"]) == 12
    for dimension in ("order", "tone"):
        best = values(found, "perfect", dimension)
        assert best.pop("mae") == 0
        assert best == pytest.approx(dict.fromkeys(best, 1.0))


@pytest.mark.parametrize(
    ("judge", "wanted", "expected", "missed"),
    [
        # Labels 0 to 1 in five steps, each as often: errors of 1, 0.5, 0, 0.5 and 1.
        (
            "inverted",
            "{spearman: 0.7, mae: {order: 0.5}}",
            {"spearman": -1, "mae": 0.6},
            [
                "tidy: 3 of 3 thresholds not reached",
                "spearman of order 0.7 or more (found -1.00, -1.00 to -0.",
                "spearman of tone 0.7 or more (found -1.00, -1.00 to -0.",
                "mae of order 0.5 or less (found 0.60",
            ],
        ),
        # An undefined figure is no zero and reaches no threshold; the reason stands instead.
        (
            "constant",
            "{spearman: {order: -1}}",
            {"spearman": None, "kappa": 0},
            [
                "tidy: 1 of 1 thresholds not reached",
                "spearman of order -1 or more (found none: every score is 0.5",
            ],
        ),
        # Of 15 letters three are worth 1, which this judge does not say.
        (
            "shy",
            "{decided: {order: 0.9}}",
            {"spearman": 1, "decided": 12 / 15},
            ["tidy: 1 of 1 thresholds not reached", "decided of order 0.9 or more (found 0.80"],
        ),
        ("blind", "{}", {"spearman": None}, ["tidy: 2 of 2", "scored of order 8 or more (found 0)"]),
        # It speaks up about letters 0 and 10; half must have a score where nobody says how many.
        (
            "hoarse",
            "{}",
            {"decided": 2 / 15},
            ["tidy: 2 of 2 thresholds not reached", "scored of order 8 or more (found 2)"],
        ),
        (
            "hoarse",
            "{scored: {order: 3, tone: 2}}",
            {},
            ["tidy: 1 of 2 thresholds not reached", "scored of order 3 or more (found 2)"],
        ),
        ("hoarse", "{scored: 2}", {}, []),
    ],
)
def test_what_falls_short_is_told(
    tmp_path: Path, judge: str, wanted: str, expected: dict[str, Any], missed: list[str]
) -> None:
    """The calibration fails and says which figures fall short, and by what."""
    found = calibrated(tmp_path, judge, more=f"thresholds: {wanted}\n")

    assert found["passed"] is (not missed)
    every = values(found, judge)
    assert {name: every[name] for name in expected} == pytest.approx(expected)
    for line, start in zip(shortfalls(found), missed, strict=False):
        assert line.strip().startswith(start)


def test_a_noisy_judge_has_the_figures_of_its_noise(tmp_path: Path) -> None:
    """Figures are those of all scores; noise within ±0.3 has a standard deviation of 0.3/sqrt(3) at most."""
    found = calibrated(tmp_path, "noisy", more="repeats: 4\n", examples=rows(20))

    pairs = [
        (example["labels"]["order"], ask["scores"]["order"])
        for example in found["examples"]
        for ask in example["asks"]
    ]
    assert len(pairs) == 80
    row = figures(found, "noisy", "order")["spearman"]
    assert row["value"] == pytest.approx(spearman(pairs))
    assert 0.3 < row["low"] < row["value"] < row["high"] < 1
    (measured,) = [one for one in found["measured"] if one["dimension"] == "order"]
    assert 0.1 < measured["noise"]["spread"]["value"] < 0.3 / 3**0.5
    assert 0 < measured["noise"]["flips"]["value"] < 0.6


def test_a_threshold_parts_pass_from_fail_where_it_stands(tmp_path: Path) -> None:
    """At what was found it passes, a hair above it fails: the same seed draws the same."""
    reached = values(calibrated(tmp_path, "noisy"), "noisy")["spearman"]

    for more, passed in ((0.0, True), (1e-6, False)):
        wanted = f"thresholds: {{spearman: {{order: {reached + more!r}}}}}\n"
        assert calibrated(tmp_path, "noisy", more=wanted)["passed"] is passed


def test_several_judges_are_told_apart_and_together(tmp_path: Path) -> None:
    """Each judge has its figures, all together have theirs, and thresholds are about all together."""
    found = calibrated(tmp_path, "perfect", "inverted", more="thresholds: {mae: {order: 0.3}}\n")

    assert found["passed"]
    assert values(found, "perfect")["spearman"] == pytest.approx(1)
    assert values(found, "inverted")["spearman"] == pytest.approx(-1)
    # The mean of a score and its opposite is 0.5 for everything.
    assert values(found, "")["spearman"] is None
    assert values(found, "")["mae"] == pytest.approx(0.3)
    assert found["among_judges"]["order"]["value"] < 0
    named = [line for line in lines_of(found) if "judge" in line]
    assert named[0] == "  judge perfect (offline, no LLM)"
    assert named[1].startswith("  judge inverted")
    assert named[2] == "  all judges together (mean)"


def test_everything_that_was_answered_is_in_the_document(tmp_path: Path) -> None:
    """Raw replies, votes, spread, digests and seed: the figures can be worked out again."""
    found = calibrated(tmp_path, "perfect", "inverted", more="seed: 7\nrepeats: 2\n")

    assert (found["intervals"]["seed"], found["intervals"]["level"]) == (7, 0.95)
    example = found["examples"][3]
    assert [ask["repetition"] for ask in example["asks"]] == [1, 2]
    ask = example["asks"][0]
    assert ask["spread"]["order"] == pytest.approx(abs(2 * example["labels"]["order"] - 1))
    assert [vote["judge"] for vote in ask["votes"]] == ["perfect", "inverted"]
    assert f'"order": {4 * example["labels"]["order"]}' in ask["votes"][0]["raw"][0]
    assert len(found["rubric"]["digest"]) == 16
    assert [each["noise"]["examples"] for each in found["measured"]] == [15] * 6

    for judge in found["judges"]:
        judge["usage"] = {"asks": 30, "tokens": 0, "cost_usd": None}
    assert "  judges: 60 replies, tokens unknown, cost unknown" in lines_of(found)


def test_the_worst_disagreements_come_first_and_once(tmp_path: Path) -> None:
    """Five in the terminal, at most 20 in the file, the farthest first, each label once."""
    found = calibrated(tmp_path, "noisy", more="repeats: 2\n", examples=rows(25))

    disagreements = found["disagreements"]
    distances = [round(abs(each["label"] - each["score"]), 9) for each in disagreements]
    assert len(disagreements) == 20
    assert distances == sorted(distances, reverse=True)
    assert len({(each["id"], each["dimension"]) for each in disagreements}) == 20
    assert sum("label 0" in line or "label 1" in line for line in lines_of(found)) == 5


def test_a_shuffled_file_has_the_same_figures(tmp_path: Path) -> None:
    """The order of examples changes no figure."""
    examples = rows()
    Random(1).shuffle(examples)

    first, shuffled = calibrated(tmp_path, "noisy"), calibrated(tmp_path, "noisy", examples=examples)

    for name in ("order", "tone"):
        assert values(shuffled, "noisy", name) == pytest.approx(values(first, "noisy", name))


def test_labels_are_human_unless_they_say_otherwise(tmp_path: Path) -> None:
    """A file that does not say where its labels come from holds what people gave; no other is so called."""
    unsaid = [{key: value for key, value in row.items() if key != "label_source"} for row in rows(6)]

    assert "  compared with 6 human labels" in lines_of(calibrated(tmp_path, "perfect", examples=unsaid))
    constructed = "\n".join(lines_of(calibrated(tmp_path, "inverted")))
    assert "compared with 15 constructed labels" in constructed
    assert "human" not in constructed


def test_the_terminal_shows_every_figure_with_its_interval(tmp_path: Path) -> None:
    """Every figure stands in a line of its own, each dimension in a column, and the confusion below."""
    found = calibrated(tmp_path, "noisy")
    lines = lines_of(found, 80)
    for title in ("spearman", "pearson", "MAE", "within", "kappa", "alpha"):
        (row,) = [line for line in lines if line.startswith(f"    {title} ")]
        figure = figures(found, "noisy", "order")[title.lower()]
        ends = f"{format_figure(figure['low'])}-{format_figure(figure['high'])}"
        assert row.split()[1:3] == [format_figure(figure["value"]), ends]
    for each in found["measured"]:
        confusion = " / ".join(" ".join(map(str, row)) for row in each["confusion"]["rows"])
        (line,) = [line for line in lines if line.startswith(f"  {each['dimension']}, labels ")]
        wrapped = lines[lines.index(line) + 1]
        assert f" by scores: {confusion}" in f"{line} {wrapped.strip()}"


def test_dimensions_that_do_not_fit_beside_others_come_below_them(tmp_path: Path) -> None:
    """Nothing is left out where it is narrow."""
    found = calibrated(tmp_path, "noisy")
    found["measured"] = [
        {**each, "dimension": f"{each['dimension']} {n}"} for n in range(4) for each in found["measured"]
    ]

    lines = lines_of(found, 80)

    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith("    spearman ")]) == 2
    assert all(any(f"{name} {n}" in line for line in lines) for name in ("order", "tone") for n in range(4))


def test_figures_of_another_version_are_left_out(tmp_path: Path) -> None:
    """A run of a later release may hold what this one cannot show."""
    for id, version in (("b", 1), ("a", 1), ("c", 2)):
        (tmp_path / f"calibration-{id}.json").write_text(f'{{"v": {version}, "id": "{id}"}}')
    assert [data["id"] for data in read_calibrations(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(("value", "found"), [(0.6996, "0.699600"), (0.65, "0.65"), (None, "none: too few")])
def test_a_figure_that_rounds_to_its_threshold_has_more_digits(value: float | None, found: str) -> None:
    """Else "0.7 or more (found 0.70)" would look reached."""
    estimate = {"value": value, "reason": "too few"} if value is None else {"value": value}
    threshold = {"metric": "spearman", "dimension": "tone", "threshold": 0.7, "found": estimate}

    assert format_shortfall(threshold) == f"spearman of tone 0.7 or more (found {found})"

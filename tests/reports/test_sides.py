"""Sides: what a report puts beside each other, under which labels, and which beats which."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.compare.baseline_file import baseline_text
from pytest_agenteval.compare.comparison import compare_runs
from pytest_agenteval.compare.verdict import LEVEL, PLAIN
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.markdown_report import report_markdown
from pytest_agenteval.reports.page_index import page_index, reversed_change
from pytest_agenteval.reports.report_files import write_report
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.reports.sides import Sides, sides_of, sides_of_places
from pytest_agenteval.reports.sides_report import sides_lines, sides_markdown, verdict_sentences
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from tests.reports.runs import key, store_run, trial

TASKS = 12
SCORES = {"good": 0.9, "fair": 0.5, "weak": 0.1}


def trials(scores: dict[tuple[str, str], float]) -> list[Trial]:
    """Give trials of each model and variant, whose scores vary a little by task."""
    return [
        trial(f"t{task:02}", 1, score + task / 1000, "b", key=key(f"t{task:02}", 1, model, variant))
        for (model, variant), score in scores.items()
        for task in range(TASKS)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Run]:
    """Store a run of these models and variants with these scores."""
    return lambda scores, **header: store_run(tmp_path / "runs", trials(scores), **header)


def labels(sides: Sides) -> list[str]:
    """Give the labels of sides in their order."""
    return [side.label for side in sides.sides]


def by_model(**scores: float) -> dict[tuple[str, str], float]:
    """Give scores of models without variants."""
    return {(model, ""): score for model, score in scores.items()}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (("good",), ["good"]),
        (("fair", "good", "weak"), ["fair", "good", "weak"]),
        (("good@", "good@short"), ["base", "short"]),
        (("fair@", "fair@short", "good@", "good@short"), ["fair", "fair@short", "good", "good@short"]),
        (("a" * 30, "b" * 30), ["A", "B"]),
    ],
)
def test_a_side_is_labelled_by_what_differs(
    store: Callable[..., Run], groups: Sequence[str], expected: list[str]
) -> None:
    """A model, a variant or both name it; letters with a legend stand for long names."""
    pairs = [tuple((*group.split("@"), "")[:2]) for group in groups]
    run = store(dict.fromkeys(pairs, 0.5))
    sides = sides_of([run])
    assert labels(sides) == expected
    assert len(set(labels(sides))) == len(sides)
    assert bool(sides.legend) == (expected == ["A", "B"])
    for line, side in zip(sides.legend, sides.sides, strict=False):
        assert line == f"{side.label}: {side.compared.groups[0][1]}"
        assert side.name.endswith(line.removeprefix(f"{side.label}: "))


def test_runs_of_one_model_are_told_apart_by_their_start(store: Callable[..., Run]) -> None:
    """Three runs alike are three sides; where they began in the same minute, letters stand for them."""
    runs = [store(by_model(good=0.5)) for _ in range(3)]
    sides = sides_of(runs)
    assert len(sides) == 3
    assert labels(sides) == ["A", "B", "C"]
    assert all(run.name in line for run, line in zip(runs, sides.legend, strict=True))


def test_named_models_and_variants_choose_the_sides(store: Callable[..., Run]) -> None:
    """Each model is a side with each variant that is named; a wrong name shows the right ones."""
    groups = {(model, variant): 0.5 for model in SCORES for variant in ("", "short")}
    run = store(groups)
    assert labels(sides_of([run], models=["weak", "good"])) == ["weak", "good"]
    assert labels(sides_of([run], variants=["short", "base"])) == ["short", "base"]
    assert labels(sides_of([run], ["good", "weak"], ["base", "short"])) == [
        "good", "good@short", "weak", "weak@short",
    ]  # fmt: skip
    with pytest.raises(UsageMistake, match=r"has no model 'wek'; it has .*weak"):
        sides_of([run], models=["wek"])
    with pytest.raises(UsageMistake, match=r"has no variant 'shrt'; it has .*short"):
        sides_of([run], variants=["shrt"])


def test_a_report_of_named_models_holds_their_trials_alone(store: Callable[..., Run], tmp_path: Path) -> None:
    """Tables of rows, documents and figures of the run leave the other models out, and its wall time too."""
    run = store(by_model(**SCORES))
    source = report_source([run], models=["good", "weak"])
    (shown,) = source.all_runs
    assert {entry.key.model for entry in shown.entries} == {"good", "weak"}
    write_report(tmp_path / "rows.csv", source)
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 2 * TASKS
    assert not any(side.is_whole_run for side in sides_of([run], models=["good"]).sides)


def test_two_models_with_several_variants_are_compared_variant_by_variant(store: Callable[..., Run]) -> None:
    """A lane holds what belongs together: good with short is never compared with weak without it."""
    groups = {(m, v): SCORES[m] + (0.05 if v else 0.0) for m in ("good", "weak") for v in ("", "short")}
    sides = sides_of([store(groups)], models=["weak", "good"])
    assert [lane.whos for lane in sides.lanes()] == [
        (("weak", ""), ("good", "")),
        (("weak", "short"), ("good", "short")),
    ]
    for lane in sides.lanes():
        part = sides.suite_comparison(0, 1, lane)
        assert part is not None
        assert part.suite is not None
        assert part.suite.change == pytest.approx(0.8)


def test_two_runs_are_two_sides_with_a_lane_for_each_model(store: Callable[..., Run]) -> None:
    """Models are paired by name, and the one of each run that is left is paired with the other's."""
    old, new = store(by_model(good=0.5, weak=0.1)), store(by_model(good=0.9, fair=0.5))
    sides = sides_of([old, new])
    assert len(sides) == 2
    assert [lane.whos for lane in sides.lanes()] == [
        (("weak", ""), ("fair", "")),
        (("good", ""), ("good", "")),
    ]


def test_it_is_said_which_side_beats_which(store: Callable[..., Run]) -> None:
    """Each suite has its best side first; of a pair that nothing tells apart it is said that nothing does."""
    sides = sides_of([store(by_model(weak=0.1, good=0.9, twin=0.9))])
    assert verdict_sentences(sides) == [
        "good beats weak (0.91 to 0.11, p <0.001)",
        "twin beats weak (0.91 to 0.11, p <0.001)",
        "every trial scored the same: good and twin",
    ]
    lines = [line.text for line in sides_lines(sides, 100)]
    rows = [line.split()[0] for line in lines if line.startswith("  ") and "12 of 12" in line]
    assert rows == ["good", "twin", "weak"]


def test_what_is_not_compared_is_said(store: Callable[..., Run], tmp_path: Path) -> None:
    """Sides without comparable scores, pairs that share some of their tasks, and why nothing is found."""

    def tried(tasks: range, score: float | None, ruler: str = "r") -> Run:
        digests = Digests(input="i", ruler=ruler)
        trials = [trial(f"t{task}", 1, score and score + task / 1000, digests=digests) for task in tasks]
        return store_run(tmp_path / "runs", trials)

    sides = [tried(range(12), 0.1), tried(range(20), 0.9), tried(range(8, 14), 0.5)]
    sides += [tried(range(12), None), tried(range(12), 0.9, "another")]
    assert verdict_sentences(sides_of(sides)) == [
        "B beats A (0.91 to 0.11, p <0.001)",
        "cannot tell: too few differences between A and C, B and C",
        "D cannot be compared: it has no scores",
        "E cannot be compared: no task is the same on another side",
        "compared over 12 of 20 tasks only: A and B",
        "compared over 4 of 14 tasks only: A and C",
        "compared over 6 of 20 tasks only: B and C",
    ]
    apart = [tried(range(12), 0.1), tried(range(24), 0.9), tried(range(12, 24), 0.9)]
    assert "no task in common that can be compared: A and C" in verdict_sentences(sides_of(apart))


def test_many_sides_are_compared_with_the_first_alone_and_that_is_said(store: Callable[..., Run]) -> None:
    """Of nine sides no other pair has a verdict, and nobody takes that for a tie."""
    run = store(by_model(**{f"m{at}": 0.1 + 0.1 * (at == 8) for at in range(9)}))
    assert verdict_sentences(sides_of([run])) == [
        "m8 beats m0 (0.21 to 0.11, p <0.001)",
        f"every trial scored the same: {', '.join(f'm0 and m{at}' for at in range(1, 8))}",
        "of 9 sides, each is compared with m0 alone",
    ]


def test_letters_are_explained_where_no_table_names_the_sides(
    store: Callable[..., Run], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The screen of one run whose models have long names says what A and B are; so does its Markdown."""
    run = store({(name * 30, ""): score for name, score in (("a", 0.1), ("b", 0.9))})
    assert main(["report", run.folder.name, "--results", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert out.index("B beats A") < out.index(f"A: {'a' * 30}") < out.index(f"B: {'b' * 30}")
    assert f"B: {'b' * 30}" in report_markdown(report_source([run]))


def test_names_of_sides_stay_names_in_markdown(store: Callable[..., Run]) -> None:
    """It is published as a comment: nobody is mentioned, nothing is linked, no element is made."""
    names = ("@octocat", "[x](http://evil.example)", "<img src=x>", "#1", "`a|b`")
    run = store({(name, ""): 0.1 * at for at, name in enumerate(names)})
    for text in (sides_markdown(sides_of([run])), report_markdown(report_source([run]))):
        plain = [name for name in names if name in text]
        assert plain == []
        assert "octocat" in text


def test_sides_that_nothing_tells_apart_stand_together(store: Callable[..., Run]) -> None:
    """Of four alike and a fifth two sentences say all that 10 pairs would."""
    sides = sides_of([store(by_model(a=0.5, b=0.5, c=0.5, d=0.5, best=0.9))])
    assert verdict_sentences(sides) == [
        "best beats a, b, c and d (p <0.001)",
        "every trial scored the same: a, b, c and d",
    ]


def test_verdicts_of_several_sides_share_one_level(store: Callable[..., Run]) -> None:
    """With three sides each of the three pairs is tested at a third of the level; two sides have it whole."""
    run = store(by_model(**SCORES))
    pair = sides_of([run], models=["good", "weak"]).comparison(0, 1)
    among_three = sides_of([run]).comparison(0, 2)
    assert [suite.levels for suite in pair.suites] == [PLAIN]
    (shared,) = (suite.levels for suite in among_three.suites)
    assert 1 - shared.suite == pytest.approx((1 - LEVEL) / 3)


def test_the_page_mirrors_a_comparison(tmp_path: Path) -> None:
    """Taking the other side as the old one gives what comparing it that way round gives."""
    chance = random.Random(7)
    for _ in range(25):
        runs = [
            store_run(
                tmp_path / "runs",
                [
                    trial(f"t{task}", n, chance.choice((0.0, 0.5, 1.0)), f"b{task % 2}")
                    for task in range(chance.randint(1, 9))
                    for n in (1, 2)
                ],
            )
            for _ in "ab"
        ]
        sides = [side.compared for side in sides_of(runs).sides]
        forwards, backwards = compare_runs(*sides), compare_runs(*reversed(sides))
        for one, other in zip(forwards.suites[0].changes, backwards.suites[0].changes, strict=True):
            mirrored = reversed_change(one)
            assert (mirrored.old, mirrored.new, mirrored.p) == pytest.approx((other.old, other.new, other.p))
            assert mirrored.verdict == other.verdict or {mirrored.verdict, other.verdict} <= {
                "cannot tell", "not worse",
            }  # fmt: skip
            if one.interval and other.interval:
                ends = (mirrored.interval.low, mirrored.interval.high) if mirrored.interval else None
                assert ends == pytest.approx((other.interval.low, other.interval.high), abs=1e-6)


def test_a_task_is_one_row_whatever_the_number_of_sides(store: Callable[..., Run]) -> None:
    """Twelve tasks with three models are 12 rows and 36 trials, each in the cell of its side."""
    index, ordered = page_index(report_source([store(by_model(**SCORES))]))
    assert (len(index["tasks"]), len(index["trials"])) == (TASKS, 3 * TASKS)
    for row in index["tasks"]:
        for side, cell in enumerate(row["sides"]):
            assert [index["trials"][place]["side"] for place in cell["trials"]] == [side]
            assert cell["score"] == index["trials"][cell["trials"][0]]["score"]
    assert [trial.entry.key.label for trial in ordered] == [row["name"] for row in index["trials"]]


def test_a_baselines_file_is_a_side(store: Callable[..., Run], tmp_path: Path) -> None:
    """It has scores and no transcripts, and stands beside runs in any number."""
    run = store(by_model(good=0.5))
    file = tmp_path / "base.json"
    file.write_text(baseline_text(run.header, run.entries), encoding="utf-8")
    sides = sides_of_places([file, run.folder, store(by_model(good=0.9)).folder])
    assert labels(sides)[0] == "baseline" or sides.legend[0].startswith("A: baseline")
    assert sides.sides[0].run is None
    assert sides.comparison(0, 1).suites[0].suite.verdict == "identical"  # type: ignore[union-attr]


def test_compare_and_report_take_any_number_of_sides(
    store: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both show all sides; the status of compare says whether one is worse than the first."""
    results = ["--results", str(tmp_path / "runs")]
    run = store(by_model(**SCORES))
    name = run.folder.name
    assert main(["compare", name, "--models", "weak,fair,good", *results]) == 0
    out = capsys.readouterr().out
    assert "good beats weak" in out
    assert "fair against weak" in out
    assert main(["compare", name, "--models", "good,fair,weak", *results]) == 1
    assert main(["compare", name, "--models", "good", *results]) == 2
    assert "expected two sides or more" in capsys.readouterr().err
    worse, empty = (store(scores).folder.name for scores in (by_model(good=0.5), {}))
    assert main(["compare", name, name, worse, *results]) == 1
    assert main(["compare", worse, worse, *results]) == 0
    assert main(["compare", worse, name, empty, *results]) == 2
    assert f"the two sides share no task ({worse}, good; {empty})" in capsys.readouterr().err
    others = [store(by_model(good=score)).folder.name for score in (0.5, 0.6)]
    assert main(["report", name, *others, "--json", str(tmp_path / "r.json"), *results]) == 0
    figures = json.loads((tmp_path / "r.json").read_text())
    assert [side["figures"]["tasks"] for side in figures["sides"]] == [TASKS] * 5
    assert len(figures["comparisons"]) == 10

"""The end of a run: reviewed screens, 40 lines for three suites, and names that can be copied whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_agenteval.reports.run_screen import MOST_LINES, ScreenParts, fold_rows, misses_block, screen_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import StyledLine, cell_width
from tests.reports import screen_runs
from tests.reports.runs import key, store_run, trial

SCREENS = Path(__file__).parent / "screens"
PARTS = ScreenParts(
    place=".agenteval/runs/20261121-093015-rules",
    next_steps=("agenteval compare 20261120-181502-rules latest", "agenteval report latest -v"),
)
KEPT = {
    "three_suites": [(100, 0), (80, 0), (60, 0), (30, 0), (100, -1)],
    "doubtful": [(100, 0), (60, 0)],
    "several_models": [(100, 0), (80, 0)],
    "hangul": [(100, 0), (40, 0)],
    "all_missed": [(100, 0), (60, 0)],
    "all_passed": [(100, 0), (100, 1)],
    "one_task": [(80, 0)],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """Give the run of each screen, written once."""
    makers: dict[str, Callable[[Path], Run]] = {name: getattr(screen_runs, name) for name in KEPT}
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in makers.items()}


def screen(run: Run, width: int, verbosity: int = 0, parts: ScreenParts = PARTS) -> list[str]:
    """Give all that is printed of a run, as after pytest, but for the lines that separate."""
    figures = screen_lines(view_of(run), width, verbosity, parts)
    lines = [line.text for line in figures]
    title, misses = misses_block(run, width, verbosity, MOST_LINES - len(lines) - 2)
    if verbosity == 0 and misses:
        lines = [f"== {title}", *(line.text for line in misses), "== agent evals", *lines]
    return lines


@pytest.mark.parametrize(
    ("name", "width", "verbosity"),
    [(name, *how) for name, kept in KEPT.items() for how in kept],
)
def test_a_screen_is_as_reviewed(runs: Mapping[str, Run], name: str, width: int, verbosity: int) -> None:
    """Line for line; who changes it on purpose writes the file anew, and reads it."""
    file = SCREENS / f"{name}_{width}{'_quiet' if verbosity < 0 else '_v' if verbosity else ''}.txt"

    text = "\n".join(screen(runs[name], width, verbosity)) + "\n"

    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["three_suites", "all_missed"])
def test_three_suites_take_at_most_40_lines(runs: Mapping[str, Run], name: str) -> None:
    """With the worst misses, the lines that separate, and two commands: whatever went wrong."""
    assert len(screen(runs[name], 100)) <= MOST_LINES


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", KEPT)
def test_names_are_whole_and_lines_fit(runs: Mapping[str, Run], name: str, width: int) -> None:
    """No bucket is cut or broken, as it is to be pasted; no line is wider but for a name, path or command."""
    run = runs[name]
    buckets = {entry.bucket for entry in run.entries}
    lines = [line.text for line in screen_lines(view_of(run), width, 0, PARTS)]

    assert "…" not in "".join(lines)
    rows = [line.strip() for line in lines if line.startswith("  ") and "_" in line and "--" not in line]
    named = [word.strip(",") for row in rows for word in row.split() if "_" in word]
    assert set(named) <= buckets
    wide = [line for line in lines if cell_width(line) > width]
    assert all(line.startswith(("run: ", "next: ", "or: ")) or line.strip(" ,") in buckets for line in wide)


def test_models_of_a_suite_are_a_table_with_the_best_first(tmp_path: Path) -> None:
    """Which is worth its money is seen at once; where a trial is in no average, its count never gives way."""
    scores = {"claude": (0.5, 0.5), "gpt": (1.0, 0.5)}
    trials = [
        trial("", 1, score, key=key(f"t{at}", model=model))
        for model, given in scores.items()
        for at, score in enumerate(given)
    ]

    def rows(run: Run, width: int) -> list[list[str]]:
        lines = [line.text.split() for line in screen_lines(view_of(run), width, -1, PARTS)]
        return [words for words in lines if words[0] in ("s", *scores)]

    whole = store_run(tmp_path / "whole", trials)
    assert [words[:2] for words in rows(whole, 100)] == [["s", "score"], ["gpt", "0.75"], ["claude", "0.50"]]
    assert "trials" in rows(whole, 100)[0]
    assert "trials" not in rows(whole, 30)[0]
    broken = store_run(tmp_path / "broken", [*trials, trial("", 1, None, key=key("t2", model="gpt"))])
    assert "trials" in rows(broken, 30)[0]


def test_large_buckets_with_misses_are_always_there_and_small_ones_while_worst(tmp_path: Path) -> None:
    """Eight small ones are worse than a large one: it is named all the same; the others are counted."""
    buckets = {**{f"small_{at}": 1 for at in range(8)}, "large": 10, "fine": 5}
    scores = [*(at / 10 for at in range(8)), *[1.0] * 9, 0.9, *[1.0] * 5]
    run = store_run(tmp_path, screen_runs.suite_trials("s", buckets, scores), suites=screen_runs.suites("s"))
    lines = [line.text for line in screen_lines(view_of(run), 100, 0, PARTS)]

    head = next(at for at, line in enumerate(lines) if "worst first" in line)
    assert lines[head].startswith("s, worst first (10 buckets, 1 passed in full)")
    names = [line.split()[0] for line in lines[head + 1 : head + 8]]
    assert names == [*(f"small_{at}" for at in range(5)), "large", "3"]
    assert lines[head + 7] == "  3 more with misses (-v)"


def test_the_worst_tasks_are_those_with_the_worst_misses(tmp_path: Path) -> None:
    """Other repetitions and other models move none of them down, nor do they count as more tasks."""
    scores = {"a": (0.1, 0.9), "b": (0.2, 0.3), "c": (0.4, 0.4), "d": (0.5, 1.0), "e": (0.6,), "f": (0.7,)}
    models = ("rules", "nop")
    trials = [
        trial("", 1, score, key=key(task, repetition, model))
        for model in models
        for task, given in scores.items()
        for repetition, score in enumerate(given, 1)
    ]
    title, misses = misses_block(store_run(tmp_path, trials), 80, 0, 9)

    _, _, _, head, *worst = (line.text for line in misses)
    assert [line.split()[1] for line in worst] == ["0.10", "0.20", "0.40", "0.50", "0.60"]
    assert (title, head) == ("why trials missed (18 of 20)", "misses, the worst 5 of 6 tasks (-v shows all)")


def test_an_offline_model_is_explained_once(tmp_path: Path) -> None:
    """Its variants do the same."""
    trials = [
        trial("", 1, 1.0, key=key("a", 1, model, variant))
        for model in ("rules", "nop")
        for variant in ("", "short")
    ]
    notes = tuple(RunModel(name, name, offline=True, note=f"{name} it is") for name in ("rules", "nop"))
    run = store_run(tmp_path, trials, models=notes)
    lines = [line.text for line in screen_lines(view_of(run), 100, 0, PARTS)]

    assert "nop: nop it is; rules: rules it is" in lines


def test_misses_are_told_at_length_where_there_is_room_for_it(tmp_path: Path) -> None:
    """One always, several if all of them fit; else in a line each, the worst three and more as they fit."""
    several = store_run(
        tmp_path, screen_runs.suite_trials("s", {"x": 5}, (0.5,)), suites=screen_runs.suites("s")
    )
    one = screen_runs.one_task(tmp_path)

    told = {
        (room, run is one): (block[0], len(block[1]))
        for run in (several, one)
        for room in (10, 9, 4, 0)
        if (block := misses_block(run, 80, 0, room))
    }

    first = "misses, the worst first"
    assert told == {
        (10, False): (first, 10),
        (9, False): (f"{first} (-v says more)", 5),
        (4, False): ("misses, the worst 4 of 5 tasks (-v shows all)", 4),
        (0, False): ("misses, the worst 3 of 5 tasks (-v shows all)", 3),
        **{(room, True): (first, 2) for room in (10, 9, 4, 0)},
    }


def test_a_verdict_stands_above_and_gates_below(tmp_path: Path) -> None:
    """Whatever the verbosity: the first line is the verdict, the gate is said before where the run is."""
    parts = ScreenParts(
        headline=[StyledLine("card is worse.", "red")], footer=[StyledLine("gate: broken")], place="here"
    )
    view = view_of(screen_runs.one_task(tmp_path))
    for verbosity in (-1, 0, 1):
        lines = [line.text for line in screen_lines(view, 80, verbosity, parts)]
        assert lines[0] == "card is worse."
        assert lines[-1 if verbosity < 0 else -2] == "gate: broken"


def test_a_row_goes_on_below_where_it_has_no_room() -> None:
    """Columns stay columns; a name that is wider than the terminal is not cut."""
    rows = [["a", "0.50", "1 of 2", "3 of 4"], ["이름이_긴_모음", "1.00*", "10 of 20", "3 of 40"]]

    assert list(fold_rows(rows, 32)) == [
        "a               0.50     1 of 2",
        "   3 of 4",
        "이름이_긴_모음  1.00*  10 of 20",
        "  3 of 40",
    ]
    assert next(iter(fold_rows([["x" * 40, "0.50"]], 30))) == "x" * 40

"""The arithmetic of ``tests.extended.performance``: figures, goals, peers that are not there, the page."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.extended.performance import against, page, peers
from tests.extended.performance.__main__ import main
from tests.extended.performance.cases.house import lines_by_kind
from tests.extended.performance.measuring import ProgramFailed, Taken
from tests.extended.performance.program import Program, Rounds, carry_out
from tests.extended.performance.rows import Row, Series, alone, beyond, ratio


def taken(*cpu: float) -> list[Taken]:
    """Give what a program took in rounds that differ in nothing but their seconds."""
    return [Taken(seconds, seconds, 100, "") for seconds in cpu]


def python(code: str, folder: Path, who: str = "floor") -> Program:
    """Give a program of one line."""
    return Program((sys.executable, "-c", code), folder, who)  # type: ignore[arg-type]  # one of the three


def test_a_ratio_is_the_median_of_each_rounds_own() -> None:
    """A round in which the machine was twice as slow for both sides changes nothing."""
    row = ratio("wall", Series((1.2, 2.4, 1.2)), Series((1.0, 2.0, 1.0)), "bare loop", "s", 1.25)

    assert (row.figure, row.spread) == (pytest.approx(1.2), pytest.approx((1.2, 1.2)))
    assert (row.ours, row.beside) == ("1.20 s", "bare loop: 1.00 s")
    assert row.holds is True


def test_a_difference_is_told_in_the_unit_of_its_sides() -> None:
    """What stands over plain pytest is milliseconds, as both of its sides are."""
    row = beyond("unused", Series((220.0, 230.0)), Series((200.0, 200.0)), "plain pytest", "ms", 15)

    assert row.cells() == (
        *("unused", "225 ms", "plain pytest: 200 ms", "25.00 ms", "20.00 to 30.00"),
        *("≤ 15 ms", "**no**"),
    )


def test_a_difference_that_is_noise_is_neither_kept_nor_missed() -> None:
    """Where rounds are further apart than the goal, on both sides of nothing, their median is chance."""
    noise = beyond("unused", Series((500.0, 600.0, 400.0)), Series((490.0, 500.0, 500.0)), "x", "ms", 15)
    small = beyond("unused", Series((500.0, 505.0, 499.0)), Series((500.0, 500.0, 500.0)), "x", "ms", 15)

    assert (noise.holds, noise.cells()[-1]) == (None, "cannot tell")
    assert (small.holds, small.cells()[-1]) == (True, "yes")


def test_a_figure_that_is_not_there_is_neither_kept_nor_missed() -> None:
    """Whatever is made of a series that is absent is absent for the same reason."""
    nothing = Series(absent="not installed")
    rows = [
        ratio("wall", Series((1.0,)), nothing, "inspect_ai", "s", 0.3),
        ratio("wall", nothing, Series((1.0,)), "inspect_ai", "s", 0.3),
        alone("each", (nothing - Series((1.0,))) / 9 * 1000, "ms", 2),
    ]

    assert [row.holds for row in rows] == [None] * 3
    assert [row.absent for row in rows] == ["not installed"] * 3
    assert rows[0].cells() == ("wall", "1.00 s", "inspect_ai", "not installed", "", "≤ 0.3 x", "")


def test_the_table_counts_the_goals_that_hold() -> None:
    """Rows without a goal and rows without a figure are not among them."""
    rows = [Row("a", 1, "x", 1), Row("b", 2, "x", 1), Row("c", 2), Row("d", goal=1, absent="not installed")]

    lines = page.table(rows).splitlines()

    assert lines[2:6] == [
        "| a |  |  | 1 x |  | ≤ 1 x | yes |",
        "| b |  |  | 2 x |  | ≤ 1 x | **no** |",
        "| c |  |  | 2 |  |  |  |",
        "| d |  |  | not installed |  | ≤ 1 |  |",
    ]
    assert lines[-1] == "1 of 2 goals with a figure hold."


def test_the_page_has_what_takes_time_beside_goals_and_peers() -> None:
    """Counts, CPU without a goal and the spread of rounds are in the printed table alone."""
    rows = [
        Row("a: CPU", 1, "s", 2, spread=(0.5, 1.5)),
        Row("b: wall", 2, "x", 1, "4 s", "plain: 2 s"),
        Row("b: wall", 4, "x", 1, "4 s", "inspect_ai: 1 s"),
        Row("b: wall", 2, "x", None, "4 s", "deepeval over a client: 2 s"),
        Row("b: CPU", 2, "x", beside="deepeval"),
        Row("lines", 9, goal=5),
    ]

    assert page.page_table(rows).splitlines() == [
        "|what|ours|beside|figure|goal|",
        "|---|---|---|---|---|",
        "|a: CPU|||1 s|≤ 2 s|",
        "|b: wall|4 s|plain: 2 s|**2 x**|≤ 1 x|",
        "",
        "|what|ours|inspect_ai|pydantic-evals|deepeval|pytest-evals|",
        "|---|---|---|---|---|---|",
        "|b: wall|4 s|1 s, **4 x**, ≤ 1 x||2 s, 2 x||",
        "",
        "Bold figures miss their goal. 1 of 3 goals with a figure hold.",
    ]


@pytest.mark.posix
def test_programs_run_in_turn(tmp_path: Path) -> None:
    """Round after round, so that a machine that slows down does so for all of them."""
    order = tmp_path / "order"
    order.touch()
    programs = {
        name: python(f"with open({str(order)!r}, 'a') as file: file.write({name!r})", tmp_path)
        for name in ("a", "b")
    }

    rounds = carry_out(programs, 2)

    assert order.read_text() == "abab"
    assert [len(rounds.taken[name]) for name in programs] == [2, 2]
    assert min(rounds.each("a", "cpu").values) > 0


@pytest.mark.posix
def test_a_peer_that_fails_is_a_row_that_says_so(tmp_path: Path) -> None:
    """Its last line stands there, it is not run again, and the others go on."""
    failing = python(
        "import sys; print('once', flush=True); sys.exit('the table is not here')", tmp_path, "peer"
    )

    rounds = carry_out({"peer": failing, "gone": "not installed", "ours": python("", tmp_path)}, 2)

    assert rounds.absent == {"gone": "not installed", "peer": "failed: the table is not here"}
    assert "peer" in rounds
    assert "gone" in rounds
    assert len(rounds.each("ours", "wall").values) == 2


@pytest.mark.posix
def test_what_fails_of_ours_is_no_figure(tmp_path: Path) -> None:
    """A run of ours, or a floor, that does not end as it should ends the measurement."""
    with pytest.raises(ProgramFailed, match="ended with 3"):
        carry_out({"ours": python("import sys; sys.exit(3)", tmp_path, "ours")}, 1)


@pytest.mark.posix
@pytest.mark.parametrize("ended", ["1 passed, 1 xfailed in 0.1s", "1 xfailed in 0.1s", "21 passed in 0.1s"])
def test_a_run_in_which_a_trial_missed_is_no_figure(tmp_path: Path, ended: str) -> None:
    """A capability suite ends with 0 all the same; a warning is no reason."""
    missed = replace(python(f"print({ended!r})", tmp_path, "ours"), passed=1)
    with pytest.raises(ProgramFailed, match="expected 1 tests that passed"):
        carry_out({"ours": missed}, 1)

    passed = replace(python("print('1 passed, 2 warnings in 0.1s')", tmp_path, "ours"), passed=1)
    assert len(carry_out({"ours": passed}, 1).taken["ours"]) == 1


@pytest.mark.posix
def test_what_is_measured_knows_of_no_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours would write a report into its summary, and take longer for that."""
    for name in ("GITHUB_STEP_SUMMARY", "PYTEST_ADDOPTS", "AGENTEVAL_MODEL"):
        monkeypatch.setenv(name, "there")
    told = "import os; print([name for name in os.environ if os.environ[name] == 'there'])"
    assert python(told, tmp_path).run().output == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rounds", "0"], "expected a whole number, 1 or more; found '0'"),
        (["first", "--write", "page.md"], "--write puts the whole table into a page"),
        (["--against", "main", "--write", "page.md"], "--write puts the whole table into a page"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is measured."""
    monkeypatch.setattr(sys, "argv", ["performance", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert words in f"{ended.value}{capsys.readouterr().err}"


@pytest.mark.posix
def test_what_did_less_than_it_should_is_no_figure(tmp_path: Path) -> None:
    """What is looked at after a program may find that it has not asked all of its questions."""

    def count() -> dict[str, float]:
        raise ProgramFailed("asked 480 times, not 500")

    peer = Program((sys.executable, "-c", ""), tmp_path, "peer", after=count)

    assert carry_out({"peer": peer}, 1).absent == {"peer": "failed: asked 480 times, not 500"}


def test_peers_are_looked_for_in_their_environments(tmp_path: Path) -> None:
    """Then in this interpreter's; one that is nowhere is told so."""
    here = peers.Peer("venv-pytest", ("pytest",), ("pytest",))
    nowhere = peers.Peer("venv-none", ("no-such-peer",), ("no-such-peer",))

    found = peers.find(tmp_path, {"here": here, "nowhere": nowhere})

    assert found == {
        "here": peers.Installed(sys.executable, f"pytest {pytest.__version__}"),
        "nowhere": "not installed",
    }


def test_every_peer_has_a_program() -> None:
    """By its name, and it is one that Python can read."""
    for name in peers.PEERS:
        file = peers.BESIDE / f"{name.replace('-', '_')}_suite.py"
        compile(file.read_text(encoding="utf-8"), file.name, "exec")


def test_the_table_stands_between_the_marks_of_its_page(tmp_path: Path) -> None:
    """What stands around it stays, what stood between is gone; a page without marks is refused."""
    file = tmp_path / "page.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")

    page.write(file, "new")
    page.write(file, "newer")

    assert file.read_text(encoding="utf-8") == f"before\n{page.BEGIN}\n\nnewer\n\n{page.END}\nafter\n"
    file.write_text(f"{page.END}{page.BEGIN}", encoding="utf-8")
    with pytest.raises(SystemExit, match="in this order; add both lines"):
        page.write(file, "new")


def test_a_program_that_costs_a_tenth_more_is_marked() -> None:
    """Of CPU or of memory; a wall is what else the machine does, too.

    What is not there in the earlier state is told so, and is not dearer.
    """
    rounds = Rounds(
        {
            "before many": taken(2, 2),
            "now many": taken(2.3, 2.3),
            "before few": taken(2, 2),
            "now few": taken(2.1, 2.1),
            "now new": taken(9),
        },
        {"before new": "not in the earlier state"},
    )

    found = [against._change(name, rounds) for name in ("many", "few", "new")]

    assert [change.dearer for change in found] == [True, False, False]
    text = against.table(found)
    assert "| many | 2.00 s | 2.30 s | **1.15 x** | 1.15 x | 1.00 x |" in text
    assert "| new |  |  | not in the earlier state |  |  |" in text
    assert text.endswith("A tenth dearer or more: many.")


def test_the_earlier_state_is_laid_out_from_its_revision(tmp_path: Path) -> None:
    """A revision that git does not know is the user's mistake, and says so without a traceback."""
    if not (against.ROOT / ".git").exists():
        pytest.skip("no repository here")

    assert (against.earlier("HEAD", tmp_path) / "pytest_agenteval" / "plugin.py").is_file()
    with pytest.raises(SystemExit, match=r"--against no-such-revision: .*no-such-revision"):
        against.earlier("no-such-revision", tmp_path)


def test_cases_that_are_not_there_are_refused() -> None:
    """With those that are, and nothing is measured."""
    command = [sys.executable, "-m", "tests.extended.performance", "unsed"]
    done = subprocess.run(command, cwd=against.ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("no such case: unsed; there are unused, first, trials,")


def test_lines_are_counted_by_kind() -> None:
    """A text by itself is a docstring, an import counts with all its lines, other lines are code."""
    source = '"""One\n\ntwo."""\n\nfrom os import (\n    path,\n)\n\n# why\nx = """\n\n"""  # beside\n'

    assert lines_by_kind(source) == {"docstring": 3, "blank": 3, "import": 3, "comment": 1, "code": 2}

"""What a run is at, in a few lines that fit the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.reports.group_statistics import ResourceUse
from pytest_agenteval.reports.progress_panel import (
    Progress,
    RunningScore,
    RunningTrial,
    panel_lines,
    time_left,
    whole_seconds,
)
from pytest_agenteval.text.formatting import cell_width

NOTHING = ResourceUse(Figure(), Figure(), Figure())
SCORES = (RunningScore("pkm", 0.8361), RunningScore("card", 0.7), RunningScore("ko", None))


def progress(**more: Any) -> Progress:
    """Give a run that is half through."""
    figures: dict[str, Any] = {
        "planned": 82,
        "most": 82,
        "ended": 41,
        "in_flight": 10,
        "passed": 24,
        "missed": 15,
        "failed": 0,
        "errored": 2,
        "scores": SCORES,
        "spent": ResourceUse(Figure(285_880), Figure(0.1234), Figure()),
        "judging": ResourceUse(Figure(900), Figure(0.02), Figure()),
        "seconds_left": 170.0,
        "slowest": RunningTrial("pkm/opt_out_zh_quarrel[claude-2]", 72.9),
    }
    return Progress(**(figures | more))


def drawn(columns: int = 100, *, ascii_only: bool = False, **more: Any) -> list[str]:
    """Give the lines of the panel, without their looks."""
    lines = panel_lines(progress(**more), columns, ascii_only=ascii_only)
    return ["".join(piece.text for piece in line) for line in lines]


def test_the_whole_panel() -> None:
    """A word at the left, figures behind it, time and money at the right edge."""
    assert drawn(100) == [
        "",
        "  trials   ━━━━━━━━━━━━────────────   41 of 82   10 in flight                      about 3 min left",
        "  ended    24 passed   15 missed   2 errored              285,880 tokens   $0.1234   judges $0.0200",
        "  score    pkm 0.84   card 0.70   ko -",
        "  slowest  pkm/opt_out_zh_quarrel[claude-2]   1 min 12 s",
    ]


def test_on_a_terminal_of_60_columns_what_matters_most_is_left() -> None:
    """The bar goes first, then tokens; below 60 columns all of it does."""
    assert drawn(60) == [
        "",
        "  trials   41 of 82   10 in flight         about 3 min left",
        "  ended    24 passed   15 missed   2 errored",
        "  score    pkm 0.84   card 0.70   ko -",
        "  slowest  pkm/opt_out_zh_quarrel[claude-2]   1 min 12 s",
    ]
    assert drawn(59) == []


@pytest.mark.parametrize("columns", [60, 61, 80, 100, 120, 300])
def test_no_line_reaches_the_last_column(columns: int) -> None:
    """However long names are, wide ones too, and however many suites: whole lines never wrap."""
    scores = tuple(RunningScore(f"{'가' * 40}{n}", 0.5) for n in range(9))
    lines = drawn(columns, scores=scores, slowest=RunningTrial("나" * 150, 4000.0), failed=123_456)
    assert max(map(cell_width, lines)) <= min(columns, 120) - 1
    assert "more" in lines[3]


@pytest.mark.parametrize("columns", [76, 80, 100])
def test_the_bar_and_the_counts_stand_still(columns: int) -> None:
    """Whatever has ended, and whether anybody can tell when the run ends."""
    lines = [
        drawn(columns, ended=ended, in_flight=in_flight, planned=823, most=823, seconds_left=left)[1]
        for ended, in_flight, left in ((0, 9, None), (99, 100, None), (100, 10, 5.0), (823, 0, 100.0))
    ]
    assert len({line.index(" of 823") for line in lines}) == 1
    assert all("━" in line or "─" in line for line in lines)


def test_quick_trials_are_not_named_as_slow() -> None:
    """Their names would flicker."""
    assert drawn(slowest=RunningTrial("pkm/quick[rules-1]", 0.9))[4] == "  slowest  -"


def test_what_is_not_known_is_not_said() -> None:
    """No time before there is a base for it, no price that nobody knows, nobody in flight."""
    trials, ended, scores, slowest = drawn(
        seconds_left=None,
        slowest=None,
        scores=(RunningScore("ko", None),),
        spent=ResourceUse(Figure(12), Figure(0, 3), Figure()),
        judging=NOTHING,
    )[1:]
    assert "left" not in trials
    assert ended.endswith("12 tokens   cost unknown")
    assert (scores, slowest) == ("  score    ko -", "  slowest  -")


def test_an_offline_run_spends_nothing_and_says_nothing_of_it() -> None:
    """Models without usage, such as those of a callable."""
    assert drawn(spent=NOTHING, judging=NOTHING)[2] == "  ended    24 passed   15 missed   2 errored"


def test_repetitions_that_are_undecided_show_as_a_range() -> None:
    """As the head of the run says it."""
    assert "41 of 82 to 246   10 in flight" in drawn(most=246)[1]


def test_graded_again_no_agent_is_paid() -> None:
    """Its tokens are of the run before; judges' are of this one."""
    lines = drawn(is_regraded=True)
    assert lines[1].startswith("  graded   ")
    assert lines[2].endswith("judges $0.0200")
    assert "tokens" not in lines[2]


def test_a_terminal_that_knows_ascii_only() -> None:
    """The bar is drawn with what there is."""
    assert "############------------   41 of 82" in drawn(ascii_only=True)[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3, "a few seconds left"),
        (14, "about 10 s left"),
        (54, "about 50 s left"),
        (55, "about 1 min left"),
        (200, "about 3 min left"),
        (3540, "about 59 min left"),
        (3600, "about 1 h left"),
        (4790, "about 1 h 20 min left"),
    ],
)
def test_time_left_is_rough(seconds: float, text: str) -> None:
    """A figure that changed with every look would say more than anybody knows."""
    assert time_left(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0 s"), (65, "1 min 05 s"), (3725, "1 h 02 min")])
def test_a_trial_in_flight_is_timed_in_whole_seconds(seconds: float, text: str) -> None:
    """Tenths would flicker."""
    assert whole_seconds(seconds) == text

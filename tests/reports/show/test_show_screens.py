"""One trial, and the same of two runs, on the terminal: reviewed screens, and what no text may do to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, Grade
from pytest_agenteval.records.transcript import Message, Transcript
from pytest_agenteval.reports.difference_screen import difference_lines
from pytest_agenteval.reports.trial_screen import Detail, TrialPlace, file_lines, reason_lines, trial_lines
from pytest_agenteval.reports.trial_view import FileChange, Hunk, trial_view
from pytest_agenteval.text.formatting import StyledLine, cell_width

from .sample_trials import FLIGHTS, GRADES, OUTCOME, PAINT, SYSTEM, TRIAL, views

SCREENS = Path(__file__).parent / "screens"
RUN = "20261121-093015-claude"
PLACE = TrialPlace(RUN, f".agenteval/runs/{RUN}/transcripts-main.jsonl:0")
OLD_PLACE = TrialPlace("20261120-181502-opus")


def shown(width: int, full: bool = False) -> list[StyledLine]:
    """Give the screen of the missed trial."""
    return list(trial_lines(views()[0], PLACE, Detail(width, full)))


def compared(width: int, full: bool = False) -> list[StyledLine]:
    """Give the screen of the better trial, as the old one, and the missed one."""
    new, old = views()
    return list(difference_lines(old, new, (OLD_PLACE, PLACE), Detail(width, full)))


def painted(line: StyledLine) -> str:
    """Write a line with its look before it, and with the looks of its parts around them."""
    text, start = "", 0
    for span in line.spans:
        text += f"{line.text[start : span.start]}<{span.style}>{line.text[span.start : span.end]}</>"
        start = span.end
    return f"{line.style:<7}|{text}{line.text[start:]}\n"


@pytest.mark.parametrize(
    ("name", "width"),
    [("trial", 80), ("trial", 100), ("trial", 140), ("trial_full", 100), ("diff", 100), ("diff", 140)],
)
def test_a_screen_is_as_reviewed(name: str, width: int) -> None:
    """Line for line, with its colours; who changes it on purpose writes the file anew, and reads it."""
    lines = compared(width) if name == "diff" else shown(width, name == "trial_full")

    text = "".join(map(painted, lines))

    assert text == (SCREENS / f"{name}_{width}.txt").read_text(encoding="utf-8")


def every_screen() -> Iterator[tuple[int, bool, list[StyledLine]]]:
    """Give the screens of many widths."""
    for width in (30, 60, 80, 119, 120, 200):
        for full in (False, True):
            yield width, full, shown(width, full)
            yield width, full, compared(width, full)


def test_no_text_paints_the_terminal_and_lines_fit() -> None:
    """Escapes and turned writing are written out; only paths, names and what is full run over the width."""
    for width, full, lines in every_screen():
        for line in lines:
            assert line.text.isprintable(), line
            whole = full or "task.json" in line.text or "transcripts-" in line.text
            assert whole or cell_width(line.text) <= width, (width, line)


def test_full_leaves_nothing_out() -> None:
    """Every line of every text stands there: prompts, arguments, results, rationales."""
    text = "\n".join(line.text for line in shown(80, full=True))

    folded = (*SYSTEM.splitlines(), str(FLIGHTS[2]["price"]), "First the flights", GRADES[0].rationale)
    for part in folded:
        assert part in text
    assert "(--full)" not in text
    assert "…" not in text


def test_a_fold_says_that_there_is_more() -> None:
    """A long message is cut after some lines, and the line that says so names its size and the way to it."""
    message = Message("user", "\n".join(f"line {at}" for at in range(500)))
    trial = replace(TRIAL, transcript=Transcript((message,)))

    lines = [line.text.strip() for line in trial_lines(trial_view(trial), PLACE, Detail(80))]

    assert "line 11" in lines
    assert "line 12" not in lines
    assert "… 500 lines, 4,389 characters in all (--full)" in lines


@pytest.mark.parametrize("full", [False, True])
def test_huge_texts_take_no_time(full: bool) -> None:
    """Ten megabytes in one word, which breaking into lines would take hours for; full, all of it is given."""
    trial = replace(TRIAL, transcript=Transcript((Message("user", "가" * 10_000_000),)))

    lines = list(trial_lines(trial_view(trial), PLACE, Detail(80, full)))

    longest = max(len(line.text) for line in lines)
    assert longest > 10_000_000 if full else longest < 200


def test_equal_trials_differ_in_nothing() -> None:
    """No section is made up: the grades and the steps are counted, and that is all."""
    view = views()[0]

    lines = [line.text.strip() for line in difference_lines(view, view, (PLACE, PLACE), Detail(100))]

    older = trial_view(replace(TRIAL, digests=replace(TRIAL.digests, sent={"1": "x"})))
    of_older = [line.text for line in difference_lines(older, view, (PLACE, PLACE), Detail(100))]
    assert "  No difference found in task, prompts, settings, tools or code." in of_older, (
        "what was sent is unknown of one side"
    )
    assert "No difference found in task, prompts, settings, tools or code." in lines
    assert "4 grades unchanged" in lines
    assert "… 4 messages, 3 calls the same" in lines
    assert PAINT not in "".join(lines)


def test_answers_that_are_both_blank_differ_in_nothing_to_see() -> None:
    """No section is made of it."""
    old, new = (
        trial_view(replace(TRIAL, outcome=replace(OUTCOME, answer=Answer(text)))) for text in ("", "\n")
    )

    assert "answer" not in [line.text for line in difference_lines(old, new, (PLACE, PLACE), Detail(100))]


def test_a_held_out_trial_is_called_so() -> None:
    """Whoever works on prompts has to see that this is not for him to look at."""
    for split in ("held_out", "dev", None):
        lines = trial_lines(trial_view(replace(TRIAL, split=split)), PLACE, Detail(80))
        assert any("held out" in line.text for line in lines) == (split == "held_out")


def test_grades_of_which_there_is_no_more_to_say_share_a_line() -> None:
    """Those that no judge decided for one reason; and those that no score fails are not called passed."""
    grades = (
        *(Grade(name, None, "no judge: --agent-judge", undecided="no_judge") for name in ("kind", "short")),
        Grade("odd", None, "other", undecided="no_judge"),
        Grade("ratio", 0.0, "none", threshold=0.0),
        Grade("exact", 1.0, "fine"),
    )
    lines = [line.text for line in reason_lines(trial_view(replace(TRIAL, grades=grades)), Detail(80))]

    assert lines[1:] == [
        "  kind, short  undecided (no_judge)",
        "    no judge: --agent-judge",
        "  odd  undecided (no_judge)",
        "    other",
        "  passed: exact 1.00",
        "  measured, any score passes: ratio 0.00",
    ]


def test_checks_that_claim_the_same_are_compared_one_by_one() -> None:
    """As where a grader asks one question of each file."""
    sides = [
        replace(TRIAL, grades=(Grade("files", 0.5, "", tuple(Check("is valid", passed) for passed in all)),))
        for all in ((False, False), (True, False))
    ]
    old, new = map(trial_view, sides)
    lines = [line.text.strip() for line in difference_lines(old, new, (PLACE, PLACE), Detail(100))]

    assert [line for line in lines if "is valid" in line] == ["not met -> ok: is valid"]


@pytest.mark.parametrize("width", [80, 140])
def test_a_difference_at_the_end_of_a_long_text_is_shown(width: int) -> None:
    """Two prompts that differ in their last line alone: the lines before it are counted; answers likewise."""
    rules = [f"Rule {at}: say nothing that you do not know." for at in range(40)]
    old, new = (
        replace(
            TRIAL,
            transcript=Transcript(
                (Message("system", "\n".join([*rules, last])), Message("assistant", "Done.", turn=1))
            ),
            outcome=replace(OUTCOME, answer=Answer("\n".join([*rules, last]))),
        )
        for last in ("Be short and kind.", "Be short and brief.")
    )
    places = (OLD_PLACE, PLACE)

    lines = [line.text for line in difference_lines(trial_view(old), trial_view(new), places, Detail(width))]

    words = [line.strip() for line in lines if "Be short" in line]
    both = ["Be short and [-kind-]{+brief+}."] * 2
    beside = [f"{'    Be short and [-kind-].':68} |     Be short and {{+brief+}}.".strip()] * 2
    assert words == (beside if width > 100 else both)
    assert len([line for line in lines if "37 lines the same" in line]) == 2
    assert not [line for line in lines if "Rule 9:" in line]


def test_a_path_is_shown_as_it_is() -> None:
    """Two blanks are two, and what could turn the line is written out so that it can be typed."""
    lines = [*file_lines(FileChange("a  b\tc\u202e.md", "created", "empty"), Detail(80))]

    assert [line.text for line in lines] == ["  a  b\\tc\\u202e.md  created, empty"]


def test_a_reply_without_a_word_says_so() -> None:
    """Else it looks as if something was left out."""
    trial = replace(TRIAL, transcript=Transcript((Message("assistant", "", turn=1),)))

    lines = [line.text for line in trial_lines(trial_view(trial), PLACE, Detail(80))]

    assert lines[lines.index("  assistant  turn 1") + 1] == "    (empty)"


def test_a_files_diff_can_be_applied() -> None:
    """A new file's comes after line 0 of nothing, as patch wants it."""
    change = FileChange("a", "created", hunks=(Hunk(1, 1, (("+", None, "x"),)),))

    assert [line.text.strip() for line in file_lines(change, Detail(80))][1:] == ["@@ -0,0 +1,1 @@", "+x"]

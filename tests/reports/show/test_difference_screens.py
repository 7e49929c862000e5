"""Two trials beside each other on the terminal: by words, with marks that need no colour, and bounded."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Outcome, Tree
from pytest_agenteval.records.transcript import Event, Message, ToolCall, Transcript
from pytest_agenteval.reports.difference_screen import difference_lines
from pytest_agenteval.reports.trial_screen import Detail, TrialPlace
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.text.formatting import StyledLine, cell_width
from tests.reports.runs import trial
from tests.store.samples import file

from .sample_trials import PAINT

PLACES = (TrialPlace("old"), TrialPlace("new"))


def compared(
    old: Transcript, new: Transcript, width: int = 100, full: bool = False, **fields: Any
) -> list[StyledLine]:
    """Give the screen of two trials with these transcripts; ``fields`` are pairs of old and new values."""
    sides = [
        trial_view(
            trial("a", 1, 1.0, transcript=transcript, **{name: pair[at] for name, pair in fields.items()})
        )
        for at, transcript in enumerate((old, new))
    ]
    return list(difference_lines(*sides, PLACES, Detail(width, full)))


def part(lines: list[StyledLine], title: str) -> list[str]:
    """Give the texts below a title."""
    texts = [line.text for line in lines]
    start = texts.index(title) + 1
    end = texts.index("", start) if "" in texts[start:] else len(texts)
    return texts[start:end]


def turn(number: int, content: str = "", *calls: ToolCall) -> Message:
    """Give what a model said and requested in a turn."""
    return Message("assistant", content, calls, turn=number)


def called(number: int, tool: str, result: Any, **args: Any) -> ToolCall:
    """Give a call that was carried out."""
    return ToolCall(f"c{number}", number, 0, tool, args, result=result)


ASKED = (Message("system", "Be kind."), Message("user", "환불해 주세요."))
OLD_CALL = called(1, "find_order", {"id": 7, "state": "sent"}, query="order of Mina", limit=5)
NEW_CALL = called(1, "find_order", {"id": 7, "state": "lost"}, query="orders of Mina", limit=5)
SAVED = called(2, "save", "ok", path="/notes.md")
OLD = Transcript(
    (*ASKED, turn(1, "I look first.", OLD_CALL), turn(2, "", SAVED),
     turn(3, "환불이 완료되었습니다. 3일 걸립니다.")),
    (OLD_CALL, SAVED),
    events=tuple(Event(at / 10, "prompt_read", "system") for at in range(11)),
)  # fmt: skip
READ = called(1, "read", "nothing here", path="/notes.md")
NEW = Transcript(
    (
        *ASKED, turn(1, "I look first.", READ, NEW_CALL), turn(2, "", replace(SAVED, tape="hit")),
        turn(3, "환불이 접수되었습니다. 5일 걸립니다."),
    ),
    (READ, NEW_CALL, SAVED),
    events=(*OLD.events, Event(2.0, "retry", "429, asked again")),
)  # fmt: skip


def test_a_conversation_begins_where_it_parts_and_marks_words() -> None:
    """What is the same is counted, calls of one tool are compared argument by argument, events are a line."""
    lines = compared(OLD, NEW)

    assert part(lines, "conversation") == [
        "  … 3 messages the same",
        f"  {'-- first difference: step 4, turn 1 ':-<98}",
        '+     read(path="/notes.md") -> "nothing here"',
        "~   find_order  (limit: the same)",
        "      query: [-order-]{+orders+} of Mina",
        "      → {",
        '        "id": 7,',
        '        "state": "[-sent-]{+lost+}"',
        "      }",
        "  … 1 call the same",
        "~   assistant  turn 3",
        "      환불이 [-완료-]{+접수+}되었습니다. [-3-]{+5+}일 걸립니다.",
    ]
    assert part(lines, "events") == ["  retry 0 -> 1   11 prompt read as before"]
    looks = {(line.text[span.start : span.end], span.style) for line in lines for span in line.spans}
    assert {("[-완료-]", "red"), ("{+접수+}", "green")} <= looks


def test_in_a_wide_terminal_each_side_has_its_own_words() -> None:
    """Both are columns of equal width, whatever letters they are of; and no line runs over."""
    lines = compared(OLD, NEW, width=140)

    texts = part(lines, "conversation")
    assert (
        next(text for text in texts if "완료" in text).split(" | ")[1]
        == "    환불이 {+접수+}되었습니다. {+5+}일 걸립니다."
    )
    assert {cell_width(text.partition(" | ")[0]) for text in texts if " | " in text} == {68}
    assert all(cell_width(line.text) <= 140 for line in lines)


def test_texts_of_two_agents_cannot_paint() -> None:
    """Escapes are written out inside of marks, too, and the looks of words stay on these words."""
    old, new = (
        Transcript((turn(1, f"So {word} {PAINT} it ends\n[-x-]\tand{word}"),)) for word in ("one", "two")
    )
    for width in (30, 60, 100, 140):
        for full in (False, True):
            for line in compared(old, new, width, full):
                assert line.text.isprintable()
                assert full or cell_width(line.text) <= width
                for span in line.spans:
                    assert 0 <= span.start < span.end <= len(line.text)


def test_files_changed_differently_are_compared_and_others_counted() -> None:
    """By what each trial did to them, word by word; a file that one left alone says so."""
    before = Tree({"a.md": file("# Notes\n- tea\n"), "b.md": file("b\n")})
    outcomes = [
        Outcome(
            Answer(""),
            before,
            Tree({"a.md": file(f"# Notes\n- {what}\n"), "b.md": file(b), "c.md": file("c\n")}),
        )
        for what, b in (("green tea", "b\n"), ("black tea", "B\n"))
    ]
    texts = part(compared(OLD, OLD, outcome=outcomes), "workspace")

    assert texts[0] == "~   a.md  changed differently"
    assert texts[texts.index("-   b.md  not changed") + 1] == "+   b.md  modified"
    assert "      +- [-green-]{+black+} tea" in texts
    assert texts[-1] == "  1 file with the same changes"


@pytest.mark.parametrize("length", [25_000, 10_000_000])
def test_long_texts_are_bounded_and_say_what_is_left_out(length: int) -> None:
    """A screen is some pages long, however long its texts are; in full, nothing is left out."""
    long = "".join(f"word{at} " for at in range(length // 10))
    sides = [
        Transcript(tuple(turn(at, f"{at} {word} {long}{word}") for at in range(1, 6)))
        for word in ("one", "two")
    ]
    begun = time.monotonic()
    lines = compared(*sides)

    assert time.monotonic() - begun < 20
    assert len(lines) < 200
    assert max(len(line.text) for line in lines) <= 100
    assert any("the same …" in line.text or "in all: --full" in line.text for line in lines)
    if length < 1_000_000:
        whole = "\n".join(line.text for line in compared(*sides, full=True))
        assert whole.count("word2499") == 5
        assert "--full" not in whole


def test_of_many_steps_that_differ_the_first_are_shown() -> None:
    """The others are counted."""
    sides = [Transcript(tuple(turn(at, f"{word} {at}") for at in range(1, 301))) for word in ("one", "two")]
    texts = part(compared(*sides), "conversation")

    assert "[-one-]{+two+} 1" in texts[2]
    shown = sum("[-one-]" in text for text in texts)
    assert texts[-1] == f"  and {300 - shown} more differing steps (--full)"
    assert sum("[-one-]" in text for text in part(compared(*sides, full=True), "conversation")) == 300

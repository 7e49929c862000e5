"""The table as it is read: exact, aligned, and within the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.reports.run_screen import miss_lines, screen_lines
from pytest_agenteval.reports.run_view import RunView, view_of
from pytest_agenteval.text.formatting import (
    align_columns,
    cell_width,
    format_figure,
    shorten_middle,
    wrap,
)

from .runs import MIXED, PLANNED, store_run, trial

WHOLE = """\
s with rules: rule-based, no LLM (capability)
  bucket  tasks  passed  score  95 %  trials  full  pass@1  pass^2  pass@2
  x           2       2   0.88     -  3 of 4  0.67    0.75    0.00    1.00
  y           2       0   0.00     -  2 of 4  0.00    0.00    0.00    0.00
  all         4       2   0.58     -  5 of 8  0.40    0.50    0.00    0.50
  2 of 3 decided tasks passed; full score in 0.40 of trials
  1 errored, in no average: 1 provider
  2 not run
  pass^2 and pass@2 are over the 2 of 4 tasks with 2 averaged trials
  agents 0.0 s
"""

NARROW = """\
  bucket tasks score 95 % trials pass@1 pass^2
  x          2  0.88    - 3 of 4   0.75   0.00
  y          2  0.00    - 2 of 4   0.00   0.00
  all        4  0.58    - 5 of 8   0.50   0.00
  no room for columns: passed, full, pass@2
"""


def tables(view: RunView, width: int) -> list[str]:
    """Give what -v shows below the suites."""
    lines = [line.text for line in screen_lines(view, width, 1)]
    return lines[lines.index("") + 1 :]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_the_table_at_80_columns(tmp_path: Path) -> None:
    """Every figure stands below its title, errors and what never ran stand beside the averages."""
    run = store_run(tmp_path, MIXED, PLANNED)
    lines = tables(view_of(run), 80)

    assert _text(lines) == f"{WHOLE}\nrun: {run.folder}\n"


def test_what_has_no_room_is_named(tmp_path: Path) -> None:
    """At 48 columns some figures are left out, and the table says which; at 30 no line is wider."""
    view = view_of(store_run(tmp_path, MIXED, PLANNED))

    assert _text(tables(view, 48)[1:6]) == NARROW
    assert all(cell_width(line.text) <= 30 for line in screen_lines(view, 30, 1)[:-1])


def test_one_bucket_and_one_repetition_need_no_more_than_that(tmp_path: Path) -> None:
    """No second line for all, and nothing of k where k is 1."""
    lines = tables(view_of(store_run(tmp_path, [trial("a", 1, 1.0)])), 80)

    assert lines[1].split() == ["bucket", "tasks", "passed", "score", "95", "%", "trials", "full", "pass@1"]
    assert lines[2].split() == ["x", "1", "1", "1.00", "-", "1", "of", "1", "1.00", "1.00"]
    assert lines[3] == "  1 of 1 task passed; full score in 1.00 of trials"


BUCKETS = [
    "positive_with_a_name_that_does_not_end_soon_1",
    "생일_카드_한국어_이름이_아주_긴_버킷_하나",
    "축하🎂🎂🎂" * 9,
    "b",
]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_columns_stay_aligned_whatever_the_names(tmp_path: Path, width: int) -> None:
    """Long, Korean and emoji names stand whole, beside their figures or above; no line is too wide."""
    trials = [trial(f"t{place}", 1, 0.5, bucket) for place, bucket in enumerate(BUCKETS)]
    lines = tables(view_of(store_run(tmp_path, trials)), width)[1:-4]

    figures = [line for line in lines if line.endswith(("0.50", "0.00", "pass@1"))]
    assert len(figures) == 6
    assert len({cell_width(line) for line in figures}) == 1
    assert all(cell_width(line) <= width for line in lines)
    assert all(bucket in "".join(line.strip() for line in lines) for bucket in BUCKETS[:2])


def test_misses_say_who_and_why(tmp_path: Path) -> None:
    """What each grader found, worst first."""
    grade = Grade("needles", 0.5, "", (Check("has x", True), Check("has y", False, "y", "z")))
    trials = [
        trial("a", 2, 0.6),
        trial("a", 1, 0.5, grades=(grade,)),
        trial("b", 1, 0.75),
        trial("c", 1, None, message="503 from the provider\nretry: pytest evals"),
    ]
    lines = [line.text for line in miss_lines(store_run(tmp_path, trials))]
    named = [line for line in lines if line.startswith(("MISSED", "ERROR"))]

    assert lines[:2] == ["MISSED 0.50  s/a[rules-1]", "    needles  0.50  1 of 2 checks failed"]
    assert "      not met: has y" in lines
    assert lines[lines.index("ERROR  s/c[rules-1]") + 1] == "  provider: 503 from the provider"
    assert [name.split()[-1] for name in named] == [
        f"s/{name}" for name in ("a[rules-1]", "a[rules-2]", "b[rules-1]", "c[rules-1]")
    ]


def test_a_name_cannot_paint_the_terminal(tmp_path: Path) -> None:
    """Escapes in foreign text are written out."""
    run = store_run(tmp_path, [trial("\x1b[31m", 1, 0.5, "\x1b[2J")])
    text = _text([line.text for line in [*screen_lines(view_of(run)), *miss_lines(run)]])

    assert "\x1b" not in text
    assert "\\x1b[31m" in text


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("생일", 4),
        ("\u1112\u1161\u11ab", 2),
        ("e\u0301", 1),
        ("🎂", 2),
        ("❤\ufe0f", 2),
        ("👩\u200d🚀", 2),
        ("Ｆ", 2),
        ("…", 1),
        ("a\u200bb", 2),
    ],
)
def test_columns_that_a_text_takes(text: str, width: int) -> None:
    """Hangul (composed or as macOS decomposes it) and emoji take two, marks and joined characters none."""
    assert cell_width(text) == width


TEXTS = st.text(max_size=40) | st.text(st.sampled_from("a 생🎂❤…\u200d\ufe0f\u0301\u1161"), max_size=40)


@given(TEXTS, st.integers(0, 30))
def test_a_cut_text_fits(text: str, most: int) -> None:
    """It never takes more columns than it may, and a text that fits is left alone."""
    assert cell_width(shorten_middle(text, most)) <= most
    assert cell_width(text) > most or shorten_middle(text, most) == text


def test_a_text_is_cut_in_its_middle() -> None:
    """Both ends stay, as names often differ at the end."""
    assert shorten_middle("positive_birthday_1", 11) == "posit…day_1"
    assert shorten_middle("생일카드", 6) == "생…드"


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
def test_aligned_rows_have_one_width(rows: list[tuple[str, str]]) -> None:
    """Whatever the characters."""
    assert len({cell_width(line) for line in align_columns(rows)}) == 1


@given(st.text(st.sampled_from("ab 생🎂"), max_size=60), st.integers(10, 30))
def test_a_wrapped_line_loses_nothing_and_fits(text: str, width: int) -> None:
    """Breaking adds only spaces and line ends."""
    lines = wrap(text, width)

    assert "".join("".join(lines).split()) == "".join(text.split())
    assert text.startswith(" ") or all(cell_width(line.rstrip()) <= width for line in lines)
    assert all(line == line.rstrip() for line in lines[:-1])


def test_figures_are_never_rounded_to_what_they_are_not() -> None:
    """A mean of 0.999 is not full, and one of 0.001 is not nothing."""
    assert [format_figure(value) for value in (1.0, 0.999, 0.5, 0.001, 0.0, None)] == [
        "1.00",
        "0.99",
        "0.50",
        "0.01",
        "0.00",
        "-",
    ]

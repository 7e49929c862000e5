"""Files of labels: both forms say the same, and everything wrong with one is told at once."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.calibration.labels import LabelledExample, describe_label_sources, read_labels
from pytest_agenteval.graders.judge.rubric import Rubric, read_rubric
from pytest_agenteval.text.errors import ProblemsFound
from tests.calibration.judges import RUBRIC, jsonl, rows

TIDY: Rubric = read_rubric(RUBRIC)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
LABELS = st.dictionaries(st.sampled_from(["order", "tone"]), st.floats(0, 1), min_size=1)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which pytest runs, so that paths in messages are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems_of(path: Path, **more: Any) -> list[str]:
    """Give the problems of a file, each on one line."""
    with pytest.raises(ProblemsFound) as found:
        read_labels(path, TIDY, **more)
    return [" | ".join(line.strip() for line in str(each).splitlines()) for each in found.value.problems]


def test_json_lines_are_read(here: Path) -> None:
    """Each line is an example: what the rubric shows by name, the output instead, labels from 0 to 1."""
    path = here / "tidy.jsonl"
    path.write_text(jsonl([*rows(1), {"input": "Hi", "output": "o", "scores": {"tone": 1}}]) + "\n")

    first, second = read_labels(path, TIDY)

    assert first == LabelledExample(
        "letter_0",
        {"letter": "Dear friend 0", "reply": "order 0.0 tone 0.0"},
        "reply",
        {"order": 0.0, "tone": 0.0},
        "constructed",
    )
    assert (second.id, second.given, second.judged) == ("line-2", {"letter": "Hi"}, "o")
    assert (second.labels, second.source) == ({"tone": 1.0}, "human")


@pytest.mark.parametrize("head", ["input.letter,output,score.order,score.tone", "input,output,order,tone"])
def test_csv_says_the_same_in_columns(here: Path, head: str) -> None:
    """Columns are named in full or shortly; an empty cell is no label; a cell may hold lines and commas."""
    path = here / "labels.csv"
    path.write_text(f'\ufeff{head}\r\n"Dear, all",done,0.5,\r\n\r\nsecond,"a\r\nb",1,0\r\n', newline="")

    first, second = read_labels(path, TIDY)

    assert first.values == {"letter": "Dear, all", "reply": "done"}
    assert (first.id, first.labels, first.source) == ("line-2", {"order": 0.5}, "human")
    assert (second.id, second.judged, second.labels) == ("line-4", "a\r\nb", {"order": 1.0, "tone": 0.0})


@given(st.lists(st.tuples(TEXTS, TEXTS, LABELS), min_size=1, max_size=6))
def test_both_forms_hold_the_same_examples(
    tmp_path_factory: pytest.TempPathFactory, examples: list[tuple[str, str, dict[str, float]]]
) -> None:
    """Whatever the texts, a CSV file and a file of JSON lines with the same content are read alike."""
    folder = tmp_path_factory.mktemp("both")
    parts = [(f"x{at}", *example) for at, example in enumerate(examples)]
    whole = [
        {"id": id, "input": {"letter": letter}, "output": output, "scores": labels}
        for id, letter, output, labels in parts
    ]
    (folder / "a.jsonl").write_text(jsonl(whole), encoding="utf-8")
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["id", "input.letter", "output", "score.order", "score.tone"])
    for id, letter, output, labels in parts:
        writer.writerow([id, letter, output, labels.get("order", ""), labels.get("tone", "")])
    (folder / "a.csv").write_text(table.getvalue(), encoding="utf-8", newline="")

    assert read_labels(folder / "a.csv", TIDY) == read_labels(folder / "a.jsonl", TIDY)


def test_another_scale_comes_out_as_0_to_1(here: Path) -> None:
    """Labels from 1 to 5 are mapped; unsaid, such a number is refused, with the way to say it."""
    path = here / "five.jsonl"
    path.write_text(jsonl([{"input": "a", "output": "b", "scores": {"tone": 4, "order": 1}}]))

    (example,) = read_labels(path, TIDY, (1.0, 5.0))

    assert example.labels == {"tone": 0.75, "order": 0.0}
    assert problems_of(path) == [
        "five.jsonl:1: scores.tone | expected: a number from 0 to 1 | found:    4 (number) | "
        "hint:     another scale is `scale: [1, 5]` in the calibration file, or --scale 1 5"
    ]


def test_every_problem_of_json_lines_is_told_at_once(here: Path) -> None:
    """File, line, key, what was expected, what was found, and what may have been meant."""
    path = here / "broken.jsonl"
    lines = [
        '{"id": "a", "input": {"leter": "x"}, "output": "y", "scores": {"ordr": 1}}',
        '{"id": "a", "input": "x", "output": "y", "scores": {"tone": 2}, "scale": [1, 0]}',
        '{"id": "a", "input": "x", "output": 5, "scores": {"order": "high", "tone": true}}',
        '{"input": "x", "output": "y", "scores": {}, "label_source": "humen", "extra": 1}',
        "[1]",
        '{"input": "x", "input": "y"}',
        '{"input": "x", "output": "y", "scores": {"tone": NaN}}',
        '{"input": ',
        "",
        '{"scores": {"tone": 1}}',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")

    problems = problems_of(path)

    places = [problem.split(" | ")[0] for problem in problems]
    assert places == [
        "broken.jsonl:1: input.leter",
        "broken.jsonl:1: scores.ordr",
        "broken.jsonl:1: input",
        "broken.jsonl:2: id",
        "broken.jsonl:2: scale",
        "broken.jsonl:3: output",
        "broken.jsonl:3: scores.order",
        "broken.jsonl:3: scores.tone",
        "broken.jsonl:4: scores",
        "broken.jsonl:4: label_source",
        "broken.jsonl:4: extra",
        "broken.jsonl:5",
        "broken.jsonl:6",
        "broken.jsonl:7",
        "broken.jsonl:8",
        "broken.jsonl:10: output",
    ]
    assert "hint:     did you mean 'letter'?" in problems[0]
    assert "hint:     did you mean 'order'?" in problems[1]
    assert "found:    'a', which line 1 has too" in problems[3]
    assert "found:    1 and 0" in problems[4]
    assert "the key 'input' a second time" in problems[12]
    assert "NaN, which JSON does not know" in problems[13]


def test_every_problem_of_a_csv_file_is_told_at_once(here: Path) -> None:
    """Columns are named as they are written; where columns are wrong, no row is looked at."""
    path = here / "broken.csv"
    path.write_text('input,score.ordr,tone,tone\n"x",1,2,\nx,1\n', encoding="utf-8")
    columns = problems_of(path)
    path.write_text("input,output,tone\nx,y,2\nx,1\ny,z,high\n", encoding="utf-8")
    rows = problems_of(path)
    rubric = read_rubric(RUBRIC.replace("  reply:", "  notes: what is known\n  reply:") + "{{ notes }}")
    path.write_text("input.letter,output,tone\nx,y,1\nx,z,1\n", encoding="utf-8")
    with pytest.raises(ProblemsFound, match=r"broken.csv:1: input.notes\n.*a column input.notes"):
        read_labels(path, rubric)

    assert [problem.split(" | ")[0] for problem in columns] == [
        "broken.csv:1: score.ordr",
        "broken.csv:1: tone",
        "broken.csv:1: output",
        "broken.csv:3",
    ]
    assert [problem.split(" | ")[0] for problem in rows] == [
        "broken.csv:2: tone",
        "broken.csv:3",
        "broken.csv:4: tone",
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.txt",
            b"{}",
            "a.txt | expected: a file of labels that ends in .jsonl or .csv | found:    'a.txt'",
        ),
        ("a.jsonl", b"\n \n", "a.jsonl | expected: 1 example or more | found:    none"),
        ("a.csv", b"", "a.csv | expected: 1 example or more | found:    none"),
        (
            "a.csv",
            b"input,output,tone\n\xff,b,1\n",
            "a.csv:2 | expected: a text in UTF-8 | found:    the byte 0xff",
        ),
        ("a.csv", b'input,output,tone\n"a"b,c,1\n', "a.csv:2 | expected: a table in CSV"),
    ],
)
def test_what_is_no_file_of_labels(here: Path, name: str, content: bytes, expected: str) -> None:
    """A file that holds no examples, or cannot be read at all, says so in one problem."""
    path = here / name
    path.write_bytes(content)
    (problem,) = problems_of(path)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["human"], "1 human label"),
        (["constructed"] * 3, "3 constructed labels"),
        (["constructed", "human", "human"], "2 human and 1 constructed labels"),
    ],
)
def test_where_labels_come_from_is_said(sources: list[Any], message: str) -> None:
    """Constructed labels are called constructed, never human, also where both are in one file."""
    examples = [LabelledExample(str(at), {}, "o", {}, source) for at, source in enumerate(sources)]
    assert describe_label_sources(examples) == message

"""Rows of tables as tasks: read as their authors mean them, with their types, told with their lines."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.row_tables import RowMistake, RowProblems, read_dataset, read_table
from pytest_agenteval.tasks.suite_spec import TASK_KEYS, Rows, RowSource
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import ProblemsFound
from tests.suites import only_our_plugin, run, write

pytest_plugins = ["pytester"]

SUITE = """name: rows
kind: regression
defaults: {model: scripted}
tasks:
  rows: data.csv
  id: "{{ name }}"
  input: question
  script: [{text: "{{ says }}"}]
  bucket: level
  graders:
    - name: answer_contains
      config: {text: "{{ wants }}"}
"""
CSV = (
    "\ufeffname,question,says,wants,level\r\n"
    'a/b,"Hi,\r\nthere",Hello Mina,Mina,easy\r\n'
    "a b,Two,Hello Bo,Bo,hard\r\n\r\n"
    "last,Three,Nope,Bo,hard\r\n"
)


def rows(folder: Path, table: str, more: str = "", *, file: str = "data.csv") -> tuple[LoadedTask, ...]:
    """Give the tasks of a suite that reads one table, whose text is given."""
    (folder / file).write_bytes(table.encode())
    tasks = "name: rows\ntasks:\n" + ("" if "rows:" in more else f"  rows: {file}\n") + more
    if "graders:" not in more:
        tasks += "  graders: [{name: answer_contains, config: {text: x}}]\n"
    suite = folder / "suite.yaml"
    suite.write_text(tasks, encoding="utf-8")
    return load_tasks(suite, load_suite(suite), folder)


def problems(folder: Path, table: str, more: str, *, file: str = "data.csv") -> list[tuple[str, int | None]]:
    """Give file and line of everything that is wrong."""
    with pytest.raises(ProblemsFound) as wrong:
        rows(folder, table, more, file=file)
    return [(Path(each.file).name, each.line) for each in wrong.value.problems]


def test_rows_are_items_of_their_suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is an item of suite.yaml: found by -k, tried again by --lf and by its id, in workers too."""
    only_our_plugin(monkeypatch)
    write(pytester.path, {"evals/rows/suite.yaml": SUITE})
    (pytester.path / "evals/rows/data.csv").write_bytes(CSV.encode())
    result = run(pytester, "evals", "-v")
    result.stdout.fnmatch_lines(
        [
            "evals/rows/suite.yaml::a_b?scripted-1? PASSED*",
            "evals/rows/suite.yaml::a_b-2?scripted-1? PASSED*",
            "evals/rows/suite.yaml::last?scripted-1? FAILED*",
        ]
    )
    run(pytester, "evals", "--lf").assert_outcomes(failed=1)
    run(pytester, "evals/rows/suite.yaml::a_b-2[scripted-1]").assert_outcomes(passed=1)
    run(pytester, "evals", "-k", "hard", "--junitxml=report.xml", workers=2).assert_outcomes(
        passed=1, failed=1
    )
    assert 'file="evals/rows/data.csv" line="6"' in (pytester.path / "report.xml").read_text("utf-8")


def test_cells_are_read_as_written(tmp_path: Path) -> None:
    """A byte order mark, line breaks in quotes, blank lines and semicolons are as spreadsheets write them.

    A cell may be longer than the csv module allows by itself; the bound of the process stays as it was.
    """
    longest = csv.field_size_limit()
    (long,) = rows(tmp_path, f"q\n{'x' * 200_000}\n", "  input: q\n")
    assert (len(long.task.input["content"]), csv.field_size_limit()) == (200_000, longest)
    tasks = rows(tmp_path, '\ufeffid;q\r\n007;"a;b\r\nc"\r\n\r\n8;d\r\n', "  input: q\n")
    assert [(task.task.id, task.task.input["content"], task.line) for task in tasks] == [
        ("007", "a;b\r\nc", 2),
        ("8", "d", 5),
    ]
    other = tmp_path / "other.tsv"
    other.write_bytes("id\tq\n1\t한글\n".encode("utf-16"))
    suite = tmp_path / "suite.yaml"
    suite.write_text(suite.read_text("utf-8").replace("data.csv", "other.tsv"), encoding="utf-8")
    (task,) = load_tasks(suite, load_suite(suite), tmp_path)
    assert task.task.input["content"] == "한글"


def test_values_keep_their_types(tmp_path: Path) -> None:
    """A column that stands alone gives the row's own value; in a text it is written; nothing is left out."""
    lines = [{"id": 7, "q": "Why?", "n": 0.5, "deep": {"tags": ["a", "b"]}}, {"id": 8, "q": None, "n": 1}]
    more = """  input: {content: "Q: {{ q }}", count: "{{ n }}", second: "{{ deep.tags[1] }}", always: null,
          listed: [null, "{{ q }}"]}
  tags: "{{ deep.tags }}"
  graders: [{name: answer_contains, weight: "{{ n }}", config: {text: "{{ q }}"}}]
"""
    first, second = rows(tmp_path, "\n".join(map(json.dumps, lines)), more, file="data.jsonl")
    assert first.task.id == "7"
    assert first.task.input == {"content": "Q: Why?", "count": 0.5, "second": "b", "always": None} | {
        "listed": [None, "Why?"]
    }
    assert (first.task.tags, first.task.graders[0].weight) == (("a", "b"), 0.5)
    assert second.task.input == {"content": "Q: ", "count": 1, "always": None, "listed": [None]}
    assert (second.task.tags, second.task.graders[0].config) == ((), {})


def test_texts_are_read_as_numbers_json_and_lists(tmp_path: Path) -> None:
    """What CSV can only spell is read by the word behind the bar; an empty cell is no value."""
    more = """  input: {content: "{{ q }}", args: "{{ args | json }}", names: "{{ names | list }}"}
  graders: [{name: answer_contains, threshold: "{{ least | number }}", config: {text: x}}]
"""
    first, second = rows(tmp_path, 'q,args,names,least\nA,"{""a"": [1]}","x, y",0.5\nB,,,\n', more)
    assert first.task.input == {"content": "A", "args": {"a": [1]}, "names": ["x", "y"]}
    assert (first.task.graders[0].threshold, second.task.graders[0].threshold) == (0.5, None)
    assert second.task.input == {"content": "B", "names": []}


def test_a_column_may_have_a_bar_in_its_name_and_name_the_split(tmp_path: Path) -> None:
    """What stands behind the last bar is a way to read only where no column is called so."""
    more = '  input: {content: "{{ a|b }}"}\n  split: "{{ part }}"\n'
    first, second = rows(tmp_path, "a|b,part\nx,dev\ny,held_out\n", more)
    assert (first.task.input, second.task.input) == ({"content": "x"}, {"content": "y"})
    assert (first.task.split, second.task.split) == ("dev", "held_out")


def test_rows_of_a_json_list_have_their_lines(tmp_path: Path) -> None:
    """Each element is on the line where it begins, however many lines the one before has."""
    table = '[\n{"q":\n "a"},\n\n{"q": "b"}, {"q": "c"}]\n'
    assert [each.line for each in rows(tmp_path, table, "  input: q\n", file="data.json")] == [2, 5, 5]


def test_ids_are_safe_and_unique(tmp_path: Path) -> None:
    """What node ids cannot bear becomes _, what stands twice is numbered; no number takes another's id."""
    table = "id,q\na b,1\na/b,2\na_b-2,3\n" + "x" * 300 + ",4\n"
    halves = '{"id": "\\ud800b", "q": 1}'
    assert [task.task.id for task in rows(tmp_path, halves, "  input: q\n", file="data.jsonl")] == ["b"]
    ids = [task.task.id for task in rows(tmp_path, table, "  input: q\n")]
    assert ids[:3] == ["a_b", "a_b-3", "a_b-2"]
    assert len(ids[3]) <= 80
    assert [task.task.id for task in rows(tmp_path, "q\n1\n2\n", "  input: q\n")] == ["row_2", "row_3"]


def test_rows_are_chosen(tmp_path: Path) -> None:
    """Of rows those are meant that a condition holds for, and of these the first so many."""
    table = "id,q,level\n1,a,easy\n2,b,hard\n3,c,7\n4,d,7\n"
    more = "  input: q\n  where: {level: [easy, 7]}\n  limit: 2\n"
    assert [task.task.id for task in rows(tmp_path, table, more)] == ["1", "3"]


@pytest.mark.parametrize(
    ("file", "table", "more", "wrong"),
    [
        ("data.csv", "id,q\n1,a,b\n2\n3,c\n", "  input: q\n", [("data.csv", 2), ("data.csv", 3)]),
        ("data.csv", 'id,q\n1,"a\nb\n', "  input: q\n", [("data.csv", 2)]),
        ("data.csv", "id,id\n1,2\n", "  input: id\n", [("data.csv", 1)]),
        ("data.csv", "q,q\n1,a\n", "  input: {content: '{{ q | number }}'}\n", [("data.csv", 1)]),
        ("data.json", '{"q": 1}', "  input: q\n", [("data.json", 1)]),
        (
            "data.jsonl",
            '{"q": 1}\n[]\n{"q": NaN}\n{"q"',
            "  input: q\n",
            [("data.jsonl", n) for n in (2, 3, 4)],
        ),
        ("data.json", '[\n{"q": 1},\n\n{"q": }]', "  input: q\n", [("data.json", 4)]),
        ("data.json", '[\n{"q": 1}\n\n{"q": 2}]', "  input: q\n", [("data.json", 4)]),
        (
            "data.csv",
            "id,q\n1,a\n",
            "  input: qq\n  where: {lvl: 1}\n",
            [("suite.yaml", 4), ("suite.yaml", 5)],
        ),
        ("data.csv", "id,q\n,a\n2,b\n", "  input: q\n", [("data.csv", 2)]),
        ("data.csv", "id,q\n", "  input: q\n", [("data.csv", 1)]),
        (
            "data.csv",
            "id,q,w\n1,a,x\n2,b,1\n",
            '  input: q\n  trials_per_run: "{{ w | number }}"\n',
            [("data.csv", 2)],
        ),
        (
            "data.csv",
            "id,q,w\n1,a,0\n2,b,0\n",
            '  input: q\n  clock: noon\n  trials_per_run: "{{ w | number }}"\n',
            [("suite.yaml", 5), ("data.csv", 2), ("data.csv", 3)],
        ),
        ("none.txt", "id,q\n1,a\n", "  input: q\n", [("suite.yaml", 3)]),
        *(
            (
                "data.csv",
                "q\na\n",
                f"  rows: {{file: data.csv, encoding: {name}}}\n  input: q\n",
                [("data.csv", None)],
            )
            for name in ("rot13", "undefined", '"\\0"')
        ),
    ],
)
def test_everything_wrong_is_told_where_it_stands(
    tmp_path: Path, file: str, table: str, more: str, wrong: list[Any]
) -> None:
    """What differs from row to row is told on the row's line, what all share once, in the suite's file."""
    assert sorted(problems(tmp_path, table, more, file=file)) == sorted(wrong)


def test_a_row_of_another_length_hides_no_other_problem(tmp_path: Path) -> None:
    """Rows with too few or too many cells, wrong cells and wrong values are told at once, line by line."""
    table = "id,q,w\na,x,1\nb,x\nc,x,heavy\nd,x,-7\ne,x,1,5\n"
    more = "  input: q\n  graders: [{name: answer_contains, weight: '{{ w | number }}', config: {text: x}}]\n"

    assert problems(tmp_path, table, more) == [("data.csv", line) for line in (3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("reading", "unreadable", "readable"),
    [("json", ('{"a": NaN}', '{"a": 1, "a": 2}'), "{}"), ("number", ("NaN", "1e999", "true"), "7")],
)
def test_what_a_cell_holds_is_read_as_strictly_as_a_file(
    tmp_path: Path, reading: str, unreadable: tuple[str, ...], readable: str
) -> None:
    """JSON that says two things, is none, or is too deep is told on its line: no value is made up."""
    cells = [*unreadable, "[" * 100_000, readable]
    table = "".join(json.dumps({"q": "a", "cell": cell}) + "\n" for cell in cells)
    more = f'  input: {{content: "{{{{ q }}}}", cell: "{{{{ cell | {reading} }}}}"}}\n'
    lines = range(1, len(cells))
    assert problems(tmp_path, table, more, file="data.jsonl") == [("data.jsonl", line) for line in lines]


def test_a_byte_that_is_no_text_is_told_on_its_line(tmp_path: Path) -> None:
    """The byte and its line are those of the file, also behind a byte order mark."""
    (tmp_path / "data.csv").write_bytes(b"\xef\xbb\xbfq\na\n\xff\n")
    with pytest.raises(ProblemsFound) as wrong:
        read_table(tmp_path / "data.csv", RowSource(file="data.csv"), RowProblems())
    assert [(each.line, each.found) for each in wrong.value.problems] == [(3, "the byte 0xff")]


def test_rows_may_say_whatever_a_task_may() -> None:
    """A key that tasks have is one of rows, too: it can be filled in from columns."""
    assert set(Task.__struct_fields__) <= set(Rows.__struct_fields__)
    assert set(Task.__struct_fields__) <= {*TASK_KEYS, "id", "input", "graders", "split"}


def test_of_many_broken_rows_the_first_are_told(tmp_path: Path) -> None:
    """A table in which every row is wrong fills no terminal: the others are counted."""
    table = "id,q\n" + "1,2,3\n" * 100
    with pytest.raises(ProblemsFound) as wrong:
        rows(tmp_path, table, "  input: q\n")
    assert len(wrong.value.problems) == 21
    assert wrong.value.problems[-1].found == "80 more rows with problems"


def test_without_the_package_a_dataset_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a Hugging Face dataset name the missing package, at the key that asks for it."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ProblemsFound, match=r"pip install .*\[datasets\]") as wrong:
        rows_of_hub(tmp_path)
    assert [each.line for each in wrong.value.problems] == [3]


class Split(list[Any]):
    """The rows of one split, as the package datasets has them."""

    column_names = ("q",)


@pytest.mark.parametrize(
    ("splits", "loaded", "read"),
    [
        (None, Split([{"q": "a"}]), ["a"]),
        ("test", {"test": Split([{"q": "b"}]), "train": Split()}, ["b"]),
        ("none", {"test": Split(), "train": Split()}, "'none'"),
        (None, {"test": Split([{"q": "c"}])}, ["c"]),
        (None, {"test": Split(), "train": Split()}, "none is named"),
    ],
)
def test_one_split_of_a_saved_dataset_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: str | None, loaded: Any, read: Any
) -> None:
    """It is named where there are several; which of them is not guessed."""
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_from_disk=lambda folder: loaded))
    if isinstance(read, str):
        with pytest.raises(RowMistake) as wrong:
            read_dataset(RowSource(), splits, tmp_path)
        assert (wrong.value.found, wrong.value.expected[-11:]) == (read, "test, train")
    else:
        table = read_dataset(RowSource(), splits, tmp_path)
        assert ([row.values["q"] for row in table.rows], table.columns) == (read, ("q",))


def rows_of_hub(folder: Path) -> tuple[LoadedTask, ...]:
    """Give the tasks of a suite that reads a dataset by its name."""
    suite = folder / "suite.yaml"
    suite.write_text(
        "name: rows\ntasks:\n  rows: hf://owner/name\n  input: q\n  split: test\n"
        "  graders: [{name: answer_contains, config: {text: x}}]\n",
        encoding="utf-8",
    )
    return load_tasks(suite, load_suite(suite), folder)

"""What a suite's ``tools`` may name: packaged sets and files of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tools.toolsets import load_tools

DECLARED = "name: {name}\ndescription: d\nrequest: {{url: 'https://a.b/c'}}\n"
PYTHON = '''
from __future__ import annotations

from json import dumps

from pytest_agenteval.tools.toolsets import tool_of


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def fetch(url: str) -> str:
    """Fetch a page."""
    return dumps(url)


def unhinted():
    """No tool."""


def _own(a: int) -> int:
    return a


fetch_tool = tool_of(fetch, taped=True)
'''


def write_file(path: Path, text: str) -> Path:
    """Write a file, with a time of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    write_file.clock += 1  # type: ignore[attr-defined]
    os.utime(path, (write_file.clock, write_file.clock))  # type: ignore[attr-defined]
    return path


write_file.clock = 1_700_000_000  # type: ignore[attr-defined]


def test_a_registered_set_is_named(tmp_path: Path) -> None:
    """It needs no file of the suite's, and its tools stand in the order of its files; a slip has a hint."""
    files = [
        write_file(tmp_path / f"{name}.yaml", DECLARED.format(name=name)) for name in ("second", "first")
    ]
    toolsets = {"both": files}
    assert list(load_tools("both", toolsets=toolsets)) == ["second", "first"]
    with pytest.raises(ProblemsFound, match="did you mean 'both'"):
        load_tools("booth", toolsets=toolsets)


def test_a_file_is_looked_up_in_the_suite_then_in_the_root(tmp_path: Path) -> None:
    """The suite's own file comes first; an absolute path is taken as it is."""
    suite = tmp_path / "evals" / "s"
    root_file = write_file(tmp_path / "t.yaml", DECLARED.format(name="of_root"))
    write_file(tmp_path / "other.yaml", DECLARED.format(name="other"))
    write_file(suite / "t.yaml", DECLARED.format(name="of_suite"))
    assert list(load_tools("t.yaml", suite, tmp_path)) == ["of_suite"]
    assert list(load_tools("other.yaml", suite, tmp_path)) == ["other"]
    assert list(load_tools(str(root_file))) == ["of_root"]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    """Tools of an unchanged file are the same objects; a changed one is read anew."""
    path = write_file(tmp_path / "t.yaml", DECLARED.format(name="a"))
    first = load_tools(str(path))
    assert load_tools(str(path))["a"] is first["a"]
    write_file(path, DECLARED.format(name="b"))
    assert list(load_tools(str(path))) == ["b"]


def test_functions_of_a_python_file_are_tools(tmp_path: Path) -> None:
    """Public functions with hints that the file defines, and tools that it makes; two files do not mix."""
    write_file(tmp_path / "a" / "tools.py", PYTHON)
    write_file(tmp_path / "b" / "tools.py", "def only(a: int) -> int:\n    return a\n")
    tools = load_tools("tools.py", tmp_path / "a")
    assert sorted(tools) == ["add", "fetch"]
    assert tools["fetch"].spec.taped
    assert tools["add"].function({"a": 2}) == 3
    assert list(load_tools("tools.py", tmp_path / "b")) == ["only"]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("x = 1\ny = x / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("def f(:\n", 1, "SyntaxError: invalid syntax"),
        ("import no_such_thing\n", 1, "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("import sys\nsys.exit(2)\n", 2, "SystemExit: 2"),
        ("x = 1\n", None, "no function"),
        ("def f(a):\n    return a\n", None, "f without any"),
    ],
)
def test_a_python_file_without_tools_is_a_problem(
    text: str, line: int | None, found: str, tmp_path: Path
) -> None:
    """It names the file's own line, and what went wrong there."""
    path = write_file(tmp_path / "tools.py", text)
    with pytest.raises(ProblemsFound) as raised:
        load_tools(str(path))
    (problem,) = raised.value.problems
    assert (problem.line, problem.found) == (line, found)


def test_a_function_that_cannot_be_a_tool_is_a_problem(tmp_path: Path) -> None:
    """It names file and line, as any problem of a file does, and hides no other."""
    star, bare = "def f(*words: str) -> None:\n    pass\n", "def g(a) -> int:\n    return a\n"
    path = write_file(tmp_path / "tools.py", star + bare)
    with pytest.raises(ProblemsFound) as raised:
        load_tools(str(path))
    assert [(each.line, each.path, each.found) for each in raised.value.problems] == [
        (1, ("f",), "'*words' cannot be given by name; name each parameter"),
        (3, ("g",), "the parameter 'a' has no type hint"),
    ]


@pytest.mark.parametrize(("entry", "hint"), [("nothing.yaml", ""), ("wether", "did you mean 'weather'?")])
def test_an_entry_that_leads_nowhere_is_a_problem(entry: str, hint: str, tmp_path: Path) -> None:
    """It says where it was looked for, and which set may have been meant."""
    with pytest.raises(ProblemsFound, match="looked for") as raised:
        load_tools(entry, tmp_path, toolsets={"weather": ()})
    assert raised.value.problems[0].hint == hint


def test_a_file_of_another_kind_is_a_problem(tmp_path: Path) -> None:
    """Only YAML, JSON and Python are read."""
    with pytest.raises(ProblemsFound, match=r"a \.txt file"):
        load_tools(str(write_file(tmp_path / "tools.txt", "")))

"""What is refused is explained, at its place; what is read is a value like any other."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.calibration.calibration_file import Calibration
from pytest_agenteval.tasks.documents import ParsedDocument, read_document
from pytest_agenteval.tasks.load import load_tasks
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_spec import ScriptEntry, Spec, Task
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of
from pytest_agenteval.text.errors import KeyPath, ProblemsFound
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.tools.http_declaration import ToolFile
from pytest_agenteval.tools.openapi import OpenApiFile
from tests.forked_workers import run_python
from tests.fresh_imports import imported_by

TURN = {"text": "t", "calls": [{"tool": "t", "args": {"a": [1]}}, {"tool": "u", "args": "{oops"}]}
LIMITS = {"steps": 1, "seconds": 2, "tokens": 3, "cost_usd": 0.5}
CLOCK = "2026-05-25T09:00:00+09:00"
TASK = {
    "id": "a",
    "description": "d",
    "input": {"content": {"x": [None, 1.5]}},
    "metadata": {"failure_bucket": "b", "difficulty": 3},
    "tags": ["t"],
    "graders": [
        {"name": "n", "config": {"text": "x"}, "weight": 2, "threshold": 0, "require": True, "label": "l"}
    ],
    "trials_per_run": 2,
    "timeout_seconds": 1,
    "limits": LIMITS,
    "clock": CLOCK,
    "agent": "card",
    "split": "held_out",
    "script": [{**TURN, "seconds": 0, "input_tokens": 1, "output_tokens": 0}],
    "prompts": {"system": "p.md"},
    "settings": {"a": 1},
    "faults": [{"tool": "t", "type": "slow", "times": 1, "after": 0, "seconds": 0.5}],
    "reference_solution": {
        "source": "dreamt",
        "expected_outcome": {},
        "turns": [TURN],
        "sample_transcript": [],
    },
}
SUITE = {
    "name": "s",
    "description": "d",
    "agent": "card",
    "kind": "capability",
    "defaults": {
        "trials_per_run": 1,
        "limits": LIMITS,
        "clock": CLOCK,
        "model": "m",
        "tags": ["t"],
        "settings": {},
    },
    "prompts": {"system": "p.md"},
    "settings": {"a": 1},
    "tools": ["t.yaml"],
    "cassettes": ["c"],
    "on_miss": "tool_error",
    "live": True,
    "require_reference_solution": False,
    "task_pass_threshold": 1,
}
CALIBRATION = {
    "kind": "calibration",
    "id": "a",
    "labels": "l.csv",
    "rubric": "r",
    "scale": [0, 1],
    "tolerance": 0.1,
    "thresholds": {"kappa": 0.5, "scored": {"tone": 3}},
    "tags": ["t"],
}
PART = {"path": "a", "fields": {"x": "y", "z": {"limit": "{n}", "as": "number"}}, "each": {"x": {"limit": 2}}}
TOKEN = {"url": "/token", "method": "POST", "query": {}, "body": {"a": 1}, "body_as": "form", "lasts": 60}
TOOL = {
    "name": "t",
    "description": "d",
    "parameters": {"type": "object"},
    "request": {"url": {"param": "p", "table": {"a": "b"}, "join": ","}, "query": {"q": "{p}"}},
    "result": {**PART, "where": {"path": "p", "starts": "x"}, "drop": ["d"], "times": 2, "text": "xml"},
    "errors": [{"path": "e", "ok": [0, "0", None], "message": "m", "pattern": "p"}],
    "matching": {"p": {"number": 0.1}},
    "secrets": ["KEY"],
    "token": TOKEN,
    "checked": False,
}
TOOLS = {"provider": {"name": "p", "base": "https://server", "secrets": ["KEY"]}, "tools": [TOOL]}
OPENAPI = {
    "openapi": "o.yaml",
    "operations": ["getIt", {"id": "GET /x", "name": "n", "result": PART, "errors": []}],
    "base": "https://server",
    "security": {"key": "KEY"},
}
pytest_plugins = ["pytester"]

WHOLE: list[tuple[type[Spec], dict[str, Any]]] = [
    (Task, TASK),
    (Suite, SUITE),
    (Calibration, CALIBRATION),
    (ToolFile, TOOLS),
    (OpenApiFile, OPENAPI),
]
NEEDED = ("id", "input", "graders", "name", "kind", "labels", "rubric", "tools", "openapi", "operations")
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2.0, 0.5, 10**400,
    "", " ", "a", "a\n", "\n", "a\x1cb", "\x1c", "a b", "1", "true", CLOCK, "2026-13-25T09:00:00",
    "{n}\n", "KEY\n",
    [], ["a"], ["a\n"], [1, 0], [0, 1, 2], [{}], [None], {}, {"a": 1}, {"unheard_of": 1}, {"name": "n"},
    TURN, PART,
]  # fmt: skip


def explained(kind: type[Spec], value: Any) -> list[KeyPath] | None:
    """Give the places of what is wrong with a value, each of which leads into it; None for what is read."""
    try:
        spec = spec_of(kind, value)
    except SpecRefused:
        problems = problems_of(kind, value, ParsedDocument(Path("a.json"), "{}", value)).problems
        known = {*places(value), *(path[:-1] for path in places(value))}
        # A key that is missing stands in a map that is there.
        assert problems
        assert all({problem.path, problem.path[:-1]} & known for problem in problems)
        return [problem.path for problem in problems]
    assert spec_of(kind, json.loads(json.dumps(value))) == spec
    return None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the path of every value, and of a key that is not there in every map."""
    yield path
    if isinstance(value, dict):
        yield (*path, "unheard_of")
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in inner:
        yield from places(below, (*path, step))


def changed(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Give a value with another one at a place in it."""
    if not path:
        return other
    changed_value = copy.copy(value)
    changed_value[path[0]] = changed(value[path[0]], path[1:], other) if path[1:] else other
    return changed_value


@pytest.mark.parametrize(("kind", "value"), WHOLE)
def test_a_file_without_a_mistake_is_read_at_once(kind: type[Spec], value: dict[str, Any]) -> None:
    """Every key of every kind of file, rightly used."""
    assert msgspec.convert(value, kind) == spec_of(kind, value)


@pytest.mark.parametrize(("kind", "value"), WHOLE)
def test_what_is_read_is_a_value_like_any_other(kind: type[Spec], value: dict[str, Any]) -> None:
    """Fixtures give tasks to authors' tests, which copy, compare, send and take them apart."""
    least = {
        name: value[name] for name in ("id", "input", "kind", "labels", "rubric", *NEEDED) if name in value
    }
    for spec in (spec_of(kind, value), spec_of(kind, least)):
        taken_apart = json.loads(json.dumps(dataclasses.asdict(spec)).replace('"convert"', '"as"'))
        assert spec_of(kind, taken_apart) == spec
        assert [field.name for field in dataclasses.fields(spec)] == list(kind.__struct_fields__)
        assert dataclasses.replace(spec) == copy.copy(spec) == copy.deepcopy(spec) == spec
        assert pickle.loads(pickle.dumps(spec)) == spec


def test_tasks_that_differ_are_compared_by_pytest(pytester: pytest.Pytester) -> None:
    """It asks whether they are dataclasses to say in which fields they differ."""
    pytester.makepyfile("""
        from pytest_agenteval.tasks.task_spec import GraderSpec, Task

        def test_equal():
            one = Task(id="a", input={}, graders=(GraderSpec(name="g"),))
            assert one == Task(id="b", input={}, graders=(GraderSpec(name="g"),))
    """)

    pytester.runpytest("-p", "no:agenteval").stdout.fnmatch_lines(["*Differing attributes:*", "*'id'*"])


@pytest.mark.parametrize(("kind", "value"), WHOLE)
def test_one_wrong_value_is_found_where_it_stands(kind: type[Spec], value: dict[str, Any]) -> None:
    """One odd value at every place in turn: a problem is there, within, or that of a list with a rule."""
    for path in places(value):
        for odd in ODD:
            found = explained(kind, changed(value, path, odd))
            for place in found or ():
                assert place[: len(path)] == path or place == path[:-1], (path, odd, found)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(WHOLE), st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_refused_is_explained(
    kind_and_value: tuple[type[Spec], dict[str, Any]], data: st.DataObject
) -> None:
    """Several places at once, any JSON value."""
    kind, value = kind_and_value
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(value))))
        value = changed(value, path, data.draw(JSON_VALUES))
    explained(kind, value)


@given(JSON_VALUES)
@settings(max_examples=40, deadline=None)
def test_a_spec_is_written_as_any_value_of_a_run_is(value: Any) -> None:
    """Value by value and type by type, so that what travels to another process is what was planned."""
    entry = spec_of(ScriptEntry, {**TURN, "calls": [{"tool": "t", "args": {"a": value}}]})
    assert repr(entry.to_json()) == repr(jsonable(entry))


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (Task, TASK, ("graders", 0, "weight")),
        (Task, TASK, ("script", 0, "seconds")),
        (Task, TASK, ("graders", 0, "threshold")),
        (Calibration, CALIBRATION, ("scale", 1)),
        (Calibration, CALIBRATION, ("thresholds", "kappa")),
        (ToolFile, TOOLS, ("tools", 0, "result", "times")),
    ],
)
def test_a_number_is_one_that_json_knows(
    kind: type[Spec], value: dict[str, Any], path: tuple[Any, ...], number: float
) -> None:
    """No file holds infinity; what is read from elsewhere is held to the same."""
    with pytest.raises(SpecRefused):
        spec_of(kind, changed(value, path, number))


def test_kinds_of_files_come_and_go(tmp_path: Path) -> None:
    """Whoever runs pytest in pytest imports them anew each time: Python crashed when the old ones went."""
    code = """
import gc, json, sys, importlib
import msgspec
whole = json.loads(sys.argv[1])
for _ in range(5):
    for module, kind, value in whole:
        msgspec.convert(value, getattr(importlib.import_module(module), kind))
    for name in [name for name in sys.modules if name.startswith("pytest_agenteval")]:
        del sys.modules[name]
    gc.collect()
"""
    whole = [(kind.__module__, kind.__name__, value) for kind, value in WHOLE]

    ran = run_python("-c", code, json.dumps(whole), cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr


def test_threads_may_read_files_of_one_kind_at_once(tmp_path: Path) -> None:
    """Python crashed where one thread came by while msgspec learned in another what a kind's fields are."""
    code = """
import importlib, json, sys, threading
for name in [name for name in sys.modules if name.startswith("pytest_agenteval")]:
    del sys.modules[name]
import pytest_agenteval.tools.openapi, pytest_agenteval.calibration.calibration_file
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of
sys.setswitchinterval(1e-6)
for module, kind, value in json.loads(sys.argv[1]):
    kind = getattr(importlib.import_module(module), kind)
    together = threading.Barrier(40)
    def read():
        together.wait()
        spec_of(kind, value)
    threads = [threading.Thread(target=read) for _ in range(40)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
    whole = [(kind.__module__, kind.__name__, value) for kind, value in WHOLE]

    ran = run_python("-c", code, json.dumps(whole), cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr


def test_other_spellings_mean_the_same() -> None:
    """All the way down."""
    theirs = {**TASK, "reference_solution": {"turns": [TURN], "sampleTranscript": {"x": [1]}}}
    ours = {**TASK, "reference_solution": {"turns": [TURN], "sample_transcript": {"x": [1]}}}

    assert spec_of(Task, theirs) == spec_of(Task, ours)


def test_all_problems_of_a_value_are_named() -> None:
    """Whoever has to mend a file mends it once."""
    value = {**TASK, "tags": ["a b"], "graders": [], "clock": "now", "prompts": {"system": 3}}

    assert explained(Task, value) == [("tags", 0), ("graders",), ("clock",), ("prompts", "system")]


def test_a_file_may_be_named_otherwise_than_it_is_called(tmp_path: Path) -> None:
    """Importers speak of the file that a value comes from."""
    file = tmp_path / "suite.json"
    file.write_text("{}", encoding="utf-8")

    (problem,) = problems_of(Suite, {}, read_document(file), file="theirs.json").problems
    assert (problem.file, problem.path) == ("theirs.json", ("name",))


def test_titles_and_other_mistakes_are_told_together(tmp_path: Path) -> None:
    """Whoever has to mend a file mends it once."""
    file = tmp_path / "task.yaml"
    file.write_text("id: a\ninput: {}\ngraders: [{name: x}, {name: x}]\nsplitt: dev\n", encoding="utf-8")

    with pytest.raises(ProblemsFound) as caught:
        load_tasks(file)

    assert [problem.path for problem in caught.value.problems] == [("graders", 1), ("splitt",)]


def test_a_run_without_mistakes_loads_no_pydantic(tmp_path: Path) -> None:
    """It would cost a first run 60 ms: neither files, nor settings of graders, nor the journal need it."""
    suite = tmp_path / "evals"
    suite.mkdir()
    suite.joinpath("suite.yaml").write_text("name: s\ndefaults: {model: scripted}\n", encoding="utf-8")
    suite.joinpath("task.yaml").write_text(
        "id: a\ninput: {content: Hello}\nscript: [{text: 'Hello, Mina!'}]\n"
        "graders: [{name: answer_contains, config: {text: Mina}}]\n",
        encoding="utf-8",
    )
    code = "import pytest; assert pytest.main(['-q', 'evals', '-p', 'pytest_agenteval.plugin']) == 0"
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    assert imported_by(code, "pydantic", "pydantic_core", cwd=tmp_path, env=env) == []

"""The error that an author sees."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pytest_agenteval.tasks.load import load_suite, load_tasks
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import ProblemsFound

GRADER_KEYS = "config, label, require, threshold, weight"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paths are shown from the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_file(name: str, text: str) -> Path:
    """Write a file and give its path."""
    path = Path.cwd() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    return path


def problem_text(name: str, text: str) -> str:
    """The whole text that reading a file gives."""
    path = write_file(name, text)
    read: Callable[[Path], object] = load_suite if path.stem == "suite" else partial(load_tasks, named=True)
    with pytest.raises(ProblemsFound) as caught:
        read(path)
    return f"{caught.value}\n"


def test_every_problem_of_a_file_is_told_at_once_in_reading_order() -> None:
    """File and line come first, so that a terminal or an editor can jump there."""
    text = """
        id: route_note
        trials_pre_run: 2
        input:
          content: Slept badly.
        graders:
          - name: pkm_completion
          - name: pkm_routed_correctly
            weight: heavy
    """

    assert problem_text("evals/pkm/route_note.yaml", text) == textwrap.dedent("""\
        evals/pkm/route_note.yaml:2: trials_pre_run
          expected: one of trials_per_run, graders, timeout_seconds, tags, description, ... (18 in all)
          found:    unknown key 'trials_pre_run'
          hint:     did you mean 'trials_per_run'?
        evals/pkm/route_note.yaml:8: graders[1].weight
          expected: a number above 0
          found:    'heavy' (text)
        """)


def test_a_misspelled_key_is_told_once() -> None:
    """That the right key is missing follows from it, and so does that a list is too short."""
    text = """
        - id: a
          inputs: {}
          graders:
            - nam: x
            - [1, 2]
    """

    assert problem_text("task.yaml", text) == textwrap.dedent(f"""\
        task.yaml:2: [0].inputs
          expected: one of input, limits, faults, prompts, settings, ... (18 in all)
          found:    unknown key 'inputs'
          hint:     did you mean 'input'?
        task.yaml:4: [0].graders[0].nam
          expected: one of config, label, name, require, threshold, weight
          found:    unknown key 'nam'
          hint:     did you mean 'name'?
        task.yaml:5: [0].graders[1]
          expected: a map with name (and, as needed, {GRADER_KEYS})
          found:    a list of 2
        """)


def test_a_missing_key_is_told_where_it_should_stand() -> None:
    """The line is the parent's."""
    text = """
        # a comment
        id: a
        graders:
          - {weight: 2}
    """

    assert problem_text("task.yaml", text) == textwrap.dedent("""\
        task.yaml:2: input
          expected: a text, or a map: what the agent is given
          found:    no key 'input'
        task.yaml:4: graders[0].name
          expected: the name of a registered grader
          found:    no key 'name'
        """)


def test_each_kind_of_wrong_value_is_named_in_plain_words() -> None:
    """An author reads what stands there, not what a library calls it."""
    text = """
        {"id": "a b",
         "input": null,
         "graders": [],
         "trials_per_run": 2.5,
         "tags": ["x", ["y"]],
         "clock": "noon",
         "split": true,
         "limits": {"steps": "many"},
         "script": [{"calls": [{"tool": "t", "args": 3}]}],
         "prompts": {"system": {}},
         "metadata": ["x", "y"],
         "description": "TEXT",
         "agent": {"name": 1}}
    """.replace('"TEXT"', "7")

    found = problem_text("task.json", text)

    assert found == textwrap.dedent("""\
        task.json:1: id
          expected: a text with no space, slash, colon or bracket
          found:    'a b' (text)
        task.json:2: input
          expected: a text, or a map: what the agent is given
          found:    nothing
        task.json:3: graders
          expected: a list of 1 grader or more
          found:    an empty list
        task.json:4: trials_per_run
          expected: a whole number, 1 or more
          found:    2.5 (number)
        task.json:5: tags[1]
          expected: a text without spaces
          found:    a list of 1
        task.json:6: clock
          expected: a date and time, as in 2026-05-25T09:00:00+09:00
          found:    'noon' (text)
        task.json:7: split
          expected: dev or held_out
          found:    true (true or false)
        task.json:8: limits.steps
          expected: a whole number, 1 or more: turns of the model
          found:    'many' (text)
        task.json:9: script[0].calls[0].args
          expected: a map of arguments, or a text instead of JSON
          found:    3 (number)
        task.json:10: prompts.system
          expected: the path of a prompt file
          found:    an empty map
        task.json:11: metadata
          expected: a map; `failure_bucket` names the bucket
          found:    a list of 2
        task.json:12: description
          expected: a text: what the task is about
          found:    7 (number)
          hint:     write "7" with quotes: then it is a text
        task.json:13: agent
          expected: the name of a registered agent
          found:    a map with name
        """)


def test_graders_of_one_name_are_told_each() -> None:
    """The hint says how to tell them apart."""
    text = """
        id: a
        input: {}
        graders:
          - name: x
          - name: y
          - name: x
          - {name: z, label: y}
    """

    assert problem_text("task.yaml", text) == textwrap.dedent("""\
        task.yaml:6: graders[2]
          expected: a name or label of its own
          found:    'x', which graders[0] has too
          hint:     give one of them a `label`
        task.yaml:7: graders[3]
          expected: a name or label of its own
          found:    'y', which graders[1] has too
          hint:     give one of them a `label`
        """)


def test_a_suite_is_explained_in_the_spelling_that_it_uses() -> None:
    """Memex's spelling of a key is shown as it was written, with its own line."""
    text = """
        name: " "
        agent: card
        agent_name: pkm
        taskPassThreshold: 2
        knid: capability
        defaults:
          model: [claude, 3]
          limit: {}
    """

    assert problem_text("suite.yaml", text) == textwrap.dedent("""\
        suite.yaml:1: name
          expected: a text that is not blank: the suite's name
          found:    ' ' (text)
        suite.yaml:3: agent_name
          expected: the same value as 'agent', or only one of the two
          found:    'pkm' (text)
        suite.yaml:4: taskPassThreshold
          expected: a number from 0 to 1
          found:    2 (number)
        suite.yaml:5: knid
          expected: one of kind, on_miss, env, name, live, ... (22 in all)
          found:    unknown key 'knid'
          hint:     did you mean 'kind'?
        suite.yaml:7: defaults.model[1]
          expected: the name of a model
          found:    3 (number)
          hint:     write "3" with quotes: then it is a text
        suite.yaml:8: defaults.limit
          expected: one of clock, limits, model, settings, tags, trials_per_run
          found:    unknown key 'limit'
          hint:     did you mean 'limits'?
        """)


def test_a_file_that_is_no_map_is_told_what_a_map_needs() -> None:
    """A suite file with a list in it says what a suite has."""
    assert (
        problem_text("suite.json", "[1]")
        .splitlines()[1]
        .startswith("  expected: a map with name (and, as needed, acts, ")
    )


def test_a_task_of_a_suite_is_not_spelled_as_a_suite() -> None:
    """`agent_name` is the suite's; in a task it is unknown, and `agent` is proposed."""
    text = "{id: a, agent_name: b, agent: b, input: {}, graders: [{name: x}]}"

    assert "found:    unknown key 'agent_name'" in problem_text("task.yaml", text)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        ("", "'' (text)"),
        ("x" * 60, f"'{'x' * 60}' (text)"),
        ("x" * 61, f"'{'x' * 57}...' (text)"),
        (False, "false (true or false)"),
        (3, "3 (number)"),
        ({}, "an empty map"),
        ({"a": 1, "b": 2}, "a map with a, b"),
        ([], "an empty list"),
        ([None], "a list of 1"),
    ],
)
def test_a_value_is_told_shortly(value: object, words: str) -> None:
    """What it is stands beside what it says."""
    assert value_text(value) == words


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("name: s\nkind: capabilty\n", "did you mean 'capability'?"),
        ("id: a\ninput: 5\ngraders: [{name: answer_json}]\n", 'write "5" with quotes: then it is a text'),
        ("name: s\ncolour: red\n", "`agenteval schema suite` prints every key"),
        ("id: a\ninput: a\ngraders: [answer_json]\n", "write {name: answer_json}"),
        ("id: a\ninput: a\ngraders: answer_json\n", "write [{name: answer_json}]"),
        (
            "name: s\ntasks: {hello: {input: a}, bye: {input: b}}\n",
            "write each task as `- id: hello`, in a list",
        ),
    ],
)
def test_a_value_of_another_form_has_a_hint(text: str, hint: str) -> None:
    """A word that is nearly right, a key that is like no other, and a name or a map in place of a list."""
    name = "suite" if text.startswith("name") else "a"
    lines = problem_text(f"evals/{name}.yaml", text).splitlines()

    assert lines[3:] == [f"  hint:     {hint}"]

"""Below a suite no file vanishes in silence: it is a task, a problem, named by somebody, or counted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TOOLS = """
provider: {name: weather, base: "https://api.example.com"}
tools:
  - name: weather
    description: The temperature of a city.
    parameters: {type: object, properties: {city: {type: string}}, required: [city]}
    request: {url: /now, query: {q: "{city}"}}
"""
COMPOSE = "x: &x {a: 1}\nservices:\n  one: {<<: *x}\n"
CASSETTE = "version: 1\nid: x\ninteractions: []\n"


def renamed(name: str, **keys: str) -> dict[str, Any]:
    """Give a task some of whose keys are spelt otherwise."""
    return {keys.get(key, key): value for key, value in task(name).items()}


def problems(result: pytest.RunResult) -> dict[str, str]:
    """Give what was told of each file, by its name."""
    text = re.sub(r"\n_+ ERROR .*|\n=+ .*", "\n\f", "\n".join(result.outlines))
    parts = (part.strip() for part in text.split("\f"))
    return {re.split("[:\n]", part)[0]: part for part in parts if part.startswith("evals/")}


def test_a_task_with_a_slip_in_its_keys_is_a_problem(pytester: pytest.Pytester) -> None:
    """With ``id`` or ``graders``, or nearly so, a file is meant as a task; what nobody can read is told."""
    files = {
        "fine.json": task("fine"),
        "a.json": renamed("a", graders="grader"),
        "b.json": renamed("b", id="idd"),
        "c.json": renamed("c", graders="Graders", id="ID"),
        "d.json": [renamed("d", graders="gradres"), renamed("e", graders="grader")],
        "half.json": {"id": "half", "name": "left-pad"},
        "other_half.yaml": "garders: []\nx: 1\n",
        "empty.yaml": "",
        "comments.yml": "# id: x\n",
        "empty.json": " \n",
        "broken.json": '{"input": {',
        "broken.yaml": "a: [\n",
    }
    write(pytester.path, {"evals/suite.yaml": suite(), **{f"evals/{k}": v for k, v in files.items()}})
    (pytester.path / "evals/latin.yaml").write_bytes("input: caf\u00e9\n".encode("latin-1"))

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=12)
    found_problems = problems(result)
    assert set(found_problems) == {f"evals/{name}" for name in files} - {"evals/fine.json"} | {
        "evals/latin.yaml"
    }
    for name, word in {"a": "graders", "b": "id", "c": "graders", "d": "graders"}.items():
        assert f"did you mean '{word}'?" in found_problems[f"evals/{name}.json"]
    assert "evals/d.json:" in found_problems["evals/d.json"].partition("\n")[2]
    assert "a map with id, name" in found_problems["evals/half.json"]
    assert "begins with '_'" in found_problems["evals/half.json"]
    for name in ("empty.yaml", "comments.yml", "empty.json"):
        assert "found:    an empty file" in found_problems[f"evals/{name}"]
    assert "UTF-8" in found_problems["evals/latin.yaml"]
    assert "Traceback" not in str(result.stdout)


def test_a_broken_suite_hides_no_problem_of_its_files(pytester: pytest.Pytester) -> None:
    """All at once: its own, once, and what is wrong with each file whatever the suite says of it."""
    files = {"a.json": renamed("a", graders="grader"), "empty.yaml": "", "fine.json": task("fine")}
    write(pytester.path, {"evals/suite.yaml": "nme: s\n", **{f"evals/{k}": v for k, v in files.items()}})

    result = run(pytester)

    assert re.findall("(?m)^evals/[^:\n]+", str(result.stdout)) == [
        "evals/suite.yaml",
        "evals/a.json",
        "evals/empty.yaml",
    ]


def test_what_a_suite_or_its_tasks_name_is_no_task(pytester: pytest.Pytester) -> None:
    """Tools, prompts, cassettes, trees and calibrations may hold any key; so may what is set aside."""
    tree = task("real", input={"content": "hi", "base_fixture": "trees/start"})
    files = {
        "suite.yaml": suite(
            more="tools: [tools.yaml, api.yaml]\ncassettes: [tapes]\nprompts: {system: p/a.yaml}\n"
        ),
        "tools.yaml": TOOLS,
        "api.yaml": "openapi: openapi.json\noperations: [getTea]\n",
        "openapi.json": {
            "openapi": "3.1.0",
            "id": "tea",
            "info": {"title": "Tea", "version": "1"},
            "servers": [{"url": "https://tea.example.com"}],
            "paths": {"/tea": {"get": {"operationId": "getTea", "responses": {"200": {"description": "x"}}}}},
        },
        "tapes/shared.yaml": CASSETTE,
        "p/a.yaml": "id: a prompt\n",
        "p/b.yaml": "id: another\n",
        "trees/start/PKM/entry.yaml": "id: 7\n",
        "deep/real.json": {**tree, "prompts": {"system": "p/b.yaml"}},
        "node_modules/pad/package.json": {"id": "pad", "name": "pad"},
        "_data/people.json": [{"id": 1}],
        "_people.json": [{"id": 1}],
        "deep/compose.yaml": COMPOSE,
        "deep/numbers.json": '{"a": NaN}',
        "deep/list.json": [1, {"name": "x"}],
    }
    write(pytester.path, {f"evals/{name}": content for name, content in files.items()})
    # Others' files in the same project, below no suite.
    write(pytester.path, {"package.json": {"id": 7}, "data/x.yaml": "id: [", "data/y.json": ""})

    result = run(pytester, "-v", "-rA", workers=1)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*3 files below suites are no tasks*"])
    assert collected_ids(pytester, "-k", "deep") == ["evals/deep/real.json::real[scripted-1]"]
    assert "no tasks" not in str(run(pytester).stdout)


def test_a_suite_at_the_root_leaves_the_projects_own_folders_alone(pytester: pytest.Pytester) -> None:
    """``fixtures/`` and ``cassettes/`` at the root hold no tasks, also where the root itself is a suite."""
    ours = {"fixtures/a/b.json": {"id": 1}, "cassettes/x.yaml": CASSETTE}
    write(pytester.path, {"suite.yaml": suite(), "x.json": task("greet"), **ours})

    run(pytester).assert_outcomes(passed=1)


def test_what_pytest_does_not_look_into_is_not_looked_at(pytester: pytest.Pytester) -> None:
    """``norecursedirs`` and ``collect_ignore`` keep their meaning; one file named is one file looked at."""
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\nnorecursedirs = old .*\n",
            "evals/conftest.py": "collect_ignore = ['later']\n",
            "evals/suite.yaml": suite(),
            "evals/x.json": task("greet"),
            "evals/old/a.json": {"id": 1},
            "evals/later/b.json": {"id": 1},
        },
    )
    run(pytester).assert_outcomes(passed=1)

    write(pytester.path, {"evals/slip.json": renamed("slip", graders="grader")})
    run(pytester, "evals/x.json::greet").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("files", "hint", "workers"),
    [
        (
            {"greet.yaml": "id: a\ninput: {}\ngraders: []\n"},
            "greet.yaml looks like a task, but there is no suite",
            0,
        ),
        (
            {"Suite.yaml": "agent: tool_calling\ntasks: [{input: a, graders: [{name: answer_json}]}]\n"},
            "Suite.yaml looks like a suite: rename it to suite.yaml",
            0,
        ),
        ({"suits.yaml": suite(), "a.json": task("a")}, "a.json looks like a task, but there is no suite", 1),
    ],
)
def test_tasks_without_a_suite_are_hinted_at(
    pytester: pytest.Pytester, files: dict[str, Any], hint: str, workers: int
) -> None:
    """Who forgot ``suite.yaml``, or misspelt it, is told in one line, also where other trials are run."""
    write(pytester.path, {**{f"evals/{name}": content for name, content in files.items()}, "x.json": "["})
    for others, status in (({}, 5), ({"a/suite.yaml": suite(), "a/x.json": task("x")}, 0)):
        write(pytester.path, others)

        result = run(pytester, workers=workers)

        assert result.ret == status
        lines = [line for line in result.outlines if "evals/" in line and "::" not in line]
        assert len(lines) == 1
        assert f"evals/{hint}" in lines[0]


@pytest.mark.parametrize("text", [suite(), "- name: greetings\n", ""])
def test_a_suite_without_tasks_is_named_if_nothing_else_is_collected(
    pytester: pytest.Pytester, text: str
) -> None:
    """pytest itself says no more than that no tests ran."""
    write(pytester.path, {"evals/suite.yaml": text})

    empty = run(pytester)

    assert empty.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    empty.stdout.fnmatch_lines(["agenteval: evals/suite.yaml has no tasks: list them under `tasks:` *"])
    write(pytester.path, {"evals/a.json": task("a")})
    run(pytester, "-k", "nosuch").stdout.no_fnmatch_line("*has no tasks*")
    for options in ((), ("--collect-only",), ("--agent-resume=nosuch",)):
        run(pytester, *options).stdout.no_fnmatch_line("*has no tasks*")


def test_other_peoples_json_at_the_root_hides_no_folder_of_tasks(pytester: pytest.Pytester) -> None:
    """Each folder has a line; of very many the first few, and how many more."""
    folders = {f"f{number}/deep/{name}.json": task(name) for number in range(6) for name in "ab"}
    write(pytester.path, {"anybody.json": {"id": 1, "graders": []}, "f0/x.json": task("c"), **folders})

    lines = [line for line in run(pytester).outlines if line.startswith("agenteval: ")]

    assert [line.split()[1] for line in lines] == ["anybody.json", "f0/x.json", "f1/deep/a.json", "and"]
    assert lines[-1] == "agenteval: and the same in 4 more folders"


def test_other_tools_files_that_are_no_strict_json_or_yaml_are_no_tasks(pytester: pytest.Pytester) -> None:
    """Comments, last commas, several documents and lines are theirs to use; a broken file may be a task."""
    others = {
        "tsconfig.json": '{\n  // strict\n  "compilerOptions": {"strict": true,},\n}',
        "service.yaml": "kind: Service\nmetadata:\n  name: x\n---\nkind: Deployment\n",
        "lines.json": '{"a": 1}\n{"b": 2}\n',
        "template.yaml": "a: {{ b }}\n",
    }
    meant = {
        "half.json": '{"id": "half", "inp',
        "conflict.yaml": "<<<<<<< ours\nid: a\n=======\nid: b\n>>>>>>> theirs\n",
        "brace.json": "{",
    }
    write(pytester.path, {"suite.yaml": suite(), "a.json": task("a"), **others, **meant})

    result = run(pytester, "--continue-on-collection-errors", "-v")

    result.assert_outcomes(passed=1, errors=len(meant))
    output = str(result.stdout)
    assert "conflict.yaml:1\n  expected: a YAML document\n  found:    a merge conflict\n" in output
    assert "4 files below suites are no tasks" in output
    assert output.count("put data that is not a task into a file or folder whose name begins with '_'") == 3


NOT_ONE_ON_EVERY_SYSTEM = [
    (["CON"], "'CON', which Windows keeps for a device"),
    (["aux.txt"], "'aux.txt', which Windows keeps for a device"),
    (["Lpt1"], "'Lpt1', which Windows keeps for a device"),
    (["."], "'.', whose last character Windows leaves out"),
    ([".."], "'..', whose last character Windows leaves out"),
    (["a."], "'a.', whose last character Windows leaves out"),
    (["a\0b"], "'a\\x00b', which holds a control character"),
    (["a", "A"], "'A', which some file systems do not distinguish from 'a' in evals/7/t.json:3"),
    (
        ["caf\u00e9", "cafe\u0301"],
        "which some file systems do not distinguish from 'caf\u00e9' in evals/8/t.json:3",
    ),
    (
        ["한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"],
        "which some file systems do not distinguish from '한글' in ",
    ),
    (
        ["stra\u00dfe", "STRASSE"],
        "'STRASSE', which some file systems do not distinguish from 'stra\u00dfe' in ",
    ),
]
ALIKE = [["console", "nullable", "a.b", ".a", "con_"], ["a", "ä", "å", "나", "가"]]


def test_names_are_one_on_every_system(pytester: pytest.Pytester) -> None:
    """Recordings are called by ids, exports by suites: two that some system takes for one would share a file.

    Nothing is refused that some system could not hold, nor what only looks alike.
    """
    for number, ids in enumerate([*(ids for ids, _ in NOT_ONE_ON_EVERY_SYSTEM), *ALIKE]):
        tasks = [task(id) for id in ids]
        write(
            pytester.path,
            {f"evals/{number}/suite.yaml": suite(f"s{number}"), f"evals/{number}/t.json": tasks},
        )
    for number, name in enumerate(["nul", "Shop", "shop"]):
        files = {f"other/{number}/suite.yaml": suite(name), f"other/{number}/t.json": task(f"t{number}")}
        write(pytester.path, files)

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=len(NOT_ONE_ON_EVERY_SYSTEM) + 2, passed=sum(map(len, ALIKE)) + 1)
    found_problems = problems(result)
    for number, (_, found) in enumerate(NOT_ONE_ON_EVERY_SYSTEM):
        assert found in found_problems[f"evals/{number}/t.json"]
    assert "'nul', which Windows keeps for a device" in str(result.stdout)
    assert "'shop', which some file systems do not distinguish from the suite 'Shop'" in str(result.stdout)

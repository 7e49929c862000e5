"""From a folder of files to tasks, their buckets, trees and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.tasks.file_names import find_suite, is_data_name, is_task_name
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.referenced_files import prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite, resolve_settings
from pytest_agenteval.tasks.task_spec import Limits, Task
from pytest_agenteval.tasks.validation import spec_of
from pytest_agenteval.text.errors import ProblemsFound
from tests.forked_workers import run_python

LEAST: dict[str, Any] = {"id": "a", "input": {}, "graders": [{"name": "n"}]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Paths are shown from the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def suite_dir(here: Path) -> Path:
    """The folder of a suite, two below the root."""
    folder = here / "evals" / "pkm"
    folder.mkdir(parents=True)
    return folder


def write_file(path: Path, value: Any) -> Path:
    """Write a file and give its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path


def task(**more: Any) -> Task:
    """Give a task that is read."""
    return spec_of(Task, {**LEAST, **more})


def suite(**more: Any) -> Suite:
    """Give a suite that is read."""
    return spec_of(Suite, {"name": "pkm", **more})


def problems(call: Any, *args: Any, **more: Any) -> list[str]:
    """Give the problems that a call raises, in brief."""
    with pytest.raises(ProblemsFound) as caught:
        call(*args, **more)
    return [
        f"{one.file}:{one.line} {list(one.path)} {one.expected} | {one.found} | {one.hint}"
        for one in caught.value.problems
    ]


# load_tasks


def test_a_file_holds_one_task_or_a_list(here: Path) -> None:
    """Each task knows its line, and its place in a list."""
    single = write_file(here / "x" / "one.json", {**LEAST, "id": "one"})
    several = write_file(
        here / "x" / "two.yaml",
        "- {id: a, input: {}, graders: [{name: n}]}\n\n- input: {}\n  id: b\n  graders: [{name: n}]\n",
    )

    assert load_tasks(single) == (LoadedTask(task(id="one"), single, 2, (), "x"),)
    places = [(one.task.id, one.line, one.at) for one in load_tasks(several)]
    assert places == [("a", 1, (0,)), ("b", 4, (1,))]


def test_a_file_is_grouped_by_its_folder_below_the_root_of_all_folders_too(here: Path) -> None:
    """A ``task.json`` has a folder of its own: what groups it is the one above, be the root ``/`` too."""
    path = write_file(here / "inbox" / "first" / "task.json", LEAST)
    assert [loaded.bucket for loaded in load_tasks(path, None, Path(here.anchor))] == ["inbox"]


def test_every_faulty_task_of_a_list_is_reported(here: Path) -> None:
    """One round of mending is enough, whatever is wrong with how many tasks."""
    entries = [
        LEAST,
        {**LEAST, "id": "b", "input": 1},
        "c",
        {"id": "d"},
        LEAST,
        {**LEAST, "id": "e", "tags": [1]},
    ]
    rows = problems(load_tasks, write_file(here / "list.json", entries))

    assert [row.split(" | ")[0].split("] ")[0] + "]" for row in rows] == [
        "list.json:13 [1, 'input']",
        "list.json:20 [2]",
        "list.json:21 [3, 'input']",
        "list.json:21 [3, 'graders']",
        "list.json:25 [4, 'id']",
        "list.json:42 [5, 'tags', 0]",
    ]
    assert "an id that no other task has | 'a', which the task on line 3 has too" in rows[4]


@pytest.mark.parametrize(
    "text", ['{"name": 1}', "[]", "[1, 2]", '"text"', "null", '[{"name": 1}]', "{broken", "{broken, id: }"]
)
def test_a_file_that_does_not_look_like_a_task_gives_none_unless_it_was_meant(here: Path, text: str) -> None:
    """Data files may lie beside tasks; but a task.json, or a file named on the command line, is a task."""
    beside = write_file(here / "data.json", text)

    assert load_tasks(beside) == ()
    assert len(problems(load_tasks, beside, named=True)) == 1
    assert len(problems(load_tasks, write_file(here / "task.json", text))) == 1


def test_a_broken_file_that_speaks_of_id_and_graders_is_a_problem(here: Path) -> None:
    """A task with a slip in it is not taken for a data file."""
    text = "id: a\ninput: {\ngraders: [{name: n}]\n"

    assert problems(load_tasks, write_file(here / "any.yaml", text))[0].startswith("any.yaml:")


@pytest.mark.parametrize("value", [{"id": "a"}, {"graders": []}, [{"x": 1}, {"id": "a"}]])
def test_half_a_task_is_a_problem_where_a_task_was_meant(here: Path, value: Any) -> None:
    """Much data has an id: in no suite only a file that is named as a task is told what it lacks."""
    assert load_tasks(write_file(here / "any.json", value)) == ()
    assert problems(load_tasks, write_file(here / "any.json", value), Suite(name="s"))
    assert problems(load_tasks, write_file(here / "task.json", value))


def test_one_whole_task_makes_its_list_a_list_of_tasks(here: Path) -> None:
    """Beside a task, an entry that lacks its graders is a faulty task, not data."""
    assert (
        "no key 'graders'"
        in problems(load_tasks, write_file(here / "any.json", [LEAST, {"id": "b", "input": {}}]))[0]
    )


def test_a_suite_may_require_reference_solutions(here: Path) -> None:
    """Each task without one is told; null is none; a misspelled one is told once, as misspelled."""
    entries = [
        LEAST,
        {**LEAST, "id": "b", "reference_solution": None},
        {**LEAST, "id": "c", "reference_solution": {}},
    ]
    path = write_file(here / "list.json", [*entries, {**LEAST, "id": "d", "reference_solutions": {}}])
    rows = problems(load_tasks, path, suite(require_reference_solution=True))

    expected = "a map: a solution of the task (the suite 'pkm' requires it)"
    assert rows[:2] == [
        f"list.json:2 [0, 'reference_solution'] {expected} | no key 'reference_solution' | ",
        f"list.json:19 [1, 'reference_solution'] {expected} | nothing | ",
    ]
    assert len(rows) == 3
    assert "unknown key 'reference_solutions'" in rows[2]


@pytest.mark.parametrize(
    ("file", "bucket"),
    [
        ("starter_route/health_sleep/task.json", "starter_route"),
        ("health_sleep/task.json", "pkm"),
        ("task.json", "pkm"),
        ("L3/L3-001.json", "L3"),
        ("ko/L3/all.yaml", "L3"),
        ("all.json", "pkm"),
    ],
)
def test_a_bucket_is_the_folder_that_groups_tasks(suite_dir: Path, file: str, bucket: str) -> None:
    """A task.json has a folder of its own, so the folder above groups; the suite's folder means the suite."""
    path = write_file(suite_dir / file, LEAST)

    assert [one.bucket for one in load_tasks(path, suite(), suite_dir)] == [bucket]


def test_a_named_bucket_comes_before_the_folder(suite_dir: Path) -> None:
    """Memex's failure_bucket is the bucket; a blank one is none."""
    entries = [
        {**LEAST, "metadata": {"failure_bucket": "skip"}},
        {**LEAST, "id": "b", "metadata": {"failure_bucket": " "}},
    ]
    path = write_file(suite_dir / "L1" / "all.json", entries)

    assert [one.bucket for one in load_tasks(path, suite(), suite_dir)] == ["skip", "L1"]


def test_without_a_suite_the_folder_is_the_bucket(here: Path) -> None:
    """A task alone still has a group."""
    assert load_tasks(write_file(here / "some" / "thing" / "task.json", LEAST))[0].bucket == "some"


# suites and names


def test_a_suite_is_the_nearest_upward(here: Path, suite_dir: Path) -> None:
    """The folder asked about comes first, and nothing above the last folder is looked at."""
    inner = suite_dir / "deep" / "er"
    inner.mkdir(parents=True)
    file = write_file(suite_dir / "suite.yml", "name: pkm\n")
    outer = write_file(here / "suite.json", {"name": "outer"})

    assert find_suite(inner, here) == find_suite(suite_dir, here) == file
    assert find_suite(suite_dir.parent, here) == outer
    assert find_suite(suite_dir.parent, suite_dir.parent) is None
    assert load_suite(file) == suite()


def test_two_suite_files_in_one_folder_are_a_problem(suite_dir: Path) -> None:
    """Which of them counts is not guessed."""
    write_file(suite_dir / "suite.yaml", "name: a\n")
    write_file(suite_dir / "suite.json", {"name": "b"})

    assert (
        "one suite file in a folder | suite.yaml and suite.json"
        in problems(find_suite, suite_dir, suite_dir)[0]
    )


@pytest.mark.parametrize(
    ("name", "with_suite", "without"),
    [
        ("task.json", True, True),
        ("task.yml", True, True),
        ("TASK.YAML", True, True),
        ("other.json", True, False),
        ("other.yaml", True, False),
        ("_x.json", False, False),
        ("other.md", False, False),
        ("task.toml", False, False),
        ("suite.yaml", False, False),
        ("suite.json", False, False),
        (".x.json", False, False),
        (".json", False, False),
        ("json", False, False),
    ],
)
def test_a_name_says_whether_a_file_may_hold_tasks(name: str, with_suite: bool, without: bool) -> None:
    """Nothing is opened, so that every file of a tree can be asked."""
    assert (is_data_name(name), is_task_name(Path("somewhere") / name)) == (with_suite, without)


# starting trees and prompts


def test_a_workspace_starts_from_a_base_and_an_overlay(here: Path, suite_dir: Path) -> None:
    """Both are looked up from the suite's folder, then from fixtures/; the base comes first."""
    file = write_file(suite_dir / "route" / "sleep" / "task.json", LEAST)
    own, shared, overlay = (
        suite_dir / "_own",
        here / "fixtures" / "pkm" / "starter",
        file.parent / "workspace",
    )
    for folder in (own, shared, overlay):
        folder.mkdir(parents=True)

    def tree(**value: str) -> tuple[Path, ...]:
        return workspace_layers(task(input=value), suite_dir, file, here)

    assert tree() == (overlay,)
    assert tree(base_fixture="pkm/starter") == (shared, overlay)
    assert tree(base_fixture="_own") == (own, overlay)
    assert tree(base_fixture="_own", fixture_dir="route/sleep/workspace") == (own, overlay)
    assert tree(fixture_dir="pkm/starter") == (shared,)
    assert tree(base_fixture="../../fixtures/pkm/starter") == (shared, overlay)


def test_the_workspace_beside_belongs_to_task_files_only(here: Path, suite_dir: Path) -> None:
    """A list of tasks does not share a workspace by accident."""
    (suite_dir / "workspace").mkdir()

    assert workspace_layers(task(), suite_dir, suite_dir / "all.json", here) == ()
    assert workspace_layers(task(), suite_dir, suite_dir / "task.yaml", here) == (suite_dir / "workspace",)


def test_a_tree_that_is_not_there_is_told_with_the_places_looked_at(here: Path, suite_dir: Path) -> None:
    """All at once, with the line in the task file and the nearest folder that exists."""
    (here / "fixtures" / "pkm" / "starter").mkdir(parents=True)
    value = {**LEAST, "input": {"base_fixture": "pkm/startr", "fixture_dir": "nowhere"}}
    file = write_file(suite_dir / "all.json", [{**LEAST, "id": "z"}, value])

    assert problems(workspace_layers, spec_of(Task, value), suite_dir, file, here) == [
        "evals/pkm/all.json:14 [1, 'input', 'base_fixture'] "
        "a folder: evals/pkm/pkm/startr or fixtures/pkm/startr | "
        "'pkm/startr', which is not there | did you mean 'pkm/starter'?",
        "evals/pkm/all.json:15 [1, 'input', 'fixture_dir'] a folder: evals/pkm/nowhere or fixtures/nowhere | "
        "'nowhere', which is not there | ",
    ]


def test_a_tree_further_up_says_where_a_suite_file_is_missing(here: Path) -> None:
    """Pasted tasks name folders from their suite's folder, and nobody pasted the suite's file."""
    (here / "evals" / "notes" / "_starter").mkdir(parents=True)
    value = {**LEAST, "input": {"base_fixture": "_starter", "fixture_dir": "/etc"}}
    file = write_file(here / "evals" / "notes" / "one" / "task.json", value)

    first, second = problems(workspace_layers, spec_of(Task, value), None, file, here)

    hint = "write evals/notes/suite.yaml: folders are looked up from the folder of suite.yaml"
    assert first.endswith(f"'_starter', which is not there | {hint}")
    assert second.endswith("'/etc', an absolute path | ")


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("/etc", "a path below evals/pkm or fixtures | '/etc', an absolute path"),
        ("../../..", "a path below evals/pkm or fixtures | '../../..', which leads out of it"),
        (
            "x/../../../../etc",
            "a path below evals/pkm or fixtures | 'x/../../../../etc', which leads out of it",
        ),
        ("", "the path of a folder: a text | ''"),
        (3, "the path of a folder: a text | 3"),
        ("\0", "a folder: evals/pkm/\0 or fixtures/\0 | '\\x00', which is not there"),
        (
            "x" * 300,
            f"a folder: evals/pkm/{'x' * 300} or fixtures/{'x' * 300} | '{'x' * 300}', which is not there",
        ),
    ],
)
def test_a_tree_outside_the_project_is_refused(here: Path, suite_dir: Path, name: Any, trouble: str) -> None:
    """A task file cannot copy what is not the project's."""
    file = suite_dir / "task.json"

    rows = problems(workspace_layers, task(input={"base_fixture": name}), suite_dir, file, here)

    assert [row.split("] ", 1)[1] for row in rows] == [f"{trouble} | "]


@pytest.mark.posix
def test_a_tree_lies_below_the_suite_or_below_fixtures(here: Path, suite_dir: Path) -> None:
    """What else the project holds is no starting tree, and no link leads out of the project."""
    outside = here.parent / f"{here.name}-outside"
    for folder in (here / "secretdir", suite_dir.parent / "shared", here / "fixtures" / "a", outside):
        folder.mkdir(parents=True)
    (suite_dir / "out").symlink_to(outside, target_is_directory=True)
    (suite_dir / "in").symlink_to(here / "secretdir", target_is_directory=True)
    file = suite_dir / "task.json"

    def of(name: str) -> list[str]:
        layers = task(input={"base_fixture": name})
        return [row.split("] ", 1)[1] for row in problems(workspace_layers, layers, suite_dir, file, here)]

    for name in ("../../secretdir", "../shared", "../secretdir"):
        trouble = f"a path below evals/pkm or fixtures | {name!r}, which leads out of it | "
        assert of(name) == [trouble]
    assert of("out") == ["a path below evals/pkm or fixtures | 'out', which leads out of it | "]
    (suite_dir / "workspace").symlink_to(outside, target_is_directory=True)
    assert of("in") == ["a path below evals/pkm | 'workspace', which leads out of it | "]
    (suite_dir / "workspace").unlink()
    assert workspace_layers(task(input={"base_fixture": "in"}), suite_dir, file, here) == (suite_dir / "in",)
    assert workspace_layers(task(input={"base_fixture": "../fixtures/a"}), suite_dir, file, here) == (
        here / "fixtures" / "a",
    )


@pytest.mark.posix
def test_a_prompt_may_lie_anywhere_in_the_project(here: Path, suite_dir: Path) -> None:
    """Prompts are the product's own, and suites share them; a link out of the project is none of them."""
    prompt = write_file(here / "prompts" / "system.md", "Be kind.")
    outside = write_file(here.parent / f"{here.name}-outside.md", "secret")
    (suite_dir / "out.md").symlink_to(outside)
    file = suite_dir / "task.json"

    shared = suite(prompts={"system": "../../prompts/system.md"})
    assert prompt_files(task(), shared, suite_dir, file, here) == {"system": prompt}
    of_task = task(prompts={"system": "out.md"})
    (row,) = problems(prompt_files, of_task, suite(), suite_dir, file, here)
    assert "a path below . | 'out.md', which leads out of it" in row


def test_prompts_are_files_beside_the_suite_or_the_task(here: Path, suite_dir: Path) -> None:
    """The task's name for a prompt replaces the suite's; both are looked up in the suite's folder first."""
    file = write_file(suite_dir / "a" / "task.json", LEAST)
    one, two = write_file(suite_dir / "one.md", "1"), write_file(suite_dir / "a" / "two.md", "2")
    shared = suite(prompts={"system": "one.md", "skill": "gone.md"})

    assert prompt_files(task(prompts={"skill": "two.md"}), shared, suite_dir, file, here) == {
        "system": one,
        "skill": two,
    }


def test_a_prompt_that_is_not_there_is_told_in_the_file_that_names_it(here: Path, suite_dir: Path) -> None:
    """The author is sent to the task or to the suite."""
    value = {**LEAST, "prompts": {"skill": "tow.md"}}
    file = write_file(suite_dir / "a" / "task.json", value)
    write_file(suite_dir / "a" / "two.md", "2")
    write_file(suite_dir / "one.md", "1")
    write_file(suite_dir / "suite.yaml", "name: pkm\nprompts:\n  system: gone.md\n")
    shared = load_suite(suite_dir / "suite.yaml")

    assert problems(prompt_files, spec_of(Task, value), shared, suite_dir, file, here) == [
        "evals/pkm/a/task.json:10 ['prompts', 'skill'] a file: evals/pkm/tow.md or evals/pkm/a/tow.md | "
        "'tow.md', which is not there | did you mean 'two.md'?"
    ]
    assert problems(prompt_files, task(), shared, suite_dir, file, here) == [
        "evals/pkm/suite.yaml:3 ['prompts', 'system'] a file: evals/pkm/gone.md or evals/pkm/a/gone.md | "
        "'gone.md', which is not there | did you mean 'one.md'?"
    ]


# effective settings


def test_a_task_comes_before_its_suites_defaults_and_these_before_the_suite() -> None:
    """Each value on its own, maps key by key."""
    shared = suite(
        agent="card",
        settings={"a": 1, "b": 1, "c": 1},
        prompts={"p": "suite.md", "q": "suite.md"},
        defaults={
            "trials_per_run": 3,
            "limits": {"steps": 9, "seconds": 60, "tokens": 100},
            "clock": "2026-05-25T09:00:00",
            "model": ["m"],
            "tags": ["x", "y"],
            "settings": {"b": 2, "c": 2},
        },
    )
    own = task(
        agent="pkm", trials_per_run=2, limits={"steps": 4}, timeout_seconds=30, tags=["y", "z"],
        settings={"c": 3}, prompts={"q": "task.md"},
    )  # fmt: skip
    found, plain = resolve_settings(own, shared), resolve_settings(task(), shared)

    assert (found.agent, found.trials, found.clock) == ("pkm", 2, "2026-05-25T09:00:00")
    assert found.limits == Limits(steps=4, seconds=30, tokens=100)
    assert (found.models, found.tags) == (("m",), ("x", "y", "z"))
    assert (found.settings, found.prompts) == ({"a": 1, "b": 2, "c": 3}, {"p": "suite.md", "q": "task.md"})
    assert (plain.agent, plain.trials, plain.limits) == ("card", 3, shared.defaults.limits)


def test_a_task_alone_has_what_it_says() -> None:
    """Without a suite one trial is run, by whatever agent the run names."""
    found = resolve_settings(task(), None)

    assert (found.agent, found.trials, found.limits, found.settings) == (None, 1, Limits(), {})


def test_seconds_come_before_memexs_timeout() -> None:
    """`timeout_seconds` is read where `limits.seconds` is not said."""
    assert resolve_settings(task(timeout_seconds=9), None).limits.seconds == 9
    assert resolve_settings(task(timeout_seconds=9, limits={"seconds": 5}), None).limits.seconds == 5


def test_yaml_is_read_alike_without_libyaml(here: Path) -> None:
    """Where PyYAML has no C library the same values, lines and problems come out."""
    write_file(here / "task.yaml", "id: a\ninput: {t: 1:30, n: 012, yes: no}\ngraders:\n- name: n\n")
    write_file(here / "bad.yaml", "id: a\nid: b\ngraders: !x []\n")
    code = """
import pathlib, sys, yaml
yaml.__with_libyaml__ = False
for name in [name for name in sys.modules if name.startswith("pytest_agenteval.tasks")]:
    del sys.modules[name]
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tasks.load import load_tasks
from pytest_agenteval.tasks.documents import read_document
task = load_tasks(pathlib.Path("task.yaml"))[0]
assert task.task.input == {"t": "1:30", "n": "012", "yes": "no"}, task
assert read_document(pathlib.Path("task.yaml")).line_of(("graders", 0, "name")) == 4
bad = {'{id: "\\\\U0000D800", input: {}, graders: [{name: n}]}': None}
bad |= {"id: a\\nid: b\\ngraders: !x []": 2, "a: b: c": 1, "a: 1\\n\\x07": 2, "[" * 3000: None}
for text, line in bad.items():
    pathlib.Path("bad.yaml").write_text(text)
    try:
        load_tasks(pathlib.Path("bad.yaml"), named=True)
    except ProblemsFound as found:
        assert found.problems[0].line == line or line is None, found
    else:
        raise AssertionError(text)
from pytest_agenteval.tasks import yaml_reading
assert "CParser" not in str(yaml_reading._Reader.__mro__)
"""
    done = run_python("-c", code, cwd=here)
    assert done.returncode == 0, done.stderr

"""What an author is told of files that have to be mended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

BROKEN = """\
id: greet
input: {content: hi}
trials_pre_run: 3
graders:
  - name: answer_contains
    config: {text: Mina}
    weight: heavy
"""


def printed_text(result: pytest.RunResult) -> str:
    """Give what was printed; no user's mistake shows a traceback or a line of our code."""
    text = str(result.stdout)
    assert "Traceback" not in text
    assert ".py:" not in text
    return text


def test_all_problems_of_a_file_are_told_at_once_with_their_lines(pytester: pytest.Pytester) -> None:
    """File, line, key, what was expected, what was found and a hint, in reading order, told once."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/task.yaml": BROKEN})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "evals/task.yaml:3: trials_pre_run",
            "  expected: one of *",
            "  found: *unknown key 'trials_pre_run'",
            "  hint: *did you mean 'trials_per_run'?",
            "evals/task.yaml:7: graders*weight",
            "  expected: a number above 0",
            "  found: *'heavy' (text)",
        ]
    )
    assert printed_text(result).count("evals/task.yaml:7") == 1


@pytest.mark.parametrize(
    ("option", "passed", "status"),
    [
        ((), 0, pytest.ExitCode.INTERRUPTED),
        (("--continue-on-collection-errors",), 1, pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_other_files_are_collected_all_the_same(
    pytester: pytest.Pytester, option: tuple[str, ...], passed: int, status: pytest.ExitCode
) -> None:
    """A broken file interrupts the run, as a broken test module does, unless pytest is told to go on."""
    files = {"evals/suite.yaml": suite(), "evals/a/task.yaml": BROKEN, "evals/b/task.json": task("fine")}
    write(pytester.path, files)

    result = run(pytester, *option)

    result.assert_outcomes(errors=1, passed=passed)
    assert result.ret == status


def test_a_broken_suite_is_told_once(pytester: pytest.Pytester) -> None:
    """However many tasks lie below it, its problems are said once, and none of them is run without it."""
    tasks = {f"evals/{name}/task.json": task(name) for name in "abc"}
    write(pytester.path, {"evals/suite.yaml": "name: s\nknid: capability\n", **tasks})

    result = run(pytester, "--continue-on-collection-errors", workers=2)

    result.assert_outcomes(errors=1)
    assert printed_text(result).count("\nevals/suite.yaml:2: knid") == 1
    assert "did you mean 'kind'?" in printed_text(result)


def test_two_suite_files_in_one_folder_are_a_problem_also_for_tasks_further_down(
    pytester: pytest.Pytester,
) -> None:
    """Which of them holds cannot be guessed."""
    suites = {"evals/suite.yaml": suite(), "evals/suite.json": {"name": "s"}}
    write(pytester.path, {**suites, "evals/a/task.json": task("a"), "evals/b/task.json": task("b")})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["evals/suite.yaml", "  expected: one suite file in a folder"])
    printed_text(result)


def test_an_id_is_taken_once_in_a_suite(pytester: pytest.Pytester) -> None:
    """The second file is told where the first has the id; other suites may have it too."""
    files = {f"evals/{name}/task.json": task("twin") for name in "ab"}
    other = {"others/suite.yaml": suite("others"), "others/task.json": task("twin")}
    write(pytester.path, {"evals/suite.yaml": suite(), **files, **other})

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=1, passed=2)
    result.stdout.fnmatch_lines(
        [
            "evals/b/task.json:2: id",
            "  expected: an id that no other*",
            "  found: *'twin'*evals/a/task.json:2",
        ]
    )
    printed_text(result)


def grader(id: str = "greet", **more: Any) -> dict[str, Any]:
    """Give a task whose only grader is the one described."""
    return task(id, graders=[{"name": "answer_contains", "config": {"text": "a"}, **more}])


MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "grader": (
        grader("grader", name="answer_contain"),
        [
            "evals/grader.json:13: graders?0?.name",
            "*one of answer_contains, answer_*",
            "*'answer_contain'*",
            "  hint: *did you mean 'answer_contains'?",
        ],
    ),
    "key": (
        grader("key", config={"txt": "a"}),
        [
            "evals/key.json:15: graders?0?.config.txt",
            "*one of ignore_case, text",
            "*unknown key 'txt'",
            "  hint: *did you mean 'text'?",
        ],
    ),
    "flag": (
        grader("flag", config={"text": "a", "ignore_case": "yes"}),
        ["evals/flag.json:16: graders?0?.config.ignore_case", "*a valid boolean", "*'yes' (text)"],
    ),
    "text": (
        grader("text", config={"text": 5}),
        ["evals/text.json:15: graders?0?.config.text", "*a text", "*5 (number)"],
    ),
    "missing": (
        grader("missing", config={}),
        ["evals/missing.json:14: graders?0?.config.text", "*a value: it has no default", "*no key 'text'"],
    ),
    "refusal": (
        grader("refusal", config={"text": ""}),
        [
            "evals/refusal.json:14: graders?0?.config",
            "*settings that answer_contains takes",
            "  found: *an empty text is contained in every answer",
        ],
    ),
    "agent": (
        task("agent", agent="tool_caling"),
        [
            "evals/agent.json:*: agent",
            "*one of *tool_calling",
            "*'tool_caling'",
            "*did you mean 'tool_calling'?",
        ],
    ),
    "setting": (
        task("setting", settings={"sytem": "Be kind."}),
        [
            "evals/setting.json:*: settings.sytem",
            "*one of conversation, system, tools",
            "*",
            "*did you mean 'system'?",
        ],
    ),
    "tool": (
        task("tool", settings={"tools": ["search"]}),
        [
            "evals/tool.json:*: settings.tools?0?",
            "*nothing: there is none",
            "*'search', no registered tool",
        ],
    ),
}


def test_what_does_not_fit_is_told_at_its_line(pytester: pytest.Pytester) -> None:
    """Unknown names, keys and values of another type are found before any trial starts."""
    files = {f"evals/{name}.json": content for name, (content, _) in MISTAKES.items()}
    write(pytester.path, {"evals/suite.yaml": suite(), **files})

    result = run(pytester)

    result.assert_outcomes(errors=len(MISTAKES))
    for _, lines in MISTAKES.values():
        result.stdout.fnmatch_lines(lines, consecutive=True)
    printed_text(result)


def test_the_same_mistake_is_told_in_each_file(pytester: pytest.Pytester) -> None:
    """Answers are remembered for what fits only: a second file with the mistake does not pass for good."""
    mistakes: dict[str, dict[str, Any]] = {"name": {"name": "nope"}, "config": {"config": {"text": 5}}}
    tasks = {
        f"evals/{name}_{part}/task.json": grader(f"{name}_{part}", **more)
        for part, more in mistakes.items()
        for name in "ab"
    }
    write(pytester.path, {"evals/suite.yaml": suite(), **tasks})

    run(pytester, "--collect-only").assert_outcomes(errors=4)


def test_a_mistake_is_told_also_where_the_same_grader_is_right_elsewhere(pytester: pytest.Pytester) -> None:
    """What is remembered of a grader that fits is its settings too."""
    wrong = {**grader(config={"txt": "Mina"}), "id": "wrong"}
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/a.json": task("right"), "evals/b.json": wrong})

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["evals/b.json:15: graders?0?.config.txt"])


def test_a_missing_fixture_is_told(pytester: pytest.Pytester) -> None:
    """A starting tree that is not there, or not below the project, is no trial's error but the file's."""
    bases = {"typo": "pkm/strater", "outside": "../../../etc"}
    tasks = {
        f"evals/{name}.json": task(name, input={"content": "", "base_fixture": base})
        for name, base in bases.items()
    }
    write(pytester.path, {"fixtures/pkm/starter/PKM/a.md": "a", "evals/suite.yaml": suite(), **tasks})

    result = run(pytester)

    result.assert_outcomes(errors=2)
    for name in bases:
        result.stdout.fnmatch_lines([f"evals/{name}.json:5: input.base_fixture"])
    outside, typo = printed_text(result).split("evals/typo.json:5: ")
    assert "did you mean 'pkm/starter'?" in typo
    assert "did you mean" not in outside


def test_what_a_suite_says_wrong_is_told_once_at_the_suite(pytester: pytest.Pytester) -> None:
    """A task is not blamed for what it inherits."""
    lines = {
        "agent": "agent: crad",
        "settings.sytem": "settings: {sytem: hi}",
        "prompts.system": "prompts: {system: none.md}",
    }
    for key, line in lines.items():
        tasks = {f"{key}/{name}/task.json": task(name) for name in "abc"}
        write(pytester.path, {f"{key}/suite.yaml": suite(key, more=f"{line}\n"), **tasks})

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=3)
    for key in lines:
        assert printed_text(result).count(f"{key}/suite.yaml:4: {key}") == 1
    assert "task.json:" not in printed_text(result)


def test_a_prompt_that_is_no_text_is_told(pytester: pytest.Pytester) -> None:
    """A prompt file has to be UTF-8."""
    write(
        pytester.path, {"evals/suite.yaml": suite(), "evals/task.json": task("a", prompts={"system": "p.md"})}
    )
    (pytester.path / "evals" / "p.md").write_bytes(b"caf\xe9")

    result = run(pytester)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["evals/p.md", "  expected: a text in UTF-8", "  found: *0xe9"])
    printed_text(result)


def test_a_task_of_a_list_is_told_by_its_place(pytester: pytest.Pytester) -> None:
    """In a list the key path begins with the task's number; its neighbours are not run without it."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/many.json": [task("a"), grader(name="nope")]})

    result = run(pytester, "--continue-on-collection-errors")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["evals/many.json:*: ?1?.graders?0?.name"])
    printed_text(result)


LOOKING = """
from pytest_agenteval.tools.toolsets import tool_of

def look() -> str:
    "Look around."
    return "seen"

def pytest_agenteval_register(registry):
    registry.tool(tool_of(look, taped=True))
"""


@pytest.mark.parametrize("workers", [0, 1], ids=["one-process", "one-worker"])
def test_a_recording_that_cannot_be_written_is_told_by_its_trial_and_at_the_end(
    pytester: pytest.Pytester, workers: int
) -> None:
    """A file is at fault and no code of anybody's; the trial beside it keeps its recording."""
    script = [{"calls": [{"tool": "look"}]}, {"text": "Hello, Mina!"}]
    tasks = {f"evals/{name}.json": task(name, script=script) for name in "ab"}
    asked = suite(more="settings: {tools: [look]}\n")
    write(pytester.path, {"conftest.py": LOOKING, "evals/suite.yaml": asked, **tasks})
    (pytester.path / "cassettes" / ".b.yaml.lock").mkdir(parents=True)

    result = run(pytester, "--agent-record=once", workers=workers)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "file_problem: cassettes/b.yaml",
            "  expected: a file that can be written",
            "recordings not written: cassettes/b.yaml: *",
        ]
    )
    assert (pytester.path / "cassettes" / "a.yaml").is_file()
    printed_text(result)

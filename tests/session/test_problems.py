"""What an author is told of files that have to be mended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def printed_text(result: pytest.RunResult) -> str:
    """Give what was printed; no user's mistake shows a traceback or a line of our code."""
    text = str(result.stdout)
    assert "Traceback" not in text
    assert ".py:" not in text
    return text


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
    """Unknown names, keys and values of another type are found before any trial starts, in every file.

    What fits elsewhere, or was told of another file, is no reason to pass this one.
    """
    files = {f"evals/{name}.json": content for name, (content, _) in MISTAKES.items()}
    twins = {
        f"evals/more/{name}.json": {**MISTAKES[name][0], "id": f"{name}2"} for name in ("grader", "text")
    }
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/fine.json": task("fine"), **files, **twins})

    result = run(pytester)

    result.assert_outcomes(errors=len(MISTAKES) + 2)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    for _, lines in MISTAKES.values():
        result.stdout.fnmatch_lines(lines, consecutive=True)
    printed_text(result)


BASES = {"typo": "pkm/strater", "outside": "../../../etc"}
INHERITED = {
    "agent": "agent: crad",
    "settings.sytem": "settings: {sytem: hi}",
    "prompts.system": "prompts: {system: none.md}",
    "knid": "knid: capability",
}
PROJECT: dict[str, Any] = {
    "a_twin/suite.yaml": suite("twin"),
    "a_twin/a/task.json": task("twin"),
    "a_twin/b/task.json": task("twin"),
    "b_other/suite.yaml": suite("other"),
    "b_other/task.json": task("twin"),
    "c_two/suite.yaml": suite("two"),
    "c_two/suite.json": {"name": "s"},
    "c_two/a/task.json": task("a"),
    "c_two/b/task.json": task("b"),
    "d_fixture/suite.yaml": suite("fixture"),
    "fixtures/pkm/starter/PKM/a.md": "a",
    "e_prompt/suite.yaml": suite("prompt"),
    "e_prompt/task.json": task("a", prompts={"system": "p.md"}),
    "f_list/suite.yaml": suite("list"),
    "f_list/many.json": [task("a"), grader(name="nope")],
    **{
        f"d_fixture/{name}.json": task(name, input={"content": "", "base_fixture": base})
        for name, base in BASES.items()
    },
    **{f"{key}/suite.yaml": suite(key, more=f"{line}\n") for key, line in INHERITED.items()},
    **{f"{key}/{name}/task.json": task(name) for key in INHERITED for name in "abc"},
}
"""Suites with one mistake each, and one without."""


@pytest.mark.parametrize("workers", [0, 2])
def test_each_mistake_is_told_once_at_its_place_and_the_rest_is_run(
    pytester: pytest.Pytester, workers: int
) -> None:
    """What a suite says wrong is told there, however many tasks inherit it, and no task is run without it."""
    write(pytester.path, PROJECT)
    (pytester.path / "e_prompt" / "p.md").write_bytes(b"caf\xe9")

    # xdist's workers run what could be collected; pytest alone has to be told.
    options = () if workers else ("--continue-on-collection-errors",)
    result = run(pytester, *options, workers=workers)

    text = printed_text(result)
    result.assert_outcomes(errors=6 + len(INHERITED), passed=2)
    for place, *lines in (
        ("a_twin/b/task.json:2: id", "an id that no other", "'twin', which is also in a_twin/a/task.json:2"),
        ("c_two/suite.yaml", "one suite file in a folder"),
        ("d_fixture/typo.json:5: input.base_fixture", "did you mean 'pkm/starter'?"),
        ("e_prompt/p.md", "a text in UTF-8", "0xe9"),
        ("knid/suite.yaml:4: knid", "did you mean 'kind'?"),
    ):
        (told,) = [part for part in text.split("\n_____") if f"\n{place}\n" in part]
        assert all(line in told for line in lines), told
    (outside,) = [part for part in text.split("\n_____") if "\nd_fixture/outside.json:5: input.base" in part]
    assert "did you mean" not in outside
    result.stdout.fnmatch_lines(["f_list/many.json:*: ?1?.graders?0?.name"])
    assert all(text.count(f"\n{key}/suite.yaml:4: {key}\n") == 1 for key in INHERITED)
    assert not any(f"{key}/a/task.json:" in text for key in INHERITED)


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

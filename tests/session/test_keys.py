"""A real model without its key: said before anything starts, and only where it would be called."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from pytest_agenteval.records.plan import Model
from pytest_agenteval.session.planning.preflight import called_live, check_keys
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TWO = {
    "evals/suite.yaml": suite(),
    "evals/a/task.json": task("here"),
    "evals/b/task.json": task("there"),
}
CLAUDE = "--agent-model=scripted,claude"
MISSING = "--agent-model=claude: no key: the environment variable ANTHROPIC_API_KEY is not set"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_missing_key_ends_the_run_before_any_trial_starts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Exit status 4 and the variable's name, once; trials that need no key are not begun either."""
    write(pytester.path, TWO)
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))

    result = run(pytester, CLAUDE, "-p", "no:cacheprovider", workers=workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {MISSING}", "*--agent-model=rules"])
    printed = str(result.stdout) + str(result.stderr)
    assert printed.count("ANTHROPIC_API_KEY") == 1
    assert not any(word in printed for word in ("Traceback", "INTERNALERROR", "crashed", "passed"))
    assert not (pytester.path / ".agenteval").exists()
    assert list((pytester.path / "temporary").iterdir()) == []


PANEL = """
def pytest_agenteval_register(registry):
    registry.judge_panel("three", ("openai/gpt-4o", "claude", "gemini"))
"""


def test_every_missing_key_is_named_at_once(pytester: pytest.Pytester) -> None:
    """Who lacks two keys is told of both, of a panel's too; an alias says which variable holds its key.

    A model that may take one of several variables names them all. Collecting calls nothing.
    """
    judged = task("here", graders=[{"name": "judge", "config": {"rubric": "task_fulfilment"}}])
    table = "[tool.agenteval.models]\nmine = {id = 'openai/x', api_key_env = 'MY_KEY'}\n"
    write(
        pytester.path,
        {**TWO, "evals/a/task.json": judged, "conftest.py": PANEL, "pyproject.toml": table},
    )

    run(pytester, "--agent-model=gpt,gemini,mine").stderr.fnmatch_lines(
        [
            "*gpt: no key: *OPENAI_API_KEY*",
            "*gemini: *GEMINI_API_KEY or GOOGLE_API_KEY*",
            "*--agent-model=mine: no key: the environment variable MY_KEY is not set",
        ]
    )
    run(pytester, "--agent-judge=three").stderr.fnmatch_lines(
        ["*OPENAI_API_KEY*", "*ANTHROPIC_API_KEY*", "*GEMINI_API_KEY*"]
    )
    assert len(collected_ids(pytester, "--agent-model=claude")) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_key_is_wanted_for_what_is_selected_only(pytester: pytest.Pytester, workers: int) -> None:
    """A model whose trials are all deselected needs no key."""
    write(pytester.path, TWO)

    result = run(pytester, CLAUDE, "-k", "scripted", workers=workers)

    result.assert_outcomes(passed=2, deselected=0 if workers else 2)
    assert journaled(pytester.path) == ["here[scripted-1]", "there[scripted-1]"]


@pytest.mark.parametrize(
    ("mode", "there", "expected"),
    [
        ("off", True, True),
        ("none", False, False),
        ("once", True, False),
        ("once", False, True),
        ("new_episodes", True, False),
        ("new_episodes", False, True),
        ("all", True, True),
    ],
)
def test_each_way_of_recording_says_whether_a_key_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, there: bool, expected: bool
) -> None:
    """A key is wanted where the model would be asked for certain, or nothing is recorded yet."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    cassette = tmp_path / "claude-1.yaml"
    if there:
        cassette.touch()

    with pytest.raises(UsageMistake, match="ANTHROPIC_API_KEY") if expected else nullcontext():
        check_keys(called_live([(Model("claude", "anthropic/claude-x"), str(cassette))], mode))


def test_a_key_that_is_set_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is a good one only its provider can say; an empty one is none."""
    gemini = [Model("gemini", "gemini/gemini-x")]
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "anything")
    check_keys(gemini)
    monkeypatch.setenv("GOOGLE_API_KEY", "")
    with pytest.raises(UsageMistake):
        check_keys(gemini)

"""``agenteval init --example``: our benchmarks' suites run in a folder where nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.prompts import read_templates
from tests.journals import trials

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

ROOT = Path(__file__).parents[2]
FEW = ("evals/card/ambiguous", "evals/pkm/opt_out", "evals/ko/L1/L1-001.yaml")
"""Tasks of all three, of which one has a recording, and one a starting tree."""


def test_copied_suites_run_at_once(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """With starting trees and recordings: tasks of each pass or miss, as in a clone, and none is errored."""
    for name in ("card", "pkm", "ko"):
        assert main(["init", "--example", name]) == 0
        assert f"pytest evals/{name}\n" in capsys.readouterr().out

    assert pytester.runpytest(*FEW, "--repetitions=1").ret == 0

    ended = trials(pytester.path)
    assert {trial.key.suite for trial in ended.values()} == {"card", "pkm", "ko"}
    assert {trial.ending for trial in ended.values()} <= {"passed", "missed"}


def test_a_suite_that_is_there_is_not_written_over(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are named, and nothing is written."""
    assert main(["init", "--example", "card"]) == 0
    task = next(pytester.path.glob("evals/card/**/task.json"))
    task.write_text("mine", encoding="utf-8")

    assert main(["init", "--example", "card"]) == 2

    assert "evals/card/suite.yaml" in capsys.readouterr().err
    assert task.read_text("utf-8") == "mine"
    assert main(["init", "--example", "card", "--suite", "mine"]) == 2


def test_prompts_of_an_example_are_files_that_its_suite_names(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the agent's prompts is copied as it is, and trials read the copies."""
    assert main(["init", "--example", "pkm", "--with-prompts"]) == 0
    assert "the prompts: prompts/pkm/*.md" in capsys.readouterr().out
    texts = read_templates("pytest_agenteval.benchmarks.memex.pkm_agent")
    copied = {path.stem: path.read_text("utf-8") for path in pytester.path.glob("prompts/pkm/*.md")}
    assert copied == dict(texts)
    (pytester.path / "prompts/pkm/skipping.md").write_text("# Skip nothing, said the pilot.\n", "utf-8")

    result = pytester.runpytest("evals/pkm/opt_out", "--repetitions=1", "-q")
    assert result.ret == 0
    # One of them is for entries that were left unfinished, of which there is none here.
    result.stdout.no_fnmatch_line("*no trial read*")

    systems = [trial.transcript.messages[0].content for trial in trials(pytester.path).values()]
    assert systems
    assert all("said the pilot" in text for text in systems)


def test_feedback_names_the_copied_prompts_and_not_those_of_the_package(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their texts are equal at first, and only the copies can be changed."""
    assert main(["init", "--example", "pkm", "--with-prompts"]) == 0
    assert pytester.runpytest("evals/pkm/opt_out", "--repetitions=1", "-q").ret == 0
    capsys.readouterr()

    assert main(["feedback"]) == 0

    text = capsys.readouterr().out
    assert "- in `prompts/pkm/`, read in " in text
    assert ".jinja" not in text


def test_prompts_are_copied_only_where_an_agent_has_them(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says where else the prompt is, and nothing is written."""
    assert main(["init", "--example", "ko", "--with-prompts"]) == 2
    assert "settings.system in evals/ko/suite.yaml" in capsys.readouterr().err
    assert main(["init", "--with-prompts"]) == 2
    assert "name one with --example" in capsys.readouterr().err
    assert not (pytester.path / "evals").exists()

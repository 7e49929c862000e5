"""gepa over our runs: what is tried, what counts, and what its winner leaves behind."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.cli.improve import _Reflection
from pytest_agenteval.cli.main import main
from pytest_agenteval.loop.gepa_adapter import CandidateRefused, GEPAAdapter
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.errors import AgentEvalError
from tests.cli.documents import valid_document
from tests.forked_workers import fork_workers
from tests.loop.prompt_projects import PRICES, bakery

PROMPT = "prompts/system.md"
REFLECTION = f"""
import sys
question = sys.stdin.read()
assert "five euros twenty" in question or "four euros eighty" in question, question
print("```")
print("You answer letters to a bakery. A complaint is answered with an apology. {PRICES}")
print("```")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the small project once."""
    return bakery(tmp_path_factory.mktemp("bakery"))


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the project to this test alone, as the current folder."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    fork_workers(monkeypatch)
    return tmp_path / "project"


def test_gepas_winner_is_left_in_the_prompt_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best candidate stands in the files; held-out tasks were never tried, and no more than allowed."""
    (project / "reflect.py").write_text(REFLECTION, encoding="utf-8")
    reflection = f'"{sys.executable}" reflect.py'

    status = main(
        [
            *("gepa", "bakery", "--prompts", "prompts/*.md", "--reflection", reflection),
            *("--max-trials", "12", "--json", "gepa.json"),
        ]
    )

    document = valid_document("gepa", (project / "gepa.json").read_text(encoding="utf-8"))
    assert status == 0
    assert PRICES in (project / PROMPT).read_text(encoding="utf-8")
    assert document["changed"] == [PROMPT]
    assert document["score_best"] == 1.0 > document["score_before"]
    entries = [
        entry
        for run in (project / ".agenteval/runs").glob("gepa-*")
        if not run.is_symlink()
        for entry in load_run(run).entries
    ]
    assert {entry.split for entry in entries} == {"dev"}
    assert document["trials"] == len(entries) <= 12 + 11  # what is begun is ended
    assert "looks better than it is" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
def test_a_reflection_that_never_answers_spends_no_more_trials(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an answer there is no candidate: trials of the prompt as it is would only cost."""
    asked = ("gepa", "evals/bakery", "--prompts", "prompts/*.md", "--max-trials", "200", "--reflection")
    assert main([*asked, "no-such-command --now"]) == 2
    assert "--reflection: there is no command 'no-such-command'" in capsys.readouterr().err
    assert not (project / ".agenteval").exists()

    reflection = _Reflection("echo no key >&2; grep -v unknown", 9.0)
    for question in ("unknown", "an unknown one", "a known one", "unknown", "an unknown one"):
        with suppress(AgentEvalError):
            assert reflection(question).strip() == "a known one"
    assert not reflection.is_given_up
    with pytest.raises(AgentEvalError, match="exit status 1: no key"):
        reflection("unknown, once more")
    assert reflection.is_given_up


def test_validation_is_half_of_dev(project: Path) -> None:
    """Training has every dev task, validation about every second one of each bucket."""
    adapter = GEPAAdapter("evals/bakery", [PROMPT])

    assert sorted(task.id for task in adapter.trainset if task.bucket == "prices") == [
        "prices_dev_1",
        "prices_dev_2",
        "prices_dev_3",
    ]
    assert len(adapter.trainset) == 9
    assert len(adapter.valset) == 5
    assert {task.bucket for task in adapter.valset} == {"complaints", "prices", "thanks"}


def test_a_candidate_with_pieces_of_tasks_is_not_tried(project: Path) -> None:
    """A prompt that names a task is refused, and the files hold what they held."""
    before = (project / PROMPT).read_bytes()
    adapter = GEPAAdapter("evals/bakery", [PROMPT])

    with pytest.raises(CandidateRefused, match=r"prompts/system\.md:2: .*thanks_dev_1"):
        adapter.evaluate(adapter.trainset, {PROMPT: "Be kind.\nMind thanks_dev_1."})

    assert (adapter.trials, adapter.refused) == (0, 1)
    assert (project / PROMPT).read_bytes() == before


def test_errored_trials_are_tried_again_and_are_no_zero(project: Path) -> None:
    """Tasks that errored are tried again; where every attempt errors there is no score, but a refusal.

    After it the file is what it was, to the last byte.
    """
    before = b"You answer letters.\r\n"
    (project / PROMPT).write_bytes(before)
    adapter = GEPAAdapter("evals/bakery", [PROMPT])
    tasks = [task for task in adapter.trainset if task.bucket == "thanks"]

    with pytest.raises(CandidateRefused, match=r"2 tasks errored 3 times.*prompt"):
        adapter.evaluate(tasks, {PROMPT: "{{ nobody_gives_this }}"})

    assert adapter.trials == 6
    good = adapter.evaluate(tasks, {PROMPT: PRICES}, capture_traces=True)
    assert good.scores == [1.0, 1.0]
    records = adapter.make_reflective_dataset({}, good, [PROMPT])[PROMPT]
    assert [record["Feedback"] for record in records] == ["passed: what it did must stay as it is"] * 2
    assert "thanks letter dev" in records[0]["Inputs"]["task"]
    assert os.listdir("prompts") == ["system.md"]
    assert (project / PROMPT).read_bytes() == before
    adapter.write({PROMPT: "Be kind.\nBe brief.\n"})
    assert (project / PROMPT).read_bytes() == b"Be kind.\r\nBe brief.\r\n"

"""The evals that ship: they prove themselves, offline."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from pytest_agenteval.store.reader import Run, read_run

ROOT = Path(__file__).parent.parent
CARDS = 25


@pytest.fixture
def evals(pytester: pytest.Pytester) -> Path:
    """A copy of the evals, so that runs of tests leave nothing in the project."""
    shutil.copytree(ROOT / "evals", pytester.path / "evals")
    return pytester.path / "evals"


def _latest(folder: Path) -> Run:
    return read_run((folder / ".agenteval" / "runs" / "latest").resolve())


def _run(pytester: pytest.Pytester, *arguments: str, status: int = 0) -> Run:
    """Run the evals in a process that cannot open a connection, and give what was written down."""
    blocked = str(ROOT / "tests" / "without_sockets.py")
    result = pytester.runpython_c(
        f"import sys; sys.argv[1:] = {['evals', '-q', *arguments]!r};"
        f"exec(compile(open({blocked!r}).read(), 'without_sockets', 'exec'))"
    )
    assert result.ret == status, result.stdout.str()[-3000:]
    return _latest(pytester.path)


def test_baseline_gets_some_right_and_some_half_right(pytester: pytest.Pytester, evals: Path) -> None:
    """A newcomer's first run, offline, shows partial scores: a mean between 0.4 and 0.9, half credits."""
    entries = _run(pytester).entries
    assert len(entries) == 2 * CARDS
    scores = [entry.score or 0.0 for entry in entries]
    assert 0.4 < sum(scores) / len(scores) < 0.9
    choices = [
        grade.score for entry in entries for grade in entry.grades if grade.grader == "card_template_choice"
    ]
    assert 0.5 in choices
    assert {entry.ending for entry in entries} == {"passed", "missed"}


def test_oracle_passes_every_trial_with_every_grade_decided(pytester: pytest.Pytester, evals: Path) -> None:
    """Every task can be solved, and its graders see that it was."""
    entries = _run(pytester, "--agent-model=oracle", "--agent-strict").entries
    assert Counter(entry.ending for entry in entries) == {"passed": 2 * CARDS}
    assert all(grade.score == 1.0 for entry in entries for grade in entry.grades)


def test_nop_passes_none(pytester: pytest.Pytester, evals: Path) -> None:
    """No task can be passed by doing nothing."""
    entries = _run(pytester, "--agent-model=nop").entries
    assert Counter(entry.ending for entry in entries) == {"missed": 2 * CARDS}


def test_baseline_does_not_look_at_the_answers(pytester: pytest.Pytester, evals: Path) -> None:
    """Without graders' settings, metadata and reference the baseline says and does the very same."""
    with_answers = _said(_run(pytester))
    for file in evals.rglob("task.json"):
        task = json.loads(file.read_text(encoding="utf-8"))
        stripped = {key: task[key] for key in ("id", "input", "trials_per_run")}
        stripped["graders"] = [{"name": "card_completion"}]
        file.write_text(json.dumps(stripped), encoding="utf-8")
    assert _said(_run(pytester)) == with_answers


def _said(run: Run) -> dict[tuple[str, int], list[tuple[str, str, str]]]:
    """Give every message and call of each trial, without times."""
    found = {}
    for entry in run.entries:
        transcript = run.trial(entry).transcript
        lines = [(message.role, message.content, repr(message.calls)) for message in transcript.messages]
        found[entry.key.task, entry.key.repetition] = lines
    return found


def test_workers_lose_no_trial_and_run_none_twice(pytester: pytest.Pytester, evals: Path) -> None:
    """``-n 8 --repetitions 3`` with two models: 150 trials, each once, and the totals of one process."""
    arguments = ("--repetitions=3", "--agent-model=oracle,baseline", "--junitxml=j.xml")
    spread = _run(pytester, "-n8", *arguments)
    lines = [
        json.loads(line)
        for journal in spread.folder.glob("journal-*.jsonl")
        for line in journal.read_text(encoding="utf-8").splitlines()
    ]
    counts = Counter((line["kind"], line["task"], line["model"], line["repetition"]) for line in lines)
    assert len(counts) == 2 * 3 * 2 * CARDS
    assert set(counts.values()) == {1}
    alone = _run(pytester, *arguments)
    assert _totals(spread) == _totals(alone)


def _totals(run: Run) -> dict[str, tuple[int, float]]:
    models = sorted({entry.key.model for entry in run.entries})
    return {
        model: (
            sum(entry.key.model == model for entry in run.entries),
            round(sum(entry.score or 0.0 for entry in run.entries if entry.key.model == model), 6),
        )
        for model in models
    }

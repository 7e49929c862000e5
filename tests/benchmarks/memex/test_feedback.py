"""Nothing of the held-out split is ever in feedback: no text, no figure, no line of an earlier round."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.loop.feedback.content import (
    JSON_FILE,
    MARKDOWN_FILE,
    EarlierRound,
    Feedback,
    FeedbackOptions,
    write_feedback,
)
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from tests.forked_workers import run_python
from tests.loop.feedback.feedback_runs import failing, feedback_on

ROOT = Path(__file__).parents[3]
SUITES = ("evals/pkm", "evals/card")
TRIED = (
    *(f"{suite}/held_out" for suite in SUITES),
    "evals/pkm/skip",
    "evals/pkm/fresh",
    "evals/card/ambiguous",
)
SHORTEST = 16


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of every held-out task of both suites, and of some of split dev in the same buckets."""
    results = tmp_path_factory.mktemp("runs")
    options = ["--agent-split=all", "--repetitions=1", f"--agent-results={results}", "--agent-report=none"]
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "PYTEST_"))
    }
    command = ("-m", "pytest", *TRIED, "-q", "-p", "no:cacheprovider", *options)
    done = run_python(*command, cwd=ROOT, env=own, timeout=120)
    assert done.returncode == 0, done.stdout
    return load_run("latest", results)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (line.strip() for line in value.splitlines())
    elif isinstance(value, dict | list):
        yield from (
            text for part in (value.values() if isinstance(value, dict) else value) for text in _texts(part)
        )


def _texts_of_tasks(*, held_out: bool) -> set[str]:
    """Give every longer text of task files and of the files beside them."""
    texts: set[str] = set()
    for folder in SUITES:
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and ("held_out" in file.parts) == held_out:
                content = file.read_text(encoding="utf-8")
                texts.update(_texts(json.loads(content) if file.name == "task.json" else content))
    return {text for text in texts if len(text) >= SHORTEST}


@pytest.fixture(scope="module")
def secret_texts() -> list[str]:
    """Every text of held-out tasks that no task of split dev, fixture or prompt has."""
    elsewhere = ["\n".join(_texts_of_tasks(held_out=False))]
    shared = (ROOT / "fixtures", ROOT / "src/pytest_agenteval/benchmarks/memex")
    elsewhere += [
        file.read_text(encoding="utf-8")
        for at in shared
        for file in at.rglob("*.*")
        if file.suffix in (".md", ".py", ".jinja", ".yaml")
    ]
    known = "\n".join(elsewhere)
    return [text for text in _texts_of_tasks(held_out=True) if text not in known]


def written(
    run: Run, folder: Path, rounds: tuple[EarlierRound, ...] = (), **options: Any
) -> tuple[Feedback, str]:
    """Give feedback, and all that is in its files."""
    made = make_feedback(run, FeedbackOptions(root=ROOT, **options), rounds)
    write_feedback(made, folder)
    data = json.loads((folder / JSON_FILE).read_text(encoding="utf-8"))
    return made, "\n".join([(folder / MARKDOWN_FILE).read_text(encoding="utf-8"), *_texts(data)])


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Feedback, str]:
    """Feedback of all trials, without a cut."""
    return written(run, tmp_path_factory.mktemp("whole"), budget=200_000, trials=50)


def test_no_text_of_a_held_out_task_is_told(whole: tuple[Feedback, str], secret_texts: list[str]) -> None:
    """Whatever room there is: no id, input, description, expected value, solution or file of one."""
    _, text = whole

    assert len(secret_texts) > 200
    assert len(text) > 30_000
    assert [secret for secret in secret_texts if secret in text] == []
    assert not re.search("(pkm|card)_ho_", text)


def test_figures_count_dev_alone(run: Run, whole: tuple[Feedback, str]) -> None:
    """Score, passes, trials and graders of a bucket that both splits have are those of its dev trials."""
    made, _ = whole

    both = {entry.bucket for entry in run.entries if entry.split == "held_out"}
    shared = [bucket for bucket in made.buckets if bucket.bucket in both]
    assert len(shared) > 2
    for bucket in shared:
        dev = [entry for entry in run.entries if (entry.bucket, entry.split) == (bucket.bucket, "dev")]
        assert (bucket.trials, bucket.tasks) == (len(dev), len({entry.key.task for entry in dev}))
        assert bucket.score == pytest.approx(sum(entry.score or 0 for entry in dev) / len(dev), abs=1e-4)
        assert all(grader.trials <= len(dev) for grader in bucket.graders)


def test_earlier_rounds_are_told_without_lines_that_quote_one(
    run: Run, secret_texts: list[str], tmp_path: Path
) -> None:
    """Nor a part of a held-out input: eight words, in capitals or on two lines; nor an id, however spelt."""
    quoted = [text for text in secret_texts if len(text) > 60][:20]
    rounds = [
        EarlierRound(at, f"about {text}", text, f"+ a line that stays\n+ {text}", f"it fell in {text}")
        for at, text in enumerate(quoted, start=1)
    ]
    held_out = ROOT / "evals/pkm/held_out/route_into_existing_book_file/task.json"
    question = json.loads(held_out.read_text(encoding="utf-8"))["input"]["content"]
    part = " ".join(question.split()[4:16])
    diff = f"+ a line that stays\n+ {part.upper()}\n+ {part[:30]}\n+ {part[30:]}"
    rounds.append(EarlierRound(21, "PKM-ho-book hour before", "kept", diff))
    made, text = written(run, tmp_path, tuple(rounds), budget=200_000)

    assert [each.number for each in made.earlier_rounds] == [*range(1, 22)]
    assert [secret for secret in secret_texts if secret in text] == []
    last = made.earlier_rounds[-1]
    assert last.diff.startswith("+ a line that stays\n(a line that quotes")
    assert part.upper() not in last.diff
    assert part[:30] not in last.diff
    assert (last.summary, last.decision) == ("(a line that quotes a held-out task)", "kept")


def test_journals_without_splits_are_read_beside_the_task_files(
    run: Run, secret_texts: list[str], tmp_path: Path
) -> None:
    """Journals of before say no split: today's files do."""
    old = shutil.copytree(run.folder, tmp_path / "old")
    for journal in old.glob("journal-*.jsonl"):
        lines = journal.read_text(encoding="utf-8")
        journal.write_text(re.sub(r',"(split|crc)":"\w+"', "", lines), encoding="utf-8")
    stored = load_run(old)
    assert {entry.split for entry in stored.entries} == {None}

    made, text = written(stored, tmp_path / "out", budget=200_000)
    assert made.buckets
    assert [secret for secret in secret_texts if secret in text] == []
    with pytest.raises(UsageMistake, match="no trial of split dev"):  # no file there tells
        make_feedback(stored, FeedbackOptions(root=tmp_path))


def test_tasks_without_a_file_are_counted(run: Run, whole: tuple[Feedback, str], tmp_path: Path) -> None:
    """From another folder nothing is known of what tasks say: the reader is told why that is missing."""
    elsewhere = make_feedback(run, FeedbackOptions(root=tmp_path))
    (line,) = [line for line in elsewhere.left_out if "without a file" in line]

    tasks = {entry.key.task for entry in run.entries if entry.split == "dev"}
    assert line.startswith(
        f"{len(tasks)} tasks without a file below this folder (run this in pytest's rootdir for more"
    )
    assert not any("without a file" in line for line in whole[0].left_out)


def test_what_nobody_can_tell_is_left_out_and_counted(tmp_path: Path) -> None:
    """A trial of an unknown split is in no figure, and the file says how many there are."""
    made, text = feedback_on(tmp_path, failing("a"), failing("b", split=None, asked="SECRET"))

    assert (made.buckets[0].trials, "SECRET" in text) == (1, False)
    assert "1 trial left out: neither the journal nor a task file names their split" in text


def test_either_side_may_call_a_task_held_out(run: Run, tmp_path: Path) -> None:
    """A task that was of split dev when it was tried, and is held out today, is held out."""
    stored = shutil.copytree(run.folder, tmp_path / "run")
    for journal in stored.glob("journal-*.jsonl"):
        lines = journal.read_text(encoding="utf-8").replace('"split":"held_out"', '"split":"dev"')
        journal.write_text(re.sub(r',"crc":"\w+"', "", lines), encoding="utf-8")

    made, text = written(load_run(stored), tmp_path / "out", budget=200_000)
    assert "_ho_" not in text
    assert (
        f"{sum(entry.split == 'held_out' for entry in run.entries)} trials of split held_out"
        in made.left_out[0]
    )

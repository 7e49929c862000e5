"""Runs for the browser, stored and written as any run is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.html_report import write_html
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.store.run_reader import Run
from tests.reports.odd_runs import HOSTILE as HOSTILE
from tests.reports.odd_runs import hostile
from tests.reports.runs import store_run, trial

TASKS = 30
"""Tasks of the compared runs, in six buckets, with three repetitions each."""


def write(folder: Path, *runs: Run) -> Path:
    """Write the report of runs."""
    write_html(folder / "report.html", report_source(runs))
    return folder / "report.html"


def compared_report(folder: Path) -> Path:
    """Write two runs: bucket b0 fell, b1 rose, one trial broke, judges disagree about another."""
    old = store_run(
        folder / "runs", [_compared(task, n, old=True) for task in range(TASKS) for n in (1, 2, 3)]
    )
    new = store_run(
        folder / "runs", [_compared(task, n, old=False) for task in range(TASKS) for n in (1, 2, 3)]
    )
    return write(folder, old, new)


def _compared(task: int, repetition: int, *, old: bool) -> Trial:
    bucket = task % 6
    fell, rose = bucket == 0 and not old, bucket == 1 and old
    score: float | None = 0.4 if fell or rose else 0.75 if bucket == 2 else 1.0
    if task == 4 and repetition == 2 and not old:
        return trial("task_04", 2, None, "b4", message="429 after 3 attempts", traceback="Traceback\n  429")
    grades: tuple[Grade, ...] = (
        _checks(score or 0.0),
        Grade("style", None, "no judge", undecided="no_judge"),
    )
    if task == 2 and repetition == 1:
        grades = (_judged(), *grades)
    return trial(
        f"task_{task:02}",
        repetition,
        score,
        f"b{bucket}",
        grades=grades,
        transcript=_transcript(f"answer of {task}"),
        outcome=_outcome(score or 0.0),
        file=f"evals/s/task_{task:02}/task.json",
        seconds=1.5,
    )


def _checks(score: float) -> Grade:
    checks = (
        Check("the note is kept", score > 0.5, "one line", "no line"),
        Check("nothing is lost", True, "0", "0"),
    )
    return Grade("kept", score, "; ".join(map(str, checks)), checks)


def _judged() -> Grade:
    votes = [
        {"judge": "strict", "scores": {"tone": 0.25}, "rationale": "It is curt.", "problem": ""},
        {"judge": "mild", "scores": {"tone": 0.75}, "rationale": "It is short.", "problem": ""},
    ]
    return Grade("tone", 0.5, "judges differ", details={"judgement": {"votes": votes}}, threshold=0.7)


def _transcript(answer: str) -> Transcript:
    read = ToolCall(
        "c1", 1, 0, "Read", {"path": "/notes.md", "lines": 40}, result="a\nb", ended=0.2, tape="hit"
    )
    write = ToolCall(
        "c2", 1, 1, "Write", {"path": "/notes.md"}, error=ToolError("denied", "read only"), ended=0.3
    )
    usage = Usage(1200, 80, cost_usd=0.001, asks=1, attempts=1)
    return Transcript(
        messages=(
            Message("system", "You keep notes. " * 200),
            Message("user", "Keep this: the ferry leaves at nine."),
            Message("assistant", "I look first.", calls=(read, write), turn=1),
            Message("assistant", answer, turn=2),
        ),
        calls=(read, write),
        asks=(Ask(1, 0.0, 0.4, usage, reasoning="The notes may have it."), Ask(2, 0.5, 0.8, usage)),
        events=(Event(0.1, "retry", "429, asked again", {"after": 0.5}),),
        usage=usage + usage,
    )


def _outcome(score: float) -> Outcome:
    before = {"notes.md": _file("# Notes\nold line\nshared\n"), "gone.md": _file("x\n")}
    after = {"notes.md": _file(f"# Notes\nnew line\nshared\nadded {score}\n"), "came.md": _file("y\n")}
    return Outcome(Answer("Kept.", {"complete": True, "missing": []}), Tree(before), Tree(after))


def _file(text: str) -> FileText:
    return FileText(str(hash(text)), len(text), text)


def hostile_report(folder: Path) -> Path:
    """Write a run in which every text that is not ours tries to become markup, a link or another order."""
    return write(folder, hostile(folder / "runs"))


def large_report(folder: Path, trials: int = 2000, size: int = 25_000) -> Path:
    """Write a run of 500 tasks x 4 in 24 buckets, each trial with as much text as ours have."""
    return write(folder, store_run(folder / "runs", _large(trials, size)))


def _large(trials: int, size: int) -> Iterator[Trial]:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randint(2, 9))) for _ in range(4000)]
    for place in range(trials):
        score = chance.choice((0.0, 0.25, 0.5, 0.75, 1.0))
        texts = [" ".join(chance.choices(words, k=150)) for _ in range(size // 1000)]
        messages: list[Any] = [Message("system", texts[0]), Message("user", texts[1])]
        messages += [Message("assistant", text, turn=turn) for turn, text in enumerate(texts[2:], 1)]
        yield trial(
            f"task_{place // 4:03}",
            place % 4 + 1,
            score,
            f"bucket_{place // 4 % 24:02}",
            grades=(_checks(score),),
            transcript=Transcript(tuple(messages)),
        )

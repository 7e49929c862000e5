"""Runs by chance, with everything that a run may have: whatever is in one, all of its reports agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.records.plan import Kind, Model, Plan, PlannedTask, TrialKey, Variant
from pytest_agenteval.records.transcript import (
    JUDGE_ASK,
    NO_USAGE,
    UNSEEN_USAGE,
    Ask,
    Event,
    Message,
    ToolCall,
    Transcript,
    Usage,
)
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    RunHeader,
    RunModel,
    RunSuite,
    end_run,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run
from tests.reports.runs import trial

BEGAN = datetime(2026, 11, 21, 9, 30, 15, tzinfo=UTC)
SCORES = (0.0, 0.003, 0.125, 1 / 3, 0.5, 0.625, 0.675, 0.996, 1.0, 1.0, 1.0)
"""Some lie between two figures of two digits, or next to an end that none is rounded to."""

BUCKETS = ("", "all", "a|b", "opt_out", "한글", "L1", "x")
KINDS: tuple[Kind, ...] = ("capability", "regression", "mixed")
MODELS = (
    RunModel("rules", "rules", offline=True),
    RunModel("claude", "anthropic/claude"),
    RunModel("gpt", "openai/gpt"),
)


class Task(NamedTuple):
    """A task of a suite, how often it is tried, and the digest of how it is graded."""

    suite: str
    task: str
    agent: str
    bucket: str
    kind: Kind
    repetitions: int
    ruler: str = "1"


class Design(NamedTuple):
    """What is tried: runs of one design have the same tasks, and each its own results."""

    suites: tuple[RunSuite, ...]
    tasks: tuple[Task, ...]
    models: tuple[RunModel, ...]
    variants: tuple[str, ...]


def any_design(chance: Random) -> Design:
    """Give one to three suites, one to three models, perhaps with variants."""
    suites = tuple(
        RunSuite(name, chance.choice(KINDS), "card", chance.choice((1.0, 1.0, 0.6)))
        for name in chance.sample(("s", "pkm", "개인_지식", "a suite"), chance.randint(1, 3))
    )
    tasks = [task for suite in suites for task in _tasks(suite, chance)]
    models = tuple(chance.sample(MODELS, chance.choice((1, 1, 2, 3))))
    return Design(suites, tuple(tasks), models, chance.choice(((), ("",), ("", "short"))))


def _tasks(suite: RunSuite, chance: Random) -> Iterator[Task]:
    buckets = chance.sample(BUCKETS, chance.randint(1, 4))
    for number in range(chance.choice((1, 3, 5, 7))):
        kind: Kind = "regression" if chance.random() < 0.1 else suite.kind
        repetitions = chance.choice((1, 2, 2, 2, 3))
        yield Task(suite.name, f"t{number}", "card", chance.choice(buckets), kind, repetitions)


def any_run(root: Path, seed: int, design: Design | None = None) -> Run:
    """Write a run by chance, the same for the same seed."""
    chance = Random(seed)
    design = design or any_design(chance)
    began = BEGAN + timedelta(minutes=seed)
    header = RunHeader(
        began.isoformat(),
        models=design.models,
        suites=design.suites,
        variants=design.variants,
        regraded=("20260101-000000",) if chance.random() < 0.1 else (),
    )
    folder = new_run(root, header)
    planned = [
        (TrialKey(*task[:3], model.name, variant, repetition), task)
        for task in design.tasks
        for model in design.models
        for variant in design.variants or ("",)
        for repetition in range(1, task.repetitions + 1)
    ]
    if chance.random() < 0.8:
        write_planned(folder, planned_groups((key, task.bucket) for key, task in planned))
    writer = JournalWriter(folder, "main")
    # Some never start.
    ended = chance.sample(planned, round(len(planned) * chance.choice((1, 1, 0.8))))
    for key, task in ended:
        _write(writer, key, task, began, chance)
    writer.close()
    if chance.random() < 0.7:
        end_run(folder, (began + timedelta(seconds=95.5)).isoformat(), 0)
    return load_run(folder)


def _write(writer: JournalWriter, key: TrialKey, task: Task, began: datetime, chance: Random) -> None:
    """Write the attempts at a trial: most have one, some an earlier one, or one that was killed."""
    attempts = chance.choice((1, 1, 1, 1, 1, 2, 3))
    for attempt in range(1, attempts + 1):
        fate = chance.random() if attempts > 1 else 1.0
        writer.started([plan_of(key, task, attempt)])
        if fate < 0.3:
            continue
        writer.finished([_trial(key, task, attempt, began, chance)])


def plan_of(key: TrialKey, task: Task, attempt: int) -> Plan:
    """Give the plan of an attempt."""
    planned = PlannedTask(task.suite, task.task, task.agent, task.kind, task.bucket, ())
    model = Model(key.model, key.model, key.model == "rules")
    return Plan(planned, model, Variant(key.variant), key.repetition, attempt)


def _trial(key: TrialKey, task: Task, attempt: int, began: datetime, chance: Random) -> Trial:
    is_errored = chance.random() < 0.08
    score = None if is_errored else chance.choice(SCORES)
    started = began + timedelta(seconds=chance.randrange(90), milliseconds=chance.randrange(1000))
    missed = "missed" if task.kind == "capability" else "failed"
    fields: dict[str, Any] = {
        "key": key,
        "attempt": attempt,
        "ending": "errored" if score is None else "passed" if score == 1.0 else missed,
        "kind": task.kind,
        "grades": tuple(_grades(score, chance)),
        "transcript": _transcript(chance),
        "started_at": started.isoformat(timespec="milliseconds") if chance.random() < 0.97 else "",
        "seconds": round(chance.random() * chance.choice((0.1, 8, 700)), 3),
        "wall_seconds": round(chance.random() * 9, 3) if chance.random() < 0.95 else None,
        "limit": "steps" if chance.random() < 0.05 else "",
        "cause": chance.choice(("provider", "fixture")) if is_errored else "",
        "tool_tape": TapeCounts(chance.randrange(3), chance.randrange(2), 0),
        "digests": Digests(f"i {task.task}", ruler=task.ruler, prompt=key.variant),
        "tags": ("slow",) if chance.random() < 0.2 else (),
    }
    return trial(task.task, key.repetition, score, task.bucket, **fields)


def _grades(score: float | None, chance: Random) -> Iterator[Grade]:
    if score is None:
        return
    checks = (Check("it is there", score == 1.0, "it", "nothing"),) if chance.random() < 0.5 else ()
    yield Grade("main", score, f"found {score:.3f}", checks)
    if chance.random() < 0.1:
        weight = chance.choice((0.0, 1.0))
        yield Grade("tone", None, "no judge", weight=weight, undecided=chance.choice(("no_judge", "limit")))
    if chance.random() < 0.05:
        yield Grade("size", None, "not asked", undecided="not_applicable")


def _transcript(chance: Random) -> Transcript:
    """Give a transcript of up to three replies; some have no price, some no tokens, some no times."""
    asks: list[Ask] = []
    for turn in range(1, chance.randint(0, 3) + 1):
        took = chance.random() * chance.choice((0.0005, 0.05, 3))
        asks.append(Ask(turn, turn * 4.0, turn * 4.0 + round(took, 3), _usage(chance)))
    usage = sum((ask.usage for ask in asks), NO_USAGE)
    if chance.random() < 0.02:
        usage = UNSEEN_USAGE
    call = ToolCall("c", 1, 0, chance.choice(("Read", "Write")), {}, result="x", started=0.5, ended=0.75)
    messages = (Message("user", "Go on."), Message("assistant", "", calls=(call,), turn=1))
    judged = Event(9.0, JUDGE_ASK, "judge", {"usage": Usage(30, 3, cost_usd=0.002, asks=1).to_json()})
    events = (judged,) if chance.random() < 0.1 else ()
    return Transcript(messages, (call,), tuple(asks), events, usage)


def _usage(chance: Random) -> Usage:
    read, written = chance.randrange(20_000), chance.randrange(900)
    cost = chance.choice((0.0, 0.0125, 0.4, 1.5)) if chance.random() < 0.9 else None
    if chance.random() < 0.05:
        return Usage(None, None, None, None, None, asks=1, attempts=1)
    return Usage(read, written, cost_usd=cost, asks=1, attempts=1)


def like(design: Design, chance: Random) -> Design:
    """Give a design with fewer tasks, some graded otherwise or in another bucket, perhaps another agent."""
    agent = "pkm" if chance.random() < 0.1 else "card"
    tasks = [task._replace(agent=agent) for task in design.tasks if chance.random() < 0.9]
    moved = [task._replace(bucket="moved") if chance.random() < 0.05 else task for task in tasks]
    moved = [task._replace(ruler="2") if chance.random() < 0.1 else task for task in moved]
    return design._replace(tasks=tuple(moved or design.tasks))


def any_runs(root: Path, seed: int, number: int) -> list[Run]:
    """Write several runs, of one design or of designs that are alike, some with other models."""
    chance = Random(seed)
    design = any_design(chance)
    runs = []
    for at in range(number):
        own = like(design, chance) if chance.random() < 0.5 else design
        if chance.random() < 0.2:
            own = own._replace(models=tuple(replace(model, name=f"{model.name}-2") for model in own.models))
        runs.append(any_run(root, 1000 * (at + 1) + seed, own))
    return runs

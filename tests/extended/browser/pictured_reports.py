"""Runs whose pictures can be worked out by hand: three models, of which one has no price, and long trials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_folder import RunModel
from tests.extended.browser.sample_reports import write
from tests.reports.odd_runs import hostile_models
from tests.reports.runs import key, store_run, trial

LEVELS = {"fast": 0.25, "mid": 0.5, "slow": 0.75}
"""The mean score of each model; tasks lie a quarter below and above it."""

PRICES = {"fast": 0.01, "mid": 0.04, "slow": None}
TASKS = 12


def models_report(folder: Path) -> Path:
    """Write a run of three models: the better the dearer, and of the best the cost is unknown."""
    models = tuple(RunModel(name, f"x/{name}") for name in LEVELS)
    trials = [_of_model(name, task) for name in LEVELS for task in range(TASKS)]
    return write(folder, store_run(folder / "runs", trials, models=models))


def _of_model(model: str, task: int) -> Trial:
    score = LEVELS[model] + (-0.25, 0.0, 0.25)[task % 3]
    usage = Usage(1000, 500, cost_usd=PRICES[model], asks=1, attempts=1)
    transcript = Transcript(asks=(Ask(1, 0.0, 1.0, usage),), usage=usage)
    named = key(f"task_{task:02}", model=model)
    return trial(f"task_{task:02}", 1, score, f"b{task % 2}", key=named, transcript=transcript, seconds=2.0)


def single_report(folder: Path) -> Path:
    """Write a run of one model."""
    return write(folder, store_run(folder / "runs", [_of_model("fast", task) for task in range(TASKS)]))


def hostile_report(folder: Path) -> Path:
    """Write a run of three models and a tool whose names try to become markup or another order."""
    return write(folder, hostile_models(folder / "runs"))


def courses_report(folder: Path) -> Path:
    """Write three trials: with calls side by side, with 200 calls, and without any times."""
    trials = [
        trial("parallel", 1, 0.5, transcript=_parallel(), seconds=10.0),
        trial("long", 1, 0.5, transcript=_transcript(200), seconds=600.0),
        trial("untimed", 1, 0.5, transcript=Transcript((Message("user", "Hello"),))),
    ]
    return write(folder, store_run(folder / "runs", trials))


def _parallel() -> Transcript:
    """A reply, three calls of which two overlap and one fails, a wait, a failed request, and a reply."""
    calls = (
        _call(0, 2.0, 4.0),
        _call(1, 2.0, 3.0, ToolError("denied", "read only")),
        _call(2, 4.0, 5.0),
    )
    retry = Event(7.5, "chat_retry", "attempt 1 of 3: 503", {"seconds": 0.5, "wait_s": 0.5})
    judged = Event(
        10.5, "judge_ask", "judge was asked", {"usage": Usage(10, 1, asks=1, attempts=1).to_json()}
    )
    return Transcript(
        messages=(
            Message("user", "Keep this."),
            Message("assistant", "I look.", calls=calls, turn=1),
            Message("assistant", "Done.", turn=2),
        ),
        calls=calls,
        asks=(Ask(1, 0.0, 2.0, Usage()), Ask(2, 8.0, 10.0, Usage())),
        events=(retry, judged),
    )


def _call(index: int, started: float, ended: float, error: ToolError | None = None) -> ToolCall:
    return ToolCall(
        f"c{index}", 1, index, "Read", {"path": "/a"}, result="a", error=error, started=started, ended=ended
    )


def _transcript(calls: int) -> Transcript:
    made = list(_one_by_one(calls))
    messages = [Message("user", "Go on.")]
    messages += [Message("assistant", "next", calls=(call,), turn=call.turn) for _, call in made]
    return Transcript(tuple(messages), tuple(call for _, call in made), tuple(ask for ask, _ in made))


def _one_by_one(calls: int) -> Iterator[tuple[Ask, ToolCall]]:
    for turn in range(1, calls + 1):
        at = 3.0 * (turn - 1)
        call = ToolCall(
            f"c{turn}", turn, 0, f"tool_{turn % 7}", {}, result=turn, started=at + 1, ended=at + 2.5
        )
        yield Ask(turn, at, at + 1, Usage()), call

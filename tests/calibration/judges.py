"""Judges whose every score is known beforehand, as a conftest would register them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_agenteval.calibration.analysis import analyze_calibration
from pytest_agenteval.calibration.calibration_file import read_calibration
from pytest_agenteval.calibration.labels import CalibrationAnswers, ExampleJudgement
from pytest_agenteval.calibration.results import calibration_json
from pytest_agenteval.graders.judge.panel import ask_judges
from pytest_agenteval.records.plan import Model
from pytest_agenteval.registry.registry import Registry
from tests.suites import write

RUBRIC = """---
name: tidy
version: 3
scale: {low: 0, high: 4}
dimensions:
  order: "is it in order? 4: all of it; 0: nothing; unknown: it cannot be seen"
  tone: "is it kind? 4: very; 0: not at all; unknown: it cannot be seen"
combine: mean
shows:
  letter: what was asked
  reply: what was answered
output: reply
---
The letter:

{{ letter }}

The reply to judge:

{{ reply }}
"""

CONFTEST = """
import json
from random import Random

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.text.errors import ProviderDown
from pytest_agenteval.records.transcript import Usage

# An output says itself what it is worth: "order 0.25 tone 1".
def worth(plan):
    words = plan.task.input["reply"].split()
    return {"order": float(words[1]), "tone": float(words[3])}


class Judge:
    def __init__(self, plan, score):
        self.plan, self.score = plan, score

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        if self.score is mumbling or (self.score is hoarse and self.plan.task.input["letter"][-1] != "0"):
            return Reply("I would rather not say", usage=Usage(100, 20, cost_usd=0.001, asks=1, attempts=1))
        said = {name: self.score(value, self.plan) for name, value in worth(self.plan).items()}
        scores = {name: "unknown" if one is None else 4 * one for name, one in said.items()}
        text = json.dumps({**scores, "rationale": "<b>as it is</b>"})
        return Reply(text, usage=Usage(100, 20, cost_usd=0.001, asks=1, attempts=1))


def noisy(value, plan):
    return min(1.0, max(0.0, value + Random(plan.seed).uniform(-0.3, 0.3)))


def mumbling(value, plan):
    return value


def hoarse(value, plan):
    return value


def broken(value, plan):
    raise ProviderDown("broken: no reply after 4 attempts; try again later")


SCORES = {
    "perfect": lambda value, plan: value,
    "inverted": lambda value, plan: 1 - value,
    "constant": lambda value, plan: 0.5,
    "noisy": noisy,
    "shy": lambda value, plan: None if value == 1 else value,
    "broken": broken,
    "mumbling": mumbling,
    "hoarse": hoarse,
    "blind": lambda value, plan: None,
    "crashing": lambda value, plan: value / 0,
}


def pytest_agenteval_register(registry):
    for name, score in SCORES.items():
        registry.model(name, lambda model, plan, score=score: Judge(plan, score))
"""


CALIBRATION = """kind: calibration
id: tidy
labels: tidy.jsonl
rubric: tidy.jinja
tags: [letters]
"""
FILE = "evals/calibration/tidy.calibration.yaml"


def rows(count: int = 15, source: str = "constructed") -> list[dict[str, Any]]:
    """Give examples whose label is what their output says it is worth; the two dimensions are no copies."""
    found = []
    for number in range(count):
        order, tone = (number % 5) / 4, (number * 2 % 3) / 2
        found.append(
            {
                "id": f"letter_{number}",
                "input": {"letter": f"Dear friend {number}"},
                "output": f"order {order} tone {tone}",
                "scores": {"order": order, "tone": tone},
                "label_source": source,
            }
        )
    return found


def jsonl(examples: Iterable[Any]) -> str:
    """Write examples as JSON lines."""
    return "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples)


def project(root: Path, more: str = "", examples: Iterable[Any] | None = None) -> None:
    """Write a calibration, its rubric, its labels and the judges; ``more`` is added to its file."""
    write(
        root,
        {
            "conftest.py": CONFTEST,
            FILE: CALIBRATION + more,
            "evals/calibration/tidy.jinja": RUBRIC,
            "evals/calibration/tidy.jsonl": jsonl(rows() if examples is None else examples),
        },
    )


def calibrated(
    root: Path, *judges: str, more: str = "", examples: Iterable[Any] | None = None
) -> dict[str, Any]:
    """Give what a project's calibration finds of these judges, without a run of pytest."""
    project(root, more, examples)
    plan = read_calibration(root / FILE, root, Registry())
    conftest: dict[str, Any] = {}
    exec(CONFTEST, conftest)
    models = [Model(name, name, offline=True) for name in judges]

    async def answers() -> CalibrationAnswers:
        asks = []
        for example in plan.examples:
            for repetition in range(1, plan.repeats + 1):
                task = SimpleNamespace(input=example.values)
                case = SimpleNamespace(task=task, seed=f"{example.id} {repetition}")
                made: Any = [
                    SimpleNamespace(model=model, chat=conftest["Judge"](case, conftest["SCORES"][model.name]))
                    for model in models
                ]
                judgement = await ask_judges(plan.rubric, example.values, made)
                asks.append(ExampleJudgement(example, repetition, judgement))
        return CalibrationAnswers(tuple(models), tuple(asks))

    return calibration_json(analyze_calibration(plan, asyncio.run(answers())))


def found_in(root: Path, name: str = "tidy") -> dict[str, Any]:
    """Give what the only run below a project wrote down about a calibration."""
    (path,) = (root / ".agenteval" / "runs").glob(f"2*/calibration-{name}.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def figures(found: dict[str, Any], judge: str, dimension: str) -> dict[str, Any]:
    """Give the figures of one judge, or of all together where the name is empty."""
    (each,) = [one for one in found["measured"] if (one["judge"], one["dimension"]) == (judge, dimension)]
    told: dict[str, Any] = each["figures"]
    return told

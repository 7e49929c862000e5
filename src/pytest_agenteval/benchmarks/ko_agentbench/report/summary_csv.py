"""Evaluations as the benchmark's CSV files: a row for each level, or a row for each model."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.levels import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.report.evaluation import Evaluation
from pytest_agenteval.benchmarks.ko_agentbench.report.task_report import LABELS, RESPONSE_RATE, reported

FACTS = ("Total_Tasks", "Evaluated_Tasks", "Avg_Exec_Time", "Avg_Tokens", "Avg_TPS", "Avg_TTFT")
MISSPELT = {"L1_ToolAcc": "L1_TooAcc"}
"""Columns that the benchmark spells differently, kept so that its readers find them."""


def summary_csv(evaluation: Evaluation) -> str:
    """Give a row for each level; a metric that the level does not have is written 0.0000."""
    levels: Mapping[str, Any] = evaluation["by_level"]
    metrics = sorted({name for level in levels.values() for name in level["metrics"]})
    rows = [
        [name, *_facts(level), *(f"{level['metrics'].get(metric, 0.0):.4f}" for metric in metrics)]
        for name, level in levels.items()
    ]
    return _csv([["Level", *FACTS, *metrics], *rows], "\r\n")


def combined_csv(evaluations: Iterable[tuple[str, Evaluation]]) -> str:
    """Give a row for each model, named as its folder is; a level that was not evaluated leaves blanks."""
    return _csv([_titles(), *(_row(name, evaluation) for name, evaluation in evaluations)], "\n")


def _titles() -> list[str]:
    facts = [f"{level}_{fact}" for fact in FACTS for level in LEVELS]
    common = [f"{level}_{metric}" for metric in _common() for level in LEVELS]
    own = [f"{level}_{metric}" for level in LEVELS for metric in _own(level)]
    return ["Model", "Vendor", "Model Type", *facts, *common, *(MISSPELT.get(name, name) for name in own)]


def _row(name: str, evaluation: Evaluation) -> list[str]:
    levels: Mapping[str, Any] = evaluation["by_level"]
    facts = {name: _facts(level) for name, level in levels.items()}
    cells = [
        _short(facts[level][at]) if level in facts else "" for at in range(len(FACTS)) for level in LEVELS
    ]
    cells += [_metric(levels, level, metric) for metric in _common() for level in LEVELS]
    cells += [_metric(levels, level, metric) for level in LEVELS for metric in _own(level)]
    return [name, *vendor_of(evaluation["summary"]["model"]), *cells]


def _common() -> tuple[str, ...]:
    return RESPONSE_RATE, *LABELS


def _own(level: str) -> Sequence[str]:
    return reported(level)[len(LABELS) :]


def _facts(level: Mapping[str, Any]) -> list[str]:
    took = level["metadata"]
    return [
        str(level["total_tasks"]),
        str(level["evaluated_tasks"]),
        f"{took['average_execution_time']:.2f}",
        f"{took['average_tokens_per_task']:.2f}",
        f"{took['average_tps']:.2f}",
        f"{took['ttft']['average']:.4f}",
    ]


def _metric(levels: Mapping[str, Any], level: str, metric: str) -> str:
    return _short(f"{levels[level]['metrics'].get(metric, 0.0):.4f}") if level in levels else ""


def _short(cell: str) -> str:
    """Write a number without the noughts at its end: ``0.5000`` becomes 0.5, and 11 stays 11."""
    return repr(float(cell)) if "." in cell else cell


def _csv(rows: Iterable[Sequence[str]], end: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue()


API, OPEN, UNKNOWN = "API", "OSS", "Unknown"

VENDORS: tuple[tuple[str, str, str], ...] = (
    ("gpt-oss", "OpenAI", OPEN),
    ("gpt", "OpenAI", API),
    ("claude", "Anthropic", API),
    ("gemini", "Google", API),
    ("gemma", "Google", OPEN),
    ("nova-", "Amazon", API),
    ("grok", "xAI", API),
    ("qwen", "Alibaba", OPEN),
    ("deepseek", "DeepSeek", OPEN),
    ("glm", "Z.ai", OPEN),
    ("llama", "Meta", OPEN),
    ("devstral", "Mistral", OPEN),
    ("mistral", "Mistral", OPEN),
    ("kimi", "Moonshot AI", OPEN),
    ("kanana", "Kakao", OPEN),
    ("a.x-", "SKT", OPEN),
    ("midm", "KT", OPEN),
    ("exaone", "LG AI Research", OPEN),
    ("hyperclova", "Naver", OPEN),
    ("solar", "Upstage", OPEN),
)
"""A part of a model's id, its vendor, and how the model can be had; the first that is found decides."""


def vendor_of(model: str) -> tuple[str, str]:
    """Give a model's vendor, and ``API`` or ``OSS``; ``Unknown`` twice for an id that tells nothing.

    Only what comes after the last provider prefix is looked at: ``azure/gpt-4o`` is not Microsoft's.
    """
    name = model.rpartition("/")[2].lower()
    return next(((vendor, kind) for part, vendor, kind in VENDORS if part in name), (UNKNOWN, UNKNOWN))

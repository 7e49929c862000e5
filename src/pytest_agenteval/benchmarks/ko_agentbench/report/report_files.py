"""Reports in the benchmark's shape as files: a folder for each model, one table for all."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval import Run, UsageMistake
from pytest_agenteval.benchmarks.ko_agentbench.levels import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.report.evaluation import Evaluation, evaluation_of
from pytest_agenteval.benchmarks.ko_agentbench.report.markdown import report_markdown
from pytest_agenteval.benchmarks.ko_agentbench.report.task_report import LABELS, RESPONSE_RATE, reported
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.record_files import replace_text

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
    # Its two tables end their lines differently: a file of ours is to be the same to the byte.
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
    metadata = level["metadata"]
    return [
        str(level["total_tasks"]),
        str(level["evaluated_tasks"]),
        f"{metadata['average_execution_time']:.2f}",
        _figure(metadata["average_tokens_per_task"], 2),
        _figure(metadata["average_tps"], 2),
        _figure(metadata["ttft"]["average"], 4),
    ]


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


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


COMBINED = "combined_evaluation_summary.csv"

_SERVED_AS = re.compile(r":\d+$")
_NO_NAME = re.compile(r'[/\\:*?"<>|\s]+')


class EvaluatedModel(NamedTuple):
    """The evaluation of one model in one run, and the alias that the run calls the model by."""

    alias: str
    evaluation: Evaluation


def write_reports(runs: Iterable[Run], to: Path) -> list[Path]:
    """Write three files for each model of each run and, for several, the table of all; give the paths.

    Raises UsageMistake, before anything is written, for a run whose grades are not the benchmark's and for
    two evaluations that would be one folder.
    """
    folders = _folders([evaluated for run in runs for evaluated in _evaluations(run)])
    try:
        return _write_all(folders, to)
    except OSError as refused:
        raise UsageMistake(f"{refused.filename}: cannot be written ({refused.strerror})") from None


def _write_all(folders: Sequence[tuple[str, EvaluatedModel]], to: Path) -> list[Path]:
    paths = [path for folder, model in folders for path in _write(to / folder, model.evaluation)]
    if len(folders) > 1:
        rows = [(folder.rpartition("_")[0], model.evaluation) for folder, model in folders]
        paths.append(_put(to / COMBINED, combined_csv(rows)))
    return paths


def folder_name(model: str, day: str) -> str:
    """Give the folder of a model's evaluation: ``azure_gpt-4o_20251219``.

    What says how a model is served, as the ``:0`` in ``nova-lite-v1:0``, is left out, as in the benchmark.
    """
    return f"{_NO_NAME.sub('_', _SERVED_AS.sub('', model)).strip('_')}_{day}"


def _evaluations(run: Run) -> Iterator[EvaluatedModel]:
    has_grades = False
    for suite in view_of(run).suites:
        evaluation = evaluation_of(run, suite)
        if evaluation is not None:
            has_grades = True
            yield EvaluatedModel(suite.who, evaluation)
    if not has_grades:
        raise UsageMistake(
            f"{run.folder}: expected grades of Ko-AgentBench (graders ko_L1 … ko_L7 on tasks in folders "
            "L1 … L7); there are none, so no report can be made in its shape"
        )


def _folders(models: Iterable[EvaluatedModel]) -> list[tuple[str, EvaluatedModel]]:
    """Name folders by the models' ids; by the aliases where two aliases stand for one id."""
    by_id = [(_folder(model, model.evaluation["summary"]["model"]), model) for model in models]
    times = Counter(folder for folder, _ in by_id)
    named_models = [
        (folder if times[folder] == 1 else _folder(model, model.alias), model) for folder, model in by_id
    ]
    twice = [folder for folder, count in Counter(folder for folder, _ in named_models).items() if count > 1]
    if twice:
        raise UsageMistake(
            f"two evaluations would be written into {twice[0]}: report runs of one model and day one by one"
        )
    return named_models


def _folder(evaluated: EvaluatedModel, model: str) -> str:
    return folder_name(model, evaluated.evaluation["summary"]["execution_date"])


def _write(folder: Path, evaluation: Evaluation) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _put(folder / "evaluation_report.json", json.dumps(evaluation, ensure_ascii=False, indent=2)),
        _put(folder / "evaluation_summary.csv", summary_csv(evaluation)),
        _put(folder / "evaluation_report.md", report_markdown(evaluation)),
    ]


def _put(path: Path, text: str) -> Path:
    replace_text(path, text)
    return path

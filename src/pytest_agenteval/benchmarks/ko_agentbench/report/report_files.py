"""Reports in the benchmark's shape as files: a folder for each model, one table for all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval import Run, UsageMistake
from pytest_agenteval.benchmarks.ko_agentbench.report.evaluation import Evaluation, evaluation_of
from pytest_agenteval.benchmarks.ko_agentbench.report.markdown import report_markdown
from pytest_agenteval.benchmarks.ko_agentbench.report.summary_csv import combined_csv, summary_csv
from pytest_agenteval.reports.view import view_of
from pytest_agenteval.store.file_writing import replace_text

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
    named = [
        (folder if times[folder] == 1 else _folder(model, model.alias), model) for folder, model in by_id
    ]
    twice = [folder for folder, count in Counter(folder for folder, _ in named).items() if count > 1]
    if twice:
        raise UsageMistake(
            f"two evaluations would be written into {twice[0]}: report runs of one model and day one by one"
        )
    return named


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

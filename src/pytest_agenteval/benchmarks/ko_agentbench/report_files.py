"""Reports as the benchmark writes them: JSON and Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval import Run, UsageMistake
from pytest_agenteval.benchmarks.ko_agentbench.evaluation import (
    LABELS,
    RESPONSE_RATE,
    Evaluation,
    evaluation_of,
    reported,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import naive_sum
from pytest_agenteval.records.transcript import sum_figures
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.record_files import replace_text

# Each level's title, and what it looks at.
LEVEL_TEXTS = {
    "L1": ("단일 도구 호출", "정해진 도구 하나를 올바른 인자로 호출하는지 평가"),
    "L2": ("도구 선택", "여러 후보 도구 중 질문에 맞는 도구를 고르는지 평가"),
    "L3": ("순차 호출", "앞 도구의 결과를 다음 도구의 인자로 넘기며 순서대로 문제를 푸는지 평가"),
    "L4": ("여러 출처 종합", "여러 출처에서 모은 정보를 비교해 하나의 결론을 내는지 평가"),
    "L5": ("오류 대처", "도구가 실패하거나 데이터가 없을 때 다른 방법을 찾는지 평가"),
    "L6": ("기존 결과 재사용", "대화에 이미 나온 결과를 재사용하고 같은 호출을 반복하지 않는지 평가"),
    "L7": ("긴 대화 기억", "여러 차례 오간 대화 내용을 기억해 새 질문에 반영하는지 평가"),
}

MEANINGS = {
    "RRR": "응답 반환율. 오류나 시간 초과 없이 응답을 반환한 태스크의 비율",
    "SR": "성공률. Judge 모델이 판정한 목표 달성 정도",
    "EPR_CVR": "유효 호출률. 전체 도구 호출 중 오류 없이 끝난 호출의 비율",
    "pass@k": "반복 성공률. k번 반복 실행 중 성공한 실행의 비율 (추정량 pass@k와 다름)",
    "ToolAcc": "도구 정확도. 처음 호출한 도구가 정답 도구인지",
    "ArgAcc": "인자 정확도. 호출 인자가 의미상 정답 인자와 같은지",
    "CallEM": "호출 일치. 도구와 모든 인자가 정답과 정확히 같은지",
    "RespOK": "응답 형식. 최종 응답이 정해진 형식에 맞는지",
    "SelectAcc": "선택 정확도. 후보 중 올바른 도구를 골랐는지",
    "FSM": "경로 일치. 도구를 호출한 순서가 정답 경로와 일치하는지",
    "PSM": "경로 포함률. 정답 경로의 도구 중 실제로 호출한 도구의 비율",
    "ΔSteps_norm": "단계 효율. 실제 호출 수가 최소 호출 수에 얼마나 가까운지",
    "Coverage": "출처 포함률. 필요한 출처 중 결과를 얻은 출처의 비율",
    "SourceEPR": "출처별 유효 호출률. 출처마다 구한 유효 호출률의 평균",
    "AdaptiveRoutingScore": "전환 속도. 실패한 뒤 얼마나 빨리 대체 도구로 전환했는지",
    "FallbackSR": "대체 성공률. 대체 도구 호출 중 성공한 호출의 비율",
    "RedundantCallRate": "중복 회피율. 이미 한 호출을 반복하지 않은 정도",
    "EffScore": "효율 점수. 성공한 태스크에서 실제 호출 수 대비 필요한 호출 수",
    "ContextRetention": "맥락 유지. 앞선 대화 내용을 답변에 반영했는지",
    "RefRecall": "정보 회상. 대화 초반의 정보를 나중에 정확히 떠올렸는지",
}

# The metrics of each level that the report's first table shows.
KEY_METRICS = {
    "L1": ("ToolAcc", "ArgAcc"),
    "L2": ("SelectAcc",),
    "L3": ("FSM", "PSM"),
    "L4": ("Coverage",),
    "L5": ("AdaptiveRoutingScore", "FallbackSR"),
    "L6": ("EffScore", "RedundantCallRate"),
    "L7": ("ContextRetention",),
}


Level = Mapping[str, Any]
FIRST = ("RRR", "SR")
UNKNOWN = "알 수 없음"
UNDECIDED = "미정"


def report_markdown(evaluation: Evaluation) -> str:
    """Write the page: how it was run, a table of levels, the metrics of each level, tokens and times."""
    summary, levels = evaluation["summary"], evaluation["by_level"]
    lines = [*_run(summary), *_overview(levels), "## 레벨별 성능", ""]
    for name, level in levels.items():
        lines += _level(name, level)
    return "\n".join([*lines, *_usage(levels), "", ""])


def _run(summary: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# Ko-AgentBench 평가 보고서", "", "## 실행 정보", "")
    yield f"- **평가 대상 모델**: {summary['model']}"
    yield f"- **Judge 모델**: {summary['judge_model'] or '없음'}"
    yield f"- **실행 날짜**: {summary['execution_date']}"
    yield f"- **평가 날짜**: {summary['evaluation_date'][:10]}"
    yield f"- **총 태스크**: {_counts(summary)}"
    if "mode" in summary:
        yield f"- **모드**: {summary['mode']}"
    yield ""


def _overview(levels: Mapping[str, Level]) -> Iterator[str]:
    yield from ("## 📊 성능 요약", "")
    yield from _head("Level", "태스크 수", "평균 실행시간", "평균 TPS", "평균 TTFT", "주요 지표")
    for name, level in levels.items():
        metadata, metrics = level["metadata"], level["metrics"]
        yield _table_row(
            f"**{name}**",
            _counts(level),
            f"{metadata['average_execution_time']:.1f}초",
            _figure_text(metadata["average_tps"], "{:.0f}"),
            _figure_text(metadata["ttft"]["average"], "{:.3f}초"),
            ", ".join(f"{key}: {_score_text(level, key)}" for key in KEY_METRICS[name] if key in metrics),
        )
    yield ""


def _level(name: str, level: Level) -> Iterator[str]:
    metrics = level["metrics"]
    title, intent = LEVEL_TEXTS[name]
    yield from (f"### Level {name[1:]}: {title}", "", f"> 태스크 의도: {intent}", ">")
    yield f"- 태스크 수: {_counts(level)}"
    yield f"- 평균 실행시간: {level['metadata']['average_execution_time']:.2f}초"
    yield from ("", "**메트릭 점수:**", "")
    first = [key for key in FIRST if key in metrics]
    for key in (*first, *sorted(key for key in metrics if key not in FIRST)):
        yield f"- **{key}**: {_score_text(level, key)} - {MEANINGS[key]}"
    yield ""


def _score_text(level: Level, metric: str) -> str:
    """Give a level's mean; the benchmark's figure for a metric that no task decided is 0, which says less."""
    scores = [
        task["metrics"][metric]["score"] for task in level["task_evaluations"] if metric in task["metrics"]
    ]
    undecided = bool(scores) and all(score is None for score in scores)
    return UNDECIDED if undecided else f"{level['metrics'][metric]:.3f}"


def _usage(levels: Mapping[str, Level]) -> Iterator[str]:
    levels_metadata = [level["metadata"] for level in levels.values()]
    tokens = sum_figures([metadata["total_tokens"] for metadata in levels_metadata]).value
    has_tps = tokens is not None and all(metadata["average_tps"] is not None for metadata in levels_metadata)
    seconds = naive_sum(metadata["total_execution_time"] for metadata in levels_metadata)
    yield from ("## 토큰 사용량 및 성능 지표", "", "### 전체 요약", "")
    yield f"- **총 처리 토큰**: {_figure_text(tokens, '{:,}개')}"
    yield f"- **총 실행 시간**: {seconds:.2f}초"
    tps = tokens / seconds if tokens is not None and seconds else 0.0
    yield f"- **전체 평균 TPS**: {_figure_text(tps if has_tps else None, '{:.2f} tokens/sec')}"
    yield f"- **전체 평균 TTFT**: {_figure_text(_first_token_s(levels_metadata), '{:.4f}초')}"
    yield from ("", "### 레벨별 상세", "")
    yield from _head(
        "Level", "평균 토큰 수", "입력 토큰", "출력 토큰", "TPS", "TTFT (평균)", "TTFT (최소/최대)"
    )
    for name, level in levels.items():
        metadata, ttft = level["metadata"], level["metadata"]["ttft"]
        yield _table_row(
            f"**{name}**",
            _figure_text(metadata["average_tokens_per_task"], "{:.0f}"),
            _figure_text(metadata["average_prompt_tokens"], "{:.0f}"),
            _figure_text(metadata["average_completion_tokens"], "{:.0f}"),
            _figure_text(metadata["average_tps"], "{:.0f}"),
            _figure_text(ttft["average"], "{:.4f}초"),
            UNKNOWN if ttft["average"] is None else f"{ttft['min']:.4f} / {ttft['max']:.4f}",
        )


def _figure_text(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def _first_token_s(levels_metadata: Sequence[Mapping[str, Any]]) -> float | None:
    """Give the mean of the levels' means, weighted by tasks; a level without one is left out."""
    means = [(level["ttft"]["average"], level["total_tasks"]) for level in levels_metadata]
    if means and all(mean is None for mean, _ in means):
        return None
    measured = [(mean, count) for mean, count in means if mean]
    tasks = sum(count for _, count in measured)
    return naive_sum(mean * count for mean, count in measured) / tasks if tasks else 0.0


def _counts(of: Mapping[str, Any]) -> str:
    return f"{of['evaluated_tasks']}/{of['total_tasks']}"


def _head(*titles: str) -> Iterator[str]:
    yield _table_row(*titles)
    yield _table_row(*("---" for _ in titles))


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


FACTS = ("Total_Tasks", "Evaluated_Tasks", "Avg_Exec_Time", "Avg_Tokens", "Avg_TPS", "Avg_TTFT")
# Columns that the benchmark misspells: programs that read its files expect its spelling.
MISSPELT = {"L1_ToolAcc": "L1_TooAcc"}


def _summary_csv(evaluation: Evaluation) -> str:
    """Give a row for each level; a metric that the level does not have is written 0.0000."""
    levels: Mapping[str, Any] = evaluation["by_level"]
    metrics = sorted({name for level in levels.values() for name in level["metrics"]})
    rows = [
        [name, *_facts(level), *(f"{level['metrics'].get(metric, 0.0):.4f}" for metric in metrics)]
        for name, level in levels.items()
    ]
    return _csv([["Level", *FACTS, *metrics], *rows], "\r\n")


def _combined_csv(evaluations: Iterable[tuple[str, Evaluation]]) -> str:
    """Give a row for each model, named as its folder is; a level that was not evaluated leaves blanks."""
    facts = [f"{level}_{fact}" for fact in FACTS for level in LEVELS]
    metrics = [f"{level}_{metric}" for level, metric in _combined_metrics()]
    titles = ["Model", "Vendor", "Model Type", *facts, *(MISSPELT.get(name, name) for name in metrics)]
    # The benchmark ends the lines of its two tables differently, and ours are to equal them byte by byte.
    return _csv([titles, *(_csv_row(name, evaluation) for name, evaluation in evaluations)], "\n")


def _csv_row(name: str, evaluation: Evaluation) -> list[str]:
    levels: Mapping[str, Any] = evaluation["by_level"]
    facts = {name: _facts(level) for name, level in levels.items()}
    cells = [facts[level][at] if level in facts else "" for at in range(len(FACTS)) for level in LEVELS]
    for level, metric in _combined_metrics():
        cells.append(f"{levels[level]['metrics'].get(metric, 0.0):.4f}" if level in levels else "")
    # In this table numbers lose the zeros at their ends: 0.5000 becomes 0.5, and 11 stays 11.
    short = (repr(float(cell)) if "." in cell else cell for cell in cells)
    return [name, *vendor_of(evaluation["summary"]["model"]), *short]


def _combined_metrics() -> list[tuple[str, str]]:
    """Give level and metric of the combined table's columns: those of all levels, then each level's own."""
    common = [(level, metric) for metric in (RESPONSE_RATE, *LABELS) for level in LEVELS]
    return [*common, *((level, metric) for level in LEVELS for metric in reported(level)[len(LABELS) :])]


def _facts(level: Mapping[str, Any]) -> list[str]:
    metadata = level["metadata"]
    return [
        str(level["total_tasks"]),
        str(level["evaluated_tasks"]),
        f"{metadata['average_execution_time']:.2f}",
        _csv_figure(metadata["average_tokens_per_task"], 2),
        _csv_figure(metadata["average_tps"], 2),
        _csv_figure(metadata["ttft"]["average"], 4),
    ]


def _csv_figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _csv(rows: Iterable[Sequence[str]], end: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue()


API, OPEN = "API", "OSS"

# Parts of model ids, each with the model's vendor and how it is available. The first part that an id contains
# decides.
VENDORS: tuple[tuple[str, str, str], ...] = (
    # Before "gpt", which is a part of this name.
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


def vendor_of(model: str) -> tuple[str, str]:
    """Give a model's vendor, and ``API`` or ``OSS``; ``Unknown`` twice for an id without a known part.

    Only what comes after the last provider prefix is looked at: ``azure/gpt-4o`` is not Microsoft's.
    """
    name = model.rpartition("/")[2].lower()
    found = ((vendor, kind) for part, vendor, kind in VENDORS if part in name)
    return next(found, ("Unknown", "Unknown"))


_SERVED_AS = re.compile(r":\d+$")
# No slash may lead out of the folder that was named, and Windows refuses the other marks.
_NO_NAME = re.compile(r'[/\\:*?"<>|\s]+')


def write_reports(runs: Iterable[Run], to: Path) -> list[Path]:
    """Write three files for each model of each run and, for several, the table of all; give the paths.

    Raises UsageMistake, before anything is written, for a run whose grades are not the benchmark's and for
    two evaluations that would be one folder.
    """
    # All folders are named before anything is written: a mistake leaves no part of the reports behind.
    folders = _by_folder([evaluated for run in runs for evaluated in _evaluations(run)])
    texts: dict[Path, str] = {}
    for folder, evaluation in folders.items():
        texts[to / folder / "evaluation_report.json"] = json.dumps(evaluation, ensure_ascii=False, indent=2)
        texts[to / folder / "evaluation_summary.csv"] = _summary_csv(evaluation)
        texts[to / folder / "evaluation_report.md"] = report_markdown(evaluation)
    if len(folders) > 1:
        # The name of a folder ends with the day, which this table does not have.
        rows = [(folder.rpartition("_")[0], evaluation) for folder, evaluation in folders.items()]
        texts[to / "combined_evaluation_summary.csv"] = _combined_csv(rows)
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, text)
    except OSError as refused:
        raise UsageMistake(f"{refused.filename}: cannot be written ({refused.strerror})") from None
    return list(texts)


def folder_name(model: str, day: str) -> str:
    """Give the folder of a model's evaluation: ``azure_gpt-4o_20251219``.

    What says how a model is served, as the ``:0`` in ``nova-lite-v1:0``, is left out, as in the benchmark.
    """
    return f"{_NO_NAME.sub('_', _SERVED_AS.sub('', model)).strip('_')}_{day}"


def _evaluations(run: Run) -> list[tuple[str, Evaluation]]:
    """Evaluate each model of a run, by the alias that the run calls it by."""
    by_alias = ((suite.who, evaluation_of(run, suite)) for suite in view_of(run).suites)
    evaluations = [(alias, evaluation) for alias, evaluation in by_alias if evaluation is not None]
    if not evaluations:
        raise UsageMistake(
            f"{run.folder}: expected grades of Ko-AgentBench (graders ko_L1 … ko_L7 on tasks in folders "
            "L1 … L7); there are none, so no report can be made in its shape"
        )
    return evaluations


def _by_folder(evaluations: Iterable[tuple[str, Evaluation]]) -> dict[str, Evaluation]:
    """Name each folder by the model's id, or by the alias where two aliases stand for one id."""
    named = []
    for alias, evaluation in evaluations:
        summary = evaluation["summary"]
        day = summary["execution_date"]
        named.append((folder_name(summary["model"], day), folder_name(alias, day), evaluation))
    times = Counter(by_id for by_id, _, _ in named)
    folders: dict[str, Evaluation] = {}
    for by_id, by_alias, evaluation in named:
        folder = by_id if times[by_id] == 1 else by_alias
        # Two runs of one model on one day would write into the same folder.
        if folders.setdefault(folder, evaluation) is not evaluation:
            raise UsageMistake(
                f"two evaluations would be written into {folder}: report runs of one model and day one by one"
            )
    return folders

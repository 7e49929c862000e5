"""An evaluation as the benchmark's Korean report: the same parts and numbers, in words of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.naive_sum import plain_sum
from pytest_agenteval.benchmarks.ko_agentbench.report.evaluation import Evaluation
from pytest_agenteval.benchmarks.ko_agentbench.report.words import INTENTS, KEY_METRICS, MEANINGS, TITLES

Level = Mapping[str, Any]
FIRST = ("RRR", "SR")
NONE = "없음"


def report_markdown(evaluation: Evaluation) -> str:
    """Give the report: how it was run, a table of levels, each level's metrics, tokens and times."""
    summary, levels = evaluation["summary"], evaluation["by_level"]
    lines = [*_run(summary), *_overview(levels), "## 레벨별 성능", ""]
    for name, level in levels.items():
        lines += _level(name, level)
    return "\n".join([*lines, *_took(levels), "", ""])


def _run(summary: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# Ko-AgentBench 평가 보고서", "", "## 실행 정보", "")
    yield f"- **평가 대상 모델**: {summary['model']}"
    yield f"- **Judge 모델**: {summary['judge_model'] or NONE}"
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
        took, found = level["metadata"], level["metrics"]
        yield _row(
            f"**{name}**",
            _counts(level),
            f"{took['average_execution_time']:.1f}초",
            f"{took['average_tps']:.0f}",
            f"{took['ttft']['average']:.3f}초",
            ", ".join(f"{key}: {found[key]:.3f}" for key in KEY_METRICS[name] if key in found),
        )
    yield ""


def _level(name: str, level: Level) -> Iterator[str]:
    found = level["metrics"]
    yield from (f"### Level {name[1:]}: {TITLES[name]}", "", f"> 태스크 의도: {INTENTS[name]}", ">")
    yield f"- 태스크 수: {_counts(level)}"
    yield f"- 평균 실행시간: {level['metadata']['average_execution_time']:.2f}초"
    yield from ("", "**메트릭 점수:**", "")
    first = [key for key in FIRST if key in found]
    for key in (*first, *sorted(key for key in found if key not in FIRST)):
        yield f"- **{key}**: {found[key]:.3f} - {MEANINGS[key]}"
    yield ""


def _took(levels: Mapping[str, Level]) -> Iterator[str]:
    told = [level["metadata"] for level in levels.values()]
    tokens = sum(took["total_tokens"] for took in told)
    seconds = plain_sum(took["total_execution_time"] for took in told)
    yield from ("## 토큰 사용량 및 성능 지표", "", "### 전체 요약", "")
    yield f"- **총 처리 토큰**: {tokens:,}개"
    yield f"- **총 실행 시간**: {seconds:.2f}초"
    yield f"- **전체 평균 TPS**: {tokens / seconds if seconds else 0.0:.2f} tokens/sec"
    yield f"- **전체 평균 TTFT**: {_first_token_s(told):.4f}초"
    yield from ("", "### 레벨별 상세", "")
    yield from _head(
        "Level", "평균 토큰 수", "입력 토큰", "출력 토큰", "TPS", "TTFT (평균)", "TTFT (최소/최대)"
    )
    yield from (_details(name, level["metadata"]) for name, level in levels.items())


def _details(name: str, took: Mapping[str, Any]) -> str:
    ttft = took["ttft"]
    return _row(
        f"**{name}**",
        f"{took['average_tokens_per_task']:.0f}",
        f"{took['average_prompt_tokens']:.0f}",
        f"{took['average_completion_tokens']:.0f}",
        f"{took['average_tps']:.0f}",
        f"{ttft['average']:.4f}초",
        f"{ttft['min']:.4f} / {ttft['max']:.4f}",
    )


def _first_token_s(told: Sequence[Mapping[str, Any]]) -> float:
    """Give the mean of the levels' means, each counted by its tasks; a level without one is left out."""
    known = [(took["ttft"]["average"], took["total_tasks"]) for took in told if took["ttft"]["average"] > 0]
    tasks = sum(count for _, count in known)
    return plain_sum(mean * count for mean, count in known) / tasks if tasks else 0.0


def _counts(of: Mapping[str, Any]) -> str:
    return f"{of['evaluated_tasks']}/{of['total_tasks']}"


def _head(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"

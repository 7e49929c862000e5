"""Traces and evidence for tests of the Korean metrics, from synthetic cases, from logs, and by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS, LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    KoCall,
    KoGrader,
    KoMessage,
    KoTrace,
    MetricResult,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript
from tests.benchmarks.ko_agentbench.clone import LOGS, ROOT, Json

Case = Mapping[str, Any]

SYNTHETIC = ROOT / "tests/oracle/ko-synthetic.json"

LABELS = {name: label for group in GROUPS.values() for name, label in group}


def grader_class(name: str) -> type[KoGrader]:
    """Give a grader's class by its registered name."""
    module, _, class_name = GRADERS[name].partition(":")
    made: type[KoGrader] = getattr(import_module(f"pytest_agenteval.{module}"), class_name)
    return made


def metrics() -> dict[str, CodeMetric | JudgedMetric]:
    """Give every metric by the label that the benchmark's reports have for it."""
    by_label: dict[str, CodeMetric | JudgedMetric] = {}
    for name in GRADERS:
        metric: CodeMetric | JudgedMetric = getattr(grader_class(name), "metric")  # noqa: B009
        by_label[metric.label.removesuffix(" share")] = metric
    return by_label


def synthetic() -> list[Case]:
    """Read the synthetic cases."""
    cases: list[Case] = json.loads(SYNTHETIC.read_text(encoding="utf-8"))["cases"]
    return cases


def task_of(case: Case) -> KoTask:
    """Give the task of a synthetic case."""
    return KoTask(**{key: value for key, value in case["task"].items() if key != "repetitions"})


def trace_of_case(case: Case) -> KoTrace:
    """Give the trace of a synthetic case."""
    logs = case["logs"]
    conversation = logs["conversation_log"]
    messages = tuple(
        KoMessage(message["role"], message["content"]) for message in conversation.get("messages", ())
    )
    return KoTrace(
        calls=tuple(
            KoCall(
                call["step"],
                call["tool_name"],
                call["arguments"],
                call["success"],
                call.get("error"),
                call.get("result"),
            )
            for call in logs["tool_calls"]
        ),
        final_response=logs["final_response"],
        success=logs["success"],
        repetition_results=tuple(logs["repetition_results"]),
        repetitions=case["task"].get("repetitions"),
        messages=messages if conversation else None,
    )


@dataclass
class Repeats:
    """A chat that gives its replies one after another, the last one again and again, and counts asks."""

    replies: Sequence[str | BaseException]
    asked: list[Sequence[ChatMessage]] = field(default_factory=list)

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next reply, or raise it."""
        self.asked.append(messages)
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return Reply(reply)

    @property
    def prompt(self) -> str:
        """The last prompt that was given."""
        return str(self.asked[-1][1]["content"])


@dataclass(frozen=True)
class Scripted:
    """A judge with a name and a chat."""

    model: Model
    chat: Repeats


def says(*replies: str | BaseException, name: str = "strict") -> Scripted:
    """Give a judge that replies so."""
    return Scripted(Model(name, name), Repeats(replies))


def ko_call(
    tool: str, step: Any = 1, *, ok: bool = True, result: Any = None, seeded: bool = False, **args: Any
) -> KoCall:
    """Give a call of a trace."""
    return KoCall(step, tool, args, ok, None if ok else "boom", result, seeded)


def did(*calls: KoCall, answer: Any = "답입니다", success: bool = True, **more: Any) -> KoTrace:
    """Give a trace of these calls and this answer."""
    return KoTrace(calls, answer, success, **more)


def by_default(name: str, trace: KoTrace, **config: Any) -> MetricResult:
    """Work a metric that needs no judge out in mode ``default``, by its grader's name."""
    grader = grader_class(name)(**config)
    assert isinstance(grader, ComputedGrader)
    return grader.metric.of(grader, trace, "default")


def judged_by_default(
    name: str, trace: KoTrace, *judges: Any, combine: Any = "mean", **config: Any
) -> MetricResult:
    """Let judges decide a metric in mode ``default``, by its grader's name."""
    grader = grader_class(name)(combine=combine, **config)
    assert isinstance(grader, JudgedMetricGrader)
    return asyncio.run(grader.metric.of(grader, trace, "default", JudgePanel(judges, combine)))


def says_score(dimension: str, *scores: Any) -> list[Scripted]:
    """Give judges that each reply with one of these scores, in one dimension."""
    return [
        says(json.dumps({dimension: score, "rationale": f"reason {number}"}), name=f"judge-{number}")
        for number, score in enumerate(scores, 1)
    ]


def golden(*tools: str, step: int | None = None) -> list[Json]:
    """Give golden actions that call these tools, a step each."""
    return [
        {"tool": tool, "args": {}, "step": number if step is None else step}
        for number, tool in enumerate(tools, 1)
    ]


def levels_of_logs(model: str) -> dict[str, list[Json]]:
    """Read the recorded results of a model, by level."""
    files = (LOGS / model).glob("*/L?.json")
    logs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    return {level: logs[level]["results"] for level in LEVELS}


def config_of(logged: Json) -> Json:
    """Give what the benchmark's evaluator knows of a task, as a grader's config."""
    keys = ("golden_action", "arg_schema", "resp_schema", "minimum_steps", "data_flow")
    more = ("error_injection", "fallback_options", "instruction")
    settings = {key: logged[key] for key in (*keys, *more)}
    return {**settings, "task_level": logged["level"], "mode": "upstream"}


def evidence_of(logged: Json) -> Evidence:
    """Give a recorded result as evidence."""
    messages = (logged["conversation_log"] or {}).get("messages") or []
    state = {
        "success": logged["success"],
        "repetition_results": logged["repetition_results"],
        "repetitions": logged["repetitions"],
        "conversation": bool(logged["conversation_log"]),
        "task_level": logged["level"],
    }
    transcript = Transcript(tuple(map(_message, messages)), tuple(_calls(logged["tool_calls"])))
    answer = Answer(logged["final_response"] or "", {"ko_agentbench": state})
    return Evidence({"content": logged["instruction"]}, transcript, Outcome(answer))


def _message(message: Json) -> Message:
    content = message["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return Message(message["role"], text)


def _calls(logged: Iterable[Json]) -> Iterable[ToolCall]:
    for call in logged:
        error = None if call["success"] else ToolError("tool_error", call["error"])
        yield ToolCall(
            "c", call["step"], 0, call["tool_name"], call["arguments"] or {}, None, call.get("result"), error
        )

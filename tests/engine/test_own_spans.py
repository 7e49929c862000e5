"""Spans that an agent's framework makes are those of its trial, whichever thread makes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.engine import otel_processor
from pytest_agenteval.records.plan import Plan, PlannedGrader
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from tests.engine.executing import execute, plan, registry

ANY = PlannedGrader("answer_contains", "answer", {"text": ""})
POOL = ThreadPoolExecutor(2)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """A provider as a user's program sets one up, for this test only: OpenTelemetry takes one for good."""
    made = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made)
    return made


def _model_and_tool(provider: TracerProvider, city: str) -> None:
    """What an instrumented framework does: a reply that asks for a call, and the call."""
    tracer = provider.get_tracer("framework")
    call = {"type": "tool_call", "id": f"c-{city}", "name": "weather", "arguments": {"city": city}}
    with tracer.start_as_current_span("run"):
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            chat.set_attribute("gen_ai.usage.input_tokens", 5)
            said = [{"role": "user", "parts": [{"type": "text", "content": city}]}]
            chat.set_attribute("gen_ai.input.messages", json.dumps(said))
            chat.set_attribute("gen_ai.output.messages", json.dumps([{"parts": [call]}]))
        with tracer.start_as_current_span("tool") as tool:
            tool.set_attribute("gen_ai.operation.name", "execute_tool")
            tool.set_attribute("gen_ai.tool.name", "weather")
            tool.set_attribute("gen_ai.tool.call.id", f"c-{city}")
            tool.set_attribute("gen_ai.tool.call.result", f"cold in {city}")


def _in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


WAYS: Mapping[str, Callable[[Callable[[], None]], Any]] = {
    "here": lambda work: work(),
    "thread": _in_a_thread,
    "pool": lambda work: POOL.submit(work).result(),
}


def _trials(agent: type, *ids: str, **more: Any) -> Mapping[str, Trial]:
    known = registry()
    known.agent("instrumented", agent)
    plans: list[Plan] = [plan(id, ANY, agent="instrumented", input={"content": id}, **more) for id in ids]
    return {trial.key.task: trial for trial in execute(known, *plans)}


@pytest.mark.parametrize("way", WAYS)
def test_each_trial_has_the_spans_that_were_begun_in_it(way: str, provider: TracerProvider) -> None:
    """Trials that run at once, threads and pools that they share: none has another's."""
    together = threading.Barrier(4)

    class Instrumented:
        def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            together.wait()
            WAYS[way](lambda: _model_and_tool(provider, task_input["content"]))
            return "done"

    trials = _trials(Instrumented, "oslo", "lima", "seoul", "busan")

    for city, trial in trials.items():
        assert [(call.id, call.args, call.result) for call in trial.transcript.calls] == [
            (f"c-{city}", {"city": city}, f"cold in {city}")
        ]
        assert [message.content for message in trial.transcript.messages] == [city, ""]
        assert trial.usage.input_tokens == 5
        (call,) = trial.transcript.calls
        assert 0 <= trial.transcript.asks[0].started <= call.started <= call.ended <= trial.seconds + 1


def test_a_thread_that_knows_no_trial_has_its_parents(provider: TracerProvider) -> None:
    """A framework's own worker, begun before any trial, is given the parent and nothing else."""

    class Instrumented:
        def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            tracer = provider.get_tracer("framework")
            with tracer.start_as_current_span("run") as root:
                parent = trace.set_span_in_context(root)
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(otel_processor, "current", lambda: None)
                    span = tracer.start_span("tool", context=parent)
                span.set_attribute("gen_ai.operation.name", "execute_tool")
                span.set_attribute("gen_ai.tool.name", "weather")
                span.end()
            return "done"

    trial = _trials(Instrumented, "oslo")["oslo"]
    assert [call.tool for call in trial.transcript.calls] == ["weather"]


def test_what_was_seen_of_a_model_stands_beside_spans(provider: TracerProvider) -> None:
    """The agent asks through its context: no message twice, and the call that went through our box is one."""

    class Instrumented:
        tools = ()

        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            reply = await ctx.chat.ask([{"role": "user", "content": "Hello?"}])
            await ctx.tools.call(ToolCall("c-oslo", 1, 0, "weather", {"city": "oslo"}))
            _model_and_tool(provider, "oslo")
            return reply.text

    transcript = _trials(Instrumented, "oslo")["oslo"].transcript
    assert [message.content for message in transcript.messages] == ["Hello?", "Hello, Mina!"]
    assert [call.id for call in transcript.calls] == ["c-oslo"]
    assert transcript.calls[0].error is not None  # as our box said, whatever a span tells


def test_calls_that_a_model_wrote_as_text_are_told_by_spans(provider: TracerProvider) -> None:
    """So agents call tools whose replies are text alone, as dspy's: no reply asks for a call."""

    class Instrumented:
        async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> str:
            await ctx.chat.ask([{"role": "user", "content": "Hello?"}])
            for city in ("oslo", "lima"):
                with provider.get_tracer("framework").start_as_current_span("tool") as tool:
                    tool.set_attribute("openinference.span.kind", "TOOL")
                    tool.set_attribute("tool.name", "weather")
                    tool.set_attribute("input.value", json.dumps({"city": city}))
                    tool.set_attribute("output.value", "cold")
            return "done"

    calls = _trials(Instrumented, "oslo")["oslo"].transcript.calls
    assert [(call.tool, call.args["city"], call.result) for call in calls] == [
        ("weather", "oslo", "cold"),
        ("weather", "lima", "cold"),
    ]


def test_a_suite_that_asks_for_spans_gets_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """``otel: true``: one is set up where the process has none, and only then."""
    held: list[Any] = [trace.ProxyTracerProvider()]
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: held[-1])
    monkeypatch.setattr(trace, "set_tracer_provider", held.append)

    assert not otel_processor.attach(set_up=False)
    assert otel_processor.attach(set_up=True)
    assert otel_processor.attach(set_up=True)

    assert [type(each) for each in held[1:]] == [TracerProvider]

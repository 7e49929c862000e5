"""Spans of instrumented frameworks as a transcript.

``gen_ai.*`` is the dialect of OpenTelemetry's own conventions; ``llm.*`` and ``tool.*`` that of
OpenInference, which writes a conversation as one attribute for each word of it:
``llm.input_messages.0.message.content``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts import spans as names
from pytest_agenteval.cassettes.transcripts.parts import UNFINISHED, UNKNOWN_USAGE, shown_text
from pytest_agenteval.cassettes.transcripts.spans import TraceSpan, json_of
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.recorder import Recorder, is_ended
from pytest_agenteval.records.replies import FINISHES
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments, shown_value
from pytest_agenteval.records.transcript import Ask, ToolCall, ToolError, Transcript, Usage
from pytest_agenteval.text.json_values import canonical_json, jsonable

OPENINFERENCE_KIND = "openinference.span.kind"
MODEL_OPERATIONS = (names.CHAT, "text_completion", "generate_content")
_NUMBER = re.compile(r"[0-9]{1,4}")

OpenAIMessage = dict[str, Any]
"""A message in the normal form of wire traffic: role, content, tool_calls, tool_call_id."""


class SpanReply(FrozenValue, frozen=True):
    """One reply of a model, as a span has it: the conversation before it, the reply, its usage."""

    prompt: tuple[OpenAIMessage, ...]
    message: OpenAIMessage
    usage: Usage
    finish: str = "stop"
    reasoning: str = ""
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    first_token_s: float | None = None


class SpanCall(FrozenValue, frozen=True):
    """One call of a tool as a span has it; ``result`` is a list or map where the span has JSON of one."""

    id: str
    tool: str
    args: Mapping[str, Any]
    result: Any


def is_reply(span: TraceSpan) -> bool:
    attributes = span.attributes
    return attributes.get(names.OPERATION) in MODEL_OPERATIONS or attributes.get(OPENINFERENCE_KIND) == "LLM"


def is_call(span: TraceSpan) -> bool:
    attributes = span.attributes
    return attributes.get(names.OPERATION) == names.TOOL or attributes.get(OPENINFERENCE_KIND) == "TOOL"


def reply_of(span: TraceSpan) -> SpanReply:
    attributes = span.attributes
    if attributes.get(OPENINFERENCE_KIND) != "LLM":
        return _genai_reply(attributes)
    tree = _unflattened(attributes, "llm.")
    prompt = _openinference_messages(tree.get("input_messages"))
    replies = _openinference_messages(tree.get("output_messages"))
    message = replies[0] if replies else {"role": "assistant", "content": ""}
    counts = ("prompt", "completion", "prompt_details.cache_read", "completion_details.reasoning")
    schemas = [json_of((each.get("tool") or {}).get("json_schema")) for each in _maps(tree.get("tools"))]
    return SpanReply(
        tuple(prompt),
        message,
        _usage(attributes, [f"llm.token_count.{name}" for name in counts], None),
        _finish([attributes.get("llm.finish_reason")], message),
        model=str(attributes.get("llm.model_name") or ""),
        tools=_tools(_maps(schemas)),
    )


def call_of(span: TraceSpan) -> SpanCall:
    """Read the span of a tool's call.

    Arguments that are a text without names stand under ``input``; of ``{"args": [], "kwargs": {…}}``,
    as some frameworks write them, those of ``kwargs`` are meant.
    """
    attributes = span.attributes
    if attributes.get(names.OPERATION) == names.TOOL:
        arguments, result = attributes.get(names.CALL_ARGUMENTS), attributes.get(names.CALL_RESULT)
    else:
        arguments = attributes.get("input.value", attributes.get("tool.parameters"))
        result = attributes.get("output.value")
    id = attributes.get(names.CALL_ID) or attributes.get("tool_call.id") or attributes.get("tool.id") or ""
    name = attributes.get(names.TOOL_NAME) or attributes.get("tool.name") or span.name
    given = json_of(arguments)
    if not isinstance(given, Mapping):
        args = NOTHING if given in (None, "") else {"input": jsonable(given)}
    elif isinstance(given.get("kwargs"), Mapping) and "args" in given:
        args = {**given["kwargs"], **({"args": given["args"]} if given["args"] else {})}
    else:
        args = {str(name): item for name, item in given.items()}
    value = shown_value(result) if isinstance(result, str) else jsonable(result)
    return SpanCall(str(id), str(name), args, value)


def _genai_reply(attributes: names.Attributes) -> SpanReply:
    instructions = " ".join(_texts(json_of(attributes.get(names.INSTRUCTIONS))))
    prompt = [{"role": "system", "content": instructions}] if instructions else []
    for message in _maps(json_of(attributes.get(names.INPUT_MESSAGES))):
        prompt += _genai_messages(message)
    replies = _maps(json_of(attributes.get(names.OUTPUT_MESSAGES)))
    reply = replies[0] if replies else {}
    reply_message = next(
        iter(_genai_messages({"role": "assistant", **reply})), {"role": "assistant", "content": ""}
    )
    # The attribute has one reason for each choice of the reply.
    finishes = json_of(attributes.get(names.FINISH_REASONS)) or [reply.get("finish_reason")]
    chunk_s = attributes.get(names.FIRST_CHUNK_S)
    return SpanReply(
        tuple(prompt),
        reply_message,
        _usage(
            attributes,
            (names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.CACHED_TOKENS, names.REASONING_TOKENS),
            attributes.get(names.COST_USD),
        ),
        _finish(finishes, reply_message),
        "\n".join(_texts(reply.get("parts"), ("reasoning", "thinking"))),
        str(attributes.get(names.RESPONSE_MODEL) or attributes.get(names.REQUEST_MODEL) or ""),
        _tools(_maps(json_of(attributes.get(names.TOOL_DEFINITIONS)))),
        float(chunk_s) if isinstance(chunk_s, int | float) else None,
    )


def _genai_messages(message: Mapping[str, Any]) -> Iterator[OpenAIMessage]:
    """Give a message in our form; each result of a tool becomes a message of its own, before it."""
    parts = _maps(message.get("parts"))
    role = message.get("role")
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    for part in results:
        result = part.get("response", part.get("result"))
        yield {"role": "tool", "tool_call_id": str(part.get("id") or ""), "content": shown_text(result)}
    text = "\n".join(_texts(parts))
    requests = [part for part in parts if part.get("type") == "tool_call"]
    calls = [_call(part.get("id"), part.get("name"), part.get("arguments")) for part in requests]
    if text or calls or not results:
        yield _message_of(str(role), text, calls)


def _openinference_messages(entries: Any) -> list[OpenAIMessage]:
    return [_openinference_message(each) for each in _maps([it.get("message") for it in _maps(entries)])]


def _openinference_message(message: Mapping[str, Any]) -> OpenAIMessage:
    parts = [each.get("message_content") for each in _maps(message.get("contents"))]
    content = message.get("content")
    text = shown_text(content) if content else "\n".join(_texts(parts))
    if message.get("role") in ("tool", "function"):
        return {"role": "tool", "tool_call_id": str(message.get("tool_call_id") or ""), "content": text}
    requests = [each.get("tool_call") for each in _maps(message.get("tool_calls"))]
    calls = []
    for call in _maps(requests):
        function = call.get("function") or {}
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    return _message_of(str(message.get("role") or "user"), text, calls)


def _message_of(role: str, text: str, calls: list[dict[str, Any]]) -> OpenAIMessage:
    roles = {"assistant": "assistant", "model": "assistant", "ai": "assistant", "system": "system"}
    role = roles.get(role, "system" if role == "developer" else "user")
    return {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}


def _call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        args, raw = parse_arguments(arguments or "{}")
        text = canonical_json(args) if raw is None else raw
    else:
        text = canonical_json(jsonable(arguments or {}))
    return {"id": str(id or ""), "type": "function", "function": {"name": str(name or ""), "arguments": text}}


def _texts(parts: Any, kinds: Iterable[str] = ("text",)) -> list[str]:
    """Give the texts of parts of these kinds; a part that is no text becomes its kind in brackets."""
    texts = []
    for part in _maps(parts):
        kind = part.get("type", "text")
        if kind in kinds:
            texts.append(str(part.get("content", part.get("text", ""))))
        elif "text" in kinds and kind not in ("tool_call", "tool_call_response", "reasoning", "thinking"):
            texts.append(f"[{kind}]")
    return texts


def _usage(attributes: names.Attributes, keys: Iterable[str], cost_usd: Any) -> Usage:
    counts = [attributes.get(key) for key in keys]
    prompt, completion, cached, reasoning = (
        count if isinstance(count, int) and count >= 0 else None for count in counts
    )
    cost = float(cost_usd) if isinstance(cost_usd, int | float) else None
    return Usage(prompt, completion, cached, reasoning, cost, 1, 1)


def _finish(reasons: Any, message: OpenAIMessage) -> str:
    first = reasons[0] if isinstance(reasons, list | tuple) and reasons else None
    default = "tool_calls" if message.get("tool_calls") else "stop"
    return FINISHES.get(first, first) if isinstance(first, str) and first else default


def _tools(declared: Iterable[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    schemas = ("parameters", "input_schema", "parameters_json_schema")
    bodies = [each["function"] if isinstance(each.get("function"), Mapping) else each for each in declared]
    tools = []
    for body in (body for body in bodies if body.get("name")):
        schema = next((body[key] for key in schemas if isinstance(body.get(key), Mapping)), NOTHING)
        tools.append(ToolSpec(str(body["name"]), str(body.get("description") or ""), schema))
    return tuple(tools)


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _unflattened(attributes: names.Attributes, prefix: str) -> dict[str, Any]:
    """Put attributes such as ``llm.tools.0.tool.json_schema`` together as maps and lists."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            node, *steps = tree, *name.removeprefix(prefix).split(".")
            for step in steps[:-1]:
                node = node.setdefault(step, {})
                if not isinstance(node, dict):
                    break
            else:
                node[steps[-1]] = value
    return {name: _with_lists(value) for name, value in tree.items()}


def _with_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    inner = {name: _with_lists(value) for name, value in node.items()}
    if inner and all(map(_NUMBER.fullmatch, inner)):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def read_spans(spans: Iterable[TraceSpan], began_ns: int | None = None) -> Transcript:
    """Read the spans of models and tools; any other, and a model's within a model's, is passed over.

    ``began_ns`` is when the trial began, in nanoseconds since 1970; None takes the first span's start. What a
    model was shown of a call is its result; where there was no further request, the tool's own span has it.
    """
    ordered = sorted(spans, key=lambda span: span.start_ns)
    reader = _SpanReader(ordered[0].start_ns if began_ns is None and ordered else began_ns or 0)
    replies = {span.span_id for span in ordered if is_reply(span)}
    parents = {span.span_id: span.parent_id for span in ordered}
    for span in filter(is_reply, ordered):
        parent = span.parent_id
        # Bounded, as the parents of damaged spans may lead in a circle.
        for _ in parents:
            if not parent or parent in replies:
                break
            parent = parents.get(parent, "")
        # Of a reply within a reply only the outer one counts: two instrumentations saw one request.
        if not parent:
            reader.read_reply(span)
    for span in ordered:
        if is_call(span):
            reader.read_call(span)
    return reader.transcript()


class _SpanReader:
    def __init__(self, began_ns: int) -> None:
        self._began_ns = began_ns
        self._recorder = Recorder(lambda: 0.0)
        self._calls: list[ToolCall] = []

    def transcript(self) -> Transcript:
        return replace(self._recorder.transcript(), calls=tuple(self._calls))

    def read_reply(self, span: TraceSpan) -> None:
        """Add a reply, the messages before it that are new, and the calls that it requests."""
        reply, recorder = reply_of(span), self._recorder
        recorder.offer_tools(reply.tools)
        for message in reply.prompt:
            if message["role"] == "tool":
                self._show(message["tool_call_id"], message["content"])
        recorder.turn += 1
        recorder.add_prompt(reply.prompt)
        requests: tuple[ToolCall, ...] = ()
        for index, call in enumerate(reply.message.get("tool_calls") or ()):
            name, arguments = call["function"]["name"], parse_arguments(call["function"]["arguments"])
            requests += (ToolCall(call["id"], recorder.turn, index, name, *arguments),)
        self._calls += [replace(call, error=UNFINISHED) for call in requests]
        usage = reply.usage if reply.usage.known_tokens else UNKNOWN_USAGE
        times = self._seconds(span.start_ns), self._seconds(span.end_ns)
        ask = Ask(
            recorder.turn, *times, usage, reply.finish, reply.first_token_s, reply.reasoning, reply.model
        )
        recorder.add_reply(reply.message, requests, ask)

    def read_call(self, span: TraceSpan) -> None:
        """Add times and result to the call that a reply made; a call that no reply made is added."""
        span_call = call_of(span)
        place = self._place(span_call)
        times = {"started": self._seconds(span.start_ns), "ended": self._seconds(span.end_ns)}
        failed = None if span.error is None else ToolError("tool_error", span.error)
        if place is None:
            turn = sum(ask.ended <= times["started"] for ask in self._recorder.transcript().asks)
            id = span_call.id or f"own_{len(self._calls) + 1}"
            own = ToolCall(id, turn, 0, span_call.tool, span_call.args)
            self._calls.append(
                replace(own, result=None if failed else span_call.result, error=failed, **times)
            )
            return
        call = self._calls[place]
        if failed is not None or not is_ended(call):
            call = replace(call, result=None if failed else span_call.result, error=failed)
        self._calls[place] = replace(call, **times)

    def _show(self, id: str, content: str) -> None:
        for place, call in enumerate(self._calls):
            if call.id == id and call.error is UNFINISHED:
                self._calls[place] = replace(call, result=shown_value(content), error=None)
                return

    def _place(self, span_call: SpanCall) -> int | None:
        """Give the call that a tool's span tells of: by id, else by tool and arguments, else by tool."""
        calls = [(at, call) for at, call in enumerate(self._calls) if call.tool == span_call.tool]
        untimed = [(at, call) for at, call in calls if not call.ended]
        if span_call.id:
            return next((at for at, call in untimed if call.id == span_call.id), None)
        same = [at for at, call in untimed if call.args == span_call.args]
        return next(iter([*same, *(at for at, _ in untimed)]), None)

    def _seconds(self, at_ns: int) -> float:
        return (at_ns - self._began_ns) / 10**9

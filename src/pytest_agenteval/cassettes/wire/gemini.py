"""Google's Gemini, at AI Studio or Vertex: content is a list of parts, and calls have no ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import Conversation, ReplyParts, WireCall, normal_role
from pytest_agenteval.cassettes.wire.traffic import (
    Json,
    ModelRequest,
    UnreadableTraffic,
    as_map,
    as_text,
    base64_placeholder,
    maps_in,
    rest_of,
    tool_spec,
    url_placeholder,
    wrapped_result,
)
from pytest_agenteval.cassettes.wire.usage import as_count, read_usage
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolError

# ``NUMBERED`` and the functions ``read_request``, ``read_reply`` and ``join`` are those of ``WireFormat``.
FORMAT = "gemini"
NUMBERED = True

_READ = ("model", "contents", "systemInstruction", "system_instruction", "tools")
_FILTERED = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT",
    "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "MODEL_ARMOR",
)  # fmt: skip
_TIERS = {"ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_FLEX": "flex", "FLEX": "flex"}


def read_request(body: Json, model: str, streamed: bool) -> ModelRequest:
    conversation = Conversation(numbered=True)
    system = either(body, "systemInstruction")
    if instructions := text_of(_parts(system)):
        conversation.add("system", instructions)
    contents = body.get("contents")
    # The API takes one content in place of a list, and one part in place of a list of parts.
    for content in [contents] if isinstance(contents, dict) else maps_in(contents):
        role, parts = normal_role(as_text(content.get("role"))), _parts(content)
        if role == "assistant":
            conversation.add_reply(text_of(parts, ""), _calls(parts))
            continue
        answers = [as_map(either(part, "functionResponse")) for part in parts]
        for answer in filter(None, answers):
            result, failed = wrapped_result(answer.get("response"))
            attached = text_of(maps_in(answer.get("parts")))
            name, id = as_text(answer.get("name")), as_text(answer.get("id"))
            conversation.add_result(id, "\n".join(filter(None, (result, attached))), name=name, failed=failed)
        text = text_of(parts)
        if text or not any(answers):
            conversation.add(role, text)
    specs: list[ToolSpec] = []
    for tool in maps_in(body.get("tools")):
        declared = either(tool, "functionDeclarations")
        # A tool of the provider's, such as ``googleSearch``, is named by its key.
        if declared is None:
            specs += [tool_spec(name, None, None) for name in tool]
        for function in maps_in(declared):
            schema = either(function, "parametersJsonSchema") or function.get("parameters")
            specs.append(tool_spec(as_text(function.get("name")), function.get("description"), schema))
    return ModelRequest(
        FORMAT,
        model or as_text(body.get("model")),
        tuple(conversation.messages),
        tuple(specs),
        streamed,
        rest_of(body, *_READ),
    )


def either(holder: Json, name: str) -> Any:
    """Give what is written in camel case or, as the API also takes it, in snake case."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return holder.get(name, holder.get(snake))


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    parts = as_map(content).get("parts")
    return maps_in([parts] if isinstance(parts, dict) else parts)


def text_of(parts: Iterable[Json], between: str = "\n") -> str:
    """Give parts as a text; thoughts, calls and their results are none."""
    return between.join(filter(None, map(_part_text, parts)))


def _part_text(part: Json) -> str:
    if part.get("thought") is True:
        return ""
    if data := as_map(either(part, "inlineData")):
        mime = as_text(either(data, "mimeType"))
        return base64_placeholder(_kind(mime), data.get("data"), mime)
    if file := as_map(either(part, "fileData")):
        return url_placeholder(_kind(as_text(either(file, "mimeType"))), either(file, "fileUri"))
    return as_text(part.get("text"))


def _kind(mime: str) -> str:
    kind = mime.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "file"


def _calls(parts: Sequence[Json]) -> list[WireCall]:
    """Read calls; the result of code that the provider ran is in the part that follows it."""
    calls: list[WireCall] = []
    for part in parts:
        function, code = as_map(either(part, "functionCall")), as_map(either(part, "executableCode"))
        if function:
            calls.append(
                WireCall(as_text(function.get("id")), as_text(function.get("name")), function.get("args"))
            )
        elif code:
            calls.append(WireCall(f"code_{len(calls) + 1}", "code_execution", code, "provider"))
        elif result := as_map(either(part, "codeExecutionResult")):
            outcome, output = as_text(result.get("outcome")), as_text(result.get("output"))
            error = None if outcome in ("", "OUTCOME_OK") else ToolError(outcome.lower(), output)
            if calls:
                call = calls[-1]
                calls[-1] = WireCall(call.id, call.name, call.arguments, call.by, output, error)
    return calls


def read_reply(body: Json) -> ReplyParts:
    """Read a whole reply; of several candidates the first, as clients do."""
    blocked = as_text(as_map(body.get("promptFeedback")).get("blockReason"))
    candidates = maps_in(body.get("candidates"))
    if not (candidates or blocked or "usageMetadata" in body):
        raise UnreadableTraffic("the reply holds no candidates")
    candidate = min(candidates, key=lambda it: as_count(it.get("index")), default={})
    parts, reason = _parts(candidate.get("content")), as_text(candidate.get("finishReason"))
    thoughts = [as_text(part.get("text")) for part in parts if part.get("thought") is True]
    # A search that the provider made by itself is a call too, with the pages that it found.
    grounding, searches = as_map(candidate.get("groundingMetadata")), []
    if queries := grounding.get("webSearchQueries"):
        pages = [as_map(chunk.get("web")) for chunk in maps_in(grounding.get("groundingChunks"))]
        found = [dict(page) for page in pages if page]
        searches = [WireCall("search_1", "google_search", {"queries": queries}, "provider", found)]
    counts = as_map(body.get("usageMetadata"))
    usage, priced_apart = read_usage(FORMAT, counts, _TIERS.get(as_text(counts.get("trafficType")), ""))
    return ReplyParts(
        text_of(parts, ""),
        [*searches, *_calls(parts)],
        usage,
        "content_filter" if blocked or reason in _FILTERED else reason.lower(),
        reasoning="".join(thoughts),
        model=as_text(body.get("modelVersion")),
        id=as_text(body.get("responseId")),
        priced_apart=priced_apart,
    )


def join(events: Iterable[Json]) -> Json:
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {"finishReason": "incomplete"}
    parts: list[Json] = []
    for event in events:
        whole.update(rest_of(event, "candidates"))
        for piece in maps_in(event.get("candidates")):
            if not as_count(piece.get("index")):
                candidate.update(rest_of(piece, "content"))
                parts += _parts(piece.get("content"))
                whole["candidates"] = [candidate]
    joined: list[Json] = []
    # Texts that follow each other are pieces of one text; thoughts are a text of their own.
    for (is_text, _), group in groupby(parts, _kind_of_text):
        pieces = list(group)
        if is_text:
            pieces = [{**pieces[0], "text": "".join(as_text(piece.get("text")) for piece in pieces)}]
        joined += pieces
    candidate["content"] = {"parts": joined}
    return whole


def _kind_of_text(part: Json) -> tuple[bool, Any]:
    return part.keys() <= {"text", "thought"}, part.get("thought")

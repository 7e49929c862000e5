"""OpenAI's responses, written: the API of models that think before they call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.openai_responses import kind_of
from pytest_agenteval.cassettes.wire.traffic import Json, UnreadableTraffic, as_map, maps_in
from pytest_agenteval.chat.direct.further_settings import for_responses
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.openai_items import echo_in, instructions_of, items_of
from pytest_agenteval.chat.direct.openai_replies import in_our_words
from pytest_agenteval.chat.direct.openai_settings import (
    RESPONSES_PREFIX,
    SUMMARY_WISHES,
    chat_settings,
    known_abilities,
    summary_wish,
    takes_schema,
    takes_tools,
    with_known_role,
)
from pytest_agenteval.chat.direct.openai_tools import accepted_tool
from pytest_agenteval.chat.litellm_codec import response_format, tool_choice

FORMAT = "openai.responses"
PATH = "/responses"

_FEWEST_TOKENS = 16
"""The API takes no lower limit of a reply's tokens."""
_TAKEN = ("temperature", "top_p")
_WITHOUT_UNIONS = ("gpt-4", "gpt-3.5", "chatgpt-4o", "o1", "o3", "o4")
"""Families whose tools may not be a union of several objects."""
_SEALED_THOUGHTS = "reasoning.encrypted_content"


def body_of(ask: ModelAsk) -> dict[str, Any]:
    """Write the request's body; nothing of ``ask`` is written into."""
    model = ask.model.removeprefix(RESPONSES_PREFIX)
    messages: Sequence[Mapping[str, Any]] = [with_known_role(message, ask) for message in ask.messages]
    instructions, rest = instructions_of(messages) if _may_be_cut(ask) else ("", messages)
    items = [item for message in rest for item in items_of(message, ask.echoes)]
    body = {"model": model, "input": items, **_settings(ask), **_tools(ask, model)}
    if instructions:
        body["instructions"] = instructions
    if ask.response_schema is not None and takes_schema(ask):
        named = response_format(ask.response_schema)["json_schema"]
        body["text"] = {"format": {"type": "json_schema", **named}}
    if ask.streamed and known_abilities(ask).get("supports_native_streaming") is not False:
        body["stream"] = True
    return {**body, **for_responses(body, ask.further), **_extra(ask)}


def echo_of(whole: Json) -> Any:
    """Give the items of a whole reply whose thoughts led to its calls, or None."""
    return echo_in(maps_in(whole.get("output")))


def reply_of(parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
    """Give a reply in the words of what was asked; raises UnreadableTraffic where nothing was said."""
    reply = in_our_words(parts)
    spoke = reply.content or reply.calls or any(kind_of(item) == "message" for item in reply.items.values())
    if reply.finish == "stop" and not spoke:
        raise UnreadableTraffic("the reply holds neither a message nor a call")
    return reply


def _may_be_cut(ask: ModelAsk) -> bool:
    """Whether the provider leaves out of a conversation what is oldest, or goes on with one that it holds."""
    extra = ask.extra_body
    return bool(extra.get("previous_response_id")) or extra.get("truncation") == "auto"


def _settings(ask: ModelAsk) -> dict[str, Any]:
    """Give the settings that the model takes, in the API's words; it has none for a seed."""
    settings = chat_settings(ask)
    written = {name: settings[name] for name in _TAKEN if name in settings}
    most = settings.get("max_completion_tokens", settings.get("max_tokens"))
    if most is not None:
        written["max_output_tokens"] = max(most, _FEWEST_TOKENS)
    if thinking := _thinking(ask, settings.get("reasoning_effort")):
        written["reasoning"] = thinking
    return written


def _thinking(ask: ModelAsk, effort: Any) -> dict[str, Any]:
    """Give how much a model is to think, and whether it is to tell of it."""
    if known_abilities(ask) and not ask.abilities.get("supports_reasoning"):
        return {}
    wanted = dict(effort) if isinstance(effort, Mapping) else {} if effort is None else {"effort": effort}
    summary = summary_wish(ask)
    return wanted if summary is None else {"summary": summary, **wanted}


def _tools(ask: ModelAsk, model: str) -> dict[str, Any]:
    """Give the tools, and of a model that reasons its thoughts, sealed, to go back with their results."""
    if not ask.tools or not takes_tools(ask):
        return {}
    flat = model.rpartition("/")[2].removeprefix("ft:").startswith(_WITHOUT_UNIONS)
    written: dict[str, Any] = {"tools": [_tool(accepted_tool(tool, flat=flat)) for tool in ask.tools]}
    choice = tool_choice(chat_settings(ask).get("tool_choice"))
    if choice is not None:
        name = as_map(as_map(choice).get("function")).get("name")
        written["tool_choice"] = {"type": "function", "name": name} if name else choice
    if ask.own_host and known_abilities(ask).get("supports_reasoning"):
        written["include"] = [_SEALED_THOUGHTS]
    return written


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if not (function := as_map(tool.get("function"))):
        return dict(tool)
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", **{name: function.get(name) for name in names}}


def _extra(ask: ModelAsk) -> dict[str, Any]:
    """Give what lies over the body; how much to think has another name here."""
    extra = {name: value for name, value in ask.extra_body.items() if name not in SUMMARY_WISHES}
    if (effort := extra.pop("reasoning_effort", None)) is not None:
        extra["reasoning"] = _thinking(ask, effort)
    return extra

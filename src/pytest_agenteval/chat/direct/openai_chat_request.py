"""Requests to OpenAI's chat completions, which most servers accept, with the settings of the GPT-5 family."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import Json, as_map, maps_in
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.text.json_values import compact_json

FORMAT = "openai.chat"
PATH = "/chat/completions"

# Settings in ``extra_body`` for a summary of the reasoning, which only the responses API has.
_SUMMARY_SETTINGS = ("reasoning_summary", "reasoningSummary")
# Servers that forward to other providers put signed thoughts into these fields. They have to go back.
_SIGNED_THOUGHTS = ("thinking_blocks", "reasoning_details")
# Keys that OpenAI refuses at the top of a tool's schema: litellm merges the branches of unions.
_REFUSED_AT_TOP = frozenset({"allOf", "anyOf", "oneOf", "enum", "const", "not"})
_GPT_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?=[.-]|$)")
_O_SERIES = re.compile(r"o\d")


def plain_copy(value: Any) -> Any:
    """Give a plain copy, since litellm writes into its arguments; lone surrogates become question marks."""
    return json.loads(compact_json(value).encode("utf-8", "replace"))


def tool_choice(choice: Any) -> Any:
    """Give the name of a tool as the choice of that tool; OpenAI's own words and maps stay as they are."""
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a schema as the response format; strict if it fulfils the providers' rules for that."""
    named = {"name": "reply", "schema": plain_copy(schema), "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": named}


def _is_strict(schema: Any) -> bool:
    """Whether every object of a schema requires all its keys and allows no others."""
    if isinstance(schema, list | tuple):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        keys = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != keys:
            return False
    return all(map(_is_strict, schema.values()))


def needs_litellm(ask: ModelAsk) -> bool:
    """Whether an ask needs the responses API, or to be written anew for the model."""
    results = (message.get("content") for message in ask.messages if message.get("role") == "tool")
    # Chat completions take text as a tool's result: pictures have to move into a message of their own.
    if any(isinstance(content, list | tuple) and not _is_text(content) for content in results):
        return True
    if not ask.has_family:
        return False
    of_openai = ask.abilities.get("litellm_provider") == "openai"
    name = ask.model.rpartition("/")[2]
    if of_openai and (ask.abilities.get("mode") == "responses" or _O_SERIES.match(name)):
        return True
    if _is_gpt_5(ask):
        effort, version = ask.settings.get("reasoning_effort"), _GPT_VERSION.match(name)
        summary = any(name in ask.extra_body for name in _SUMMARY_SETTINGS)
        if "search" in name or summary or isinstance(effort, Mapping):
            return True
        # From 5.4 on, chat completions refuse functions for a model that thinks.
        thinks = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 4)
        if ask.tools and thinks and (effort is not None or ask.own_host):
            return True
    # OpenAI refuses patterns that Python cannot compile.
    return ask.own_host and any(
        _REFUSED_AT_TOP & parameters.keys() or '"pattern"' in compact_json(parameters)
        for parameters in (as_map(as_map(tool.get("function")).get("parameters")) for tool in ask.tools)
    )


def _is_text(parts: Any) -> bool:
    return all(as_map(part).get("type") == "text" for part in parts)


def _is_gpt_5(ask: ModelAsk) -> bool:
    """Whether a model is of the GPT-5 or GPT-6 families, except models for chatting only."""
    named = "gpt-5" in ask.model or "gpt-6" in ask.model
    return ask.has_family and named and "gpt-5-chat" not in ask.model


def body_of(ask: ModelAsk) -> dict[str, Any]:
    messages = [_message(message, ask.echoes) for message in ask.messages]
    body = {"model": ask.model, "messages": messages, **_settings(ask)}
    if ask.tools:
        body["tools"] = list(ask.tools)
    if ask.response_schema is not None:
        body["response_format"] = response_format(ask.response_schema)
    if ask.streamed:
        body["stream"] = True
        if ask.counts_streamed:
            body["stream_options"] = {"include_usage": True}
    return {**body, **ask.extra_body}


def headers_of(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def account_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the headers with organization and project, which are for OpenAI's own host only."""
    named = {
        "OpenAI-Organization": environ.get("OPENAI_ORGANIZATION") or environ.get("OPENAI_ORG_ID"),
        "OpenAI-Project": environ.get("OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in named.items() if value}


def echo_of(whole: Json) -> Any:
    """Give the signed thoughts of a whole reply, or None."""
    for choice in maps_in(whole.get("choices"))[:1]:
        message = as_map(choice.get("message"))
        if any(map(message.get, _SIGNED_THOUGHTS)):
            return {name: message[name] for name in _SIGNED_THOUGHTS if message.get(name)}
    return None


def _message(message: Mapping[str, Any], echoes: Mapping[str, Any]) -> Mapping[str, Any]:
    if message.get("role") == "developer":  # only the o-series knows this role
        message = {**message, "role": "system"}
    if calls := message.get("tool_calls"):
        message = {**message, **(echoes.get(calls[0].get("id")) or {})}
    if None in message.values():
        return {name: value for name, value in message.items() if value is not None}
    return message


def _settings(ask: ModelAsk) -> dict[str, Any]:
    """Give the settings that the model accepts, by their names in chat completions."""
    settings = dict(ask.settings)
    if not ask.tools:
        settings.pop("tool_choice", None)
    if "tool_choice" in settings:
        settings["tool_choice"] = tool_choice(settings["tool_choice"])
    if _is_gpt_5(ask):
        return _gpt_5_settings(ask, settings)
    # For a model that the table lacks the server decides whether it takes an effort.
    if ask.own_host and ask.abilities.get("litellm_provider") == "openai":
        settings.pop("reasoning_effort", None)
    return settings


def _gpt_5_settings(ask: ModelAsk, settings: dict[str, Any]) -> dict[str, Any]:
    effort = settings.get("reasoning_effort")
    supported = ask.abilities.get(f"supports_{effort}_reasoning_effort")
    # Few models take ``xhigh``; about ``max`` the table says nothing that holds for this API.
    if (supported is False and effort != "max") or (effort == "xhigh" and supported is not True):
        settings.pop("reasoning_effort", None)
    if ask.abilities and not ask.abilities.get("supports_tool_choice"):
        settings.pop("tool_choice", None)
    if "max_tokens" in settings:
        # Models that reason refuse max_tokens and expect the limit under this name.
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    # They take a temperature only with the effort none.
    effort = settings.get("reasoning_effort") or ask.abilities.get("default_reasoning_effort")
    if not (ask.abilities.get("supports_none_reasoning_effort") and effort == "none"):
        settings.pop("top_p", None)
        if settings.get("temperature") != 1:
            settings.pop("temperature", None)
    return settings

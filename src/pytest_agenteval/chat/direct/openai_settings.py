"""What OpenAI's families of models take of the settings of an ask, and which of its two APIs serves it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.chat.direct.model_request import ModelAsk

RESPONSES_PREFIX = "responses/"
SUMMARY_WISHES = ("reasoning_summary", "reasoningSummary")
"""Names under which ``extra_body`` asks for a summary of the thoughts, which only responses give."""

_GPT_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?=[.-]|$)")
_RESPONSES_FOR_CALLS = (5, 4)
"""From this version on, chat completions refuse functions while the model thinks."""
_FOR_SOME = ("xhigh",)
"""Efforts that a model takes only where the table says so."""
_ASKED_ANYWAY = ("max",)
"""Efforts that the table cannot tell of: one API takes them, the other does not."""

_OF_SEARCH = ("max_completion_tokens", "reasoning_effort")


def wants_responses(ask: ModelAsk, provider: str) -> bool:
    """Whether this ask of a provider's model goes to the responses, in place of chat completions."""
    if provider != "openai":
        return False
    if ask.model.startswith(RESPONSES_PREFIX) or known_abilities(ask).get("mode") == "responses":
        return True
    if not is_gpt_5(ask) or _is_search(ask):
        return False
    effort = ask.settings.get("reasoning_effort")
    summarised = effort is not None and summary_wish(ask) is not None
    return summarised or (_thinks_before_calls(ask, effort) and (effort is not None or ask.own_host))


def _thinks_before_calls(ask: ModelAsk, effort: Any) -> bool:
    """Whether a model is given functions that it would call only after thinking."""
    if not ask.tools or not _is_since(ask.model, _RESPONSES_FOR_CALLS):
        return False
    summary = effort.get("summary") if isinstance(effort, Mapping) else None
    return _level(effort) != "none" or summary is not None or _refuses(ask, "none")


def chat_settings(ask: ModelAsk) -> dict[str, Any]:
    """Give of an ask's settings those that its model takes, in the words of chat completions."""
    settings = {name: value for name, value in ask.settings.items() if value is not None}
    if not _takes_effort(ask):
        settings.pop("reasoning_effort", None)
    if not ask.tools or (is_gpt_5(ask) and ask.abilities and not ask.abilities.get("supports_tool_choice")):
        settings.pop("tool_choice", None)
    if reasons(ask) and "max_tokens" in settings:
        settings["max_completion_tokens"] = settings.pop("max_tokens")
    if _is_search(ask):
        return {name: settings[name] for name in _OF_SEARCH if name in settings}
    if reasons(ask) and not _samples(ask, settings.get("reasoning_effort")):
        settings.pop("top_p", None)
        if settings.get("temperature") != 1:
            settings.pop("temperature", None)
    return settings


def reasons(ask: ModelAsk) -> bool:
    """Whether a model is of a family that thinks before it answers, with settings of its own."""
    return is_gpt_5(ask) or _is_o_series(ask)


def is_gpt_5(ask: ModelAsk) -> bool:
    """Whether a model is of the GPT-5 or GPT-6 families; those for chatting only are not."""
    named = any(family in ask.model for family in ("gpt-5", "gpt-6"))
    return ask.has_family and named and "gpt-5-chat" not in _bare(ask.model)


def takes_tools(ask: ModelAsk) -> bool:
    """Whether a model can be given tools: one that searches by itself cannot."""
    return not _is_search(ask)


def with_known_role(message: Mapping[str, Any], ask: ModelAsk) -> Mapping[str, Any]:
    """Give a message in a role that its model knows: only the o-series knows developers."""
    if message.get("role") == "developer" and not _is_o_series(ask):
        return {**message, "role": "system"}
    return message


def takes_system(ask: ModelAsk) -> bool:
    """Whether chat completions give a model instructions as such: to the o-series where the table says so."""
    return not _is_o_series(ask) or bool(ask.abilities.get("supports_system_messages"))


def takes_schema(ask: ModelAsk) -> bool:
    """Whether a model takes the schema of its answer: the first of its time do not."""
    return not ask.has_family or ask.model not in ("gpt-4", "gpt-3.5-turbo-16k")


def known_abilities(ask: ModelAsk) -> Mapping[str, Any]:
    """Give what the table says of a model of OpenAI's; nothing of one that it does not know as such."""
    return ask.abilities if ask.abilities.get("litellm_provider") == "openai" else {}


def summary_wish(ask: ModelAsk) -> Any:
    """Give what ``extra_body`` says of a summary of the thoughts, or None."""
    return next((ask.extra_body[name] for name in SUMMARY_WISHES if name in ask.extra_body), None)


def account_headers(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the headers that name organization and project, which are for OpenAI's own host only."""
    named = {
        "OpenAI-Organization": environ.get("OPENAI_ORGANIZATION") or environ.get("OPENAI_ORG_ID"),
        "OpenAI-Project": environ.get("OPENAI_PROJECT_ID"),
    }
    return {name: value for name, value in named.items() if value}


def _takes_effort(ask: ModelAsk) -> bool:
    """Whether a model is told how much to think; of one that nobody knows the server decides."""
    if _is_search(ask):
        return not ask.own_host
    if is_gpt_5(ask):
        return not _refuses(ask, _level(ask.settings.get("reasoning_effort")))
    return _is_o_series(ask) or not ask.own_host or not known_abilities(ask)


def _refuses(ask: ModelAsk, level: str) -> bool:
    if level in _ASKED_ANYWAY:
        return False
    said = ask.abilities.get(f"supports_{level}_reasoning_effort")
    return said is not True if level in _FOR_SOME else said is False


def _samples(ask: ModelAsk, effort: Any) -> bool:
    """Whether a model takes a temperature: one that reasons does where it is not to."""
    if _is_o_series(ask) or not ask.abilities.get("supports_none_reasoning_effort"):
        return False
    return (_level(effort) or ask.abilities.get("default_reasoning_effort")) == "none"


def _level(effort: Any) -> str:
    return str((effort.get("effort") if isinstance(effort, Mapping) else effort) or "")


def _is_search(ask: ModelAsk) -> bool:
    return ask.has_family and "gpt-5" in ask.model and "search" in ask.model


def _is_o_series(ask: ModelAsk) -> bool:
    name = _bare(ask.model)
    return name[:1] == "o" and name[1:2].isdigit() and bool(known_abilities(ask))


def _is_since(model: str, version: tuple[int, int]) -> bool:
    found = _GPT_VERSION.match(_bare(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) >= version


def _bare(model: str) -> str:
    return model.rpartition("/")[2]

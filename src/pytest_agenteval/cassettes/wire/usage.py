"""Usage of a reply: what a provider says that it read and wrote, in the words of each API.

``read_usage`` reads it in every response, to requests of ours and to those of agents, in what litellm makes
of one, and in what agents return. ``store/record_files.py`` reads our own journals.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.records.replies import UNKNOWN, PricedApart, credible_usage
from pytest_agenteval.records.transcript import Usage


class CountNames(NamedTuple):
    """Where an API counts the tokens of a reply: keys, with a dot before one of a map within.

    ``details[KIND]`` is the sum of one kind's counts in a list of maps. Tokens of ``input`` are added up, and
    unknown without the first. Of ``cached`` the highest count holds. ``zero_is_absent``: the API leaves
    out a count of 0.
    """

    input: tuple[str, ...]
    output: str
    cached: tuple[str, ...] = ()
    reasoning: str = ""
    total: str = ""
    cost: str = ""
    cache_writes: str = ""
    hour_writes: str = ""
    audio_input: str = ""
    audio_cached: str = ""
    audio_output: str = ""
    zero_is_absent: bool = False


COUNT_NAMES: Mapping[str, CountNames] = {
    "openai.chat": CountNames(
        ("prompt_tokens",),
        "completion_tokens",
        # The second is DeepSeek's word, the third Moonshot's, the last LiteLLM's for Anthropic's models.
        (
            "prompt_tokens_details.cached_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
            "cache_read_input_tokens",
        ),
        "completion_tokens_details.reasoning_tokens",
        total="total_tokens",
        cost="cost",
        cache_writes="prompt_tokens_details.cache_write_tokens",
        audio_input="prompt_tokens_details.audio_tokens",
        audio_output="completion_tokens_details.audio_tokens",
    ),
    "openai.responses": CountNames(
        ("input_tokens",),
        "output_tokens",
        ("input_tokens_details.cached_tokens",),
        "output_tokens_details.reasoning_tokens",
        cost="cost",
        cache_writes="input_tokens_details.cache_write_tokens",
        audio_input="input_tokens_details.audio_tokens",
        audio_output="output_tokens_details.audio_tokens",
    ),
    "anthropic.messages": CountNames(
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        "output_tokens",
        ("cache_read_input_tokens",),
        "output_tokens_details.thinking_tokens",
        cache_writes="cache_creation_input_tokens",
        hour_writes="cache_creation.ephemeral_1h_input_tokens",
    ),
    "bedrock.converse": CountNames(
        ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        "outputTokens",
        ("cacheReadInputTokens",),
        cache_writes="cacheWriteInputTokens",
        hour_writes="cacheDetails[1h]",
    ),
    "gemini": CountNames(
        ("promptTokenCount", "toolUsePromptTokenCount"),
        "candidatesTokenCount",
        ("cachedContentTokenCount",),
        "thoughtsTokenCount",
        total="totalTokenCount",
        audio_input="promptTokensDetails[AUDIO]",
        audio_cached="cacheTokensDetails[AUDIO]",
        audio_output="candidatesTokensDetails[AUDIO]",
        zero_is_absent=True,
    ),
    "ollama.chat": CountNames(("prompt_eval_count",), "eval_count"),
    # No wire format, but what LangChain makes of each: an agent may return it.
    "langchain": CountNames(
        ("input_tokens",),
        "output_tokens",
        ("input_token_details.cache_read",),
        "output_token_details.reasoning",
    ),
}
MOST_OF_ANY = 10**18  # what is no count at all

# Keys that only one of these has. ``prompt_tokens`` comes first: LiteLLM writes Anthropic's keys beside it,
# for tokens that it has counted already.
_FORMAT_BY_KEY = {
    "prompt_tokens": "openai.chat",
    "completion_tokens": "openai.chat",
    "cache_read_input_tokens": "anthropic.messages",
    "cache_creation_input_tokens": "anthropic.messages",
    "input_token_details": "langchain",
    "output_token_details": "langchain",
    "inputTokens": "bedrock.converse",
    "promptTokenCount": "gemini",
    "prompt_eval_count": "ollama.chat",
}


def usage_format(usage: Json) -> str:
    """Give the format in whose words a usage is written, as far as its keys show."""
    return next((format for key, format in _FORMAT_BY_KEY.items() if key in usage), "openai.responses")


def read_usage(format: str, usage: Json, service_tier: object = "") -> tuple[Usage, PricedApart]:
    """Read what a reply took, and those of its tokens that have prices of their own.

    Counts that are missing are None. Where one count cannot be true, all are None.
    """
    names = COUNT_NAMES[format]
    if names.zero_is_absent and not usage:
        return UNKNOWN, PricedApart()
    counts = _counts(usage, names)
    if names.zero_is_absent:
        counts = {name: count or 0 for name, count in counts.items()}
    read, written, thought = counts[names.input[0]], counts[names.output], counts.get(names.reasoning)
    if read is not None:
        for name in names.input[1:]:
            read += counts[name] or 0
    total, both = counts.get(names.total) or 0, (read or 0) + (written or 0)
    # xAI, and some of Gemini's models, count thoughts apart from the output: only the total shows that.
    if names.total and thought and (total != both if names.zero_is_absent else total == both + thought):
        written = (written or 0) + thought
    from_cache = None
    for name in names.cached:
        count = counts[name]
        from_cache = count if from_cache is None or (count or 0) > from_cache else from_cache
    cost = usage.get(names.cost) if names.cost else None
    # Perplexity gives a map. Most of its cost is that of searches, which no count of tokens shows.
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    usd = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None
    # Cached audio is counted, and paid for, as cached tokens.
    audio = (counts.get(names.audio_input) or 0) - (counts.get(names.audio_cached) or 0)
    priced_apart = PricedApart(
        counts.get(names.cache_writes) or 0,
        counts.get(names.hour_writes) or 0,
        max(0, audio) if names.audio_cached else audio,
        counts.get(names.audio_output) or 0,
        service_tier if isinstance(service_tier, str) else "",
    )
    usage_of_reply = Usage(read, written, from_cache, thought, usd, asks=1, attempts=1)
    return credible_usage(usage_of_reply), priced_apart


def _counts(usage: Json, names: CountNames) -> dict[str, int | None]:
    """Read every count of an API by its name, in one loop: each reply of a model comes by here."""
    counts: dict[str, int | None] = {}
    for name, keys, kind in _places(names):
        value: Any = usage
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if kind:
            details = [it for it in value if isinstance(it, dict)] if isinstance(value, list) else []
            of_kind = (it for it in details if kind in (it.get("modality"), it.get("ttl")))
            value = sum(as_count(it.get("tokenCount", it.get("inputTokens"))) for it in of_kind)
        is_plain = value is None or (type(value) is int and abs(value) < MOST_OF_ANY)
        counts[name] = value if is_plain else as_count(value)
    return counts


@cache
def _places(names: CountNames) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """Give each name of a count, with the keys that lead to it and the kind of which it is the sum."""
    single = (names.output, names.reasoning, names.total, names.cache_writes, names.hour_writes)
    audio = (names.audio_input, names.audio_cached, names.audio_output)
    places = []
    for name in filter(None, (*names.input, *names.cached, *single, *audio)):
        path, _, kind = name.rstrip("]").partition("[")
        places.append((name, tuple(path.split(".")), kind))
    return tuple(places)


def as_count(value: Any) -> int:
    """Give a whole number, or 0; a float that is whole is one, and so are digits as a text."""
    # Longer numbers are no counts, and Python raises for texts of thousands of digits.
    if isinstance(value, str) and value.isdecimal() and len(value) <= 18:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    # NaN is the one value that is not equal to itself.
    return int(value) if value == value and abs(value) < MOST_OF_ANY else 0

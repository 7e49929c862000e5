"""How a real model is asked: directly where that says the same, else by litellm."""

from __future__ import annotations

from pytest_agenteval.chat.local.loading import LOADED_BY, provider_of
from pytest_agenteval.records.plan import Model, Via

DIRECT: Via = "direct"
LITELLM: Via = "litellm"
WAYS = (DIRECT, LITELLM)

DIRECT_PROVIDERS = ("openai", "anthropic", "hosted_vllm")
"""How the ids of models begin that can be asked directly."""
SENT = ("temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "extra_body")
"""Settings that a direct request writes down."""
_OBEYED = frozenset({"api_base", "request_seconds", "stream", *SENT, *LOADED_BY})


def via_of(model: Model) -> Via:
    """Give how a model is asked unless somebody says; empty for one that is not asked over HTTP."""
    if model.offline or provider_of(model.id) == "hf" or "/" not in model.id:
        return ""
    return LITELLM if undirected(model) or _is_new_to_table(model) else DIRECT


def undirected(model: Model) -> str:
    """Say why a model cannot be asked directly; empty where it can."""
    if model.id.partition("/")[0] not in DIRECT_PROVIDERS and provider_of(model.id) != "vllm":
        known = ", ".join(f"{name}/" for name in DIRECT_PROVIDERS)
        return f"expected a model that begins with {known}; found {model.id}"
    unknown = sorted(set(model.params) - _OBEYED)
    return f"params.{unknown[0]} is a parameter that only litellm knows" if unknown else ""


def _is_new_to_table(model: Model) -> bool:
    """Whether nobody says what a model of Anthropic's can: litellm guesses that from its name."""
    if not model.id.startswith("anthropic/"):
        return False
    from pytest_agenteval.chat.price_table import entry_of

    return entry_of(model.id) is None


def way_note(model: Model) -> str:
    """Say how a model is asked, in words: ``direct``, ``via litellm``, or nothing."""
    return f"via {model.via}" if model.via == LITELLM else model.via

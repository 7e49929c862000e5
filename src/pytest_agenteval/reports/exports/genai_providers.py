"""Who serves a model, in the words of OpenTelemetry's ``gen_ai.provider.name``."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_agenteval.store.run_metadata import RunModel

PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""What litellm calls a provider and the conventions otherwise; all others have one name with both."""

FAMILIES: Mapping[str, str] = {"gpt-": "openai", "o1": "openai", "o3": "openai", "claude": "anthropic"}
"""How ids begin that litellm takes without a provider before them."""


def provider_name(model: RunModel) -> str:
    """Give who serves a model, as far as its id tells: else ``litellm``, which asks it.

    An offline model is served by ``agenteval``.
    """
    if model.offline:
        return "agenteval"
    prefix, slash, _ = model.id.partition("/")
    if slash:
        return PROVIDERS.get(prefix, prefix)
    return next((name for start, name in FAMILIES.items() if model.id.startswith(start)), "litellm")

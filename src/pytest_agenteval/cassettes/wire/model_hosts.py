"""Which hosts are known to serve models."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit

KNOWN = (
    "api.openai.com",
    "*.api.openai.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com",
    "*.models.ai.azure.com",
    "models.inference.ai.azure.com",
    "models.github.ai",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "*aiplatform.googleapis.com",
    "bedrock-runtime*.amazonaws.com",
    "bedrock-mantle*.amazonaws.com",
    "openrouter.ai",
    "api.groq.com",
    "api.mistral.ai",
    "codestral.mistral.ai",
    "api.deepseek.com",
    "api.x.ai",
    "api.together.xyz",
    "api.together.ai",
    "api.fireworks.ai",
    "api.cohere.com",
    "api.cohere.ai",
    "api.perplexity.ai",
    "api.cerebras.ai",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "dashscope*.aliyuncs.com",
    "api.z.ai",
    "open.bigmodel.cn",
    "api.minimax.io",
    "router.huggingface.co",
    "api-inference.huggingface.co",
    "integrate.api.nvidia.com",
    "api.sambanova.ai",
    "api.deepinfra.com",
    "api.studio.nebius.ai",
    "api.hyperbolic.xyz",
    "api.replicate.com",
    "api.ai21.com",
    "gateway.ai.cloudflare.com",
    "ai-gateway.vercel.sh",
    "localhost:11434",
    "127.0.0.1:11434",
)
"""Hosts of model APIs; one with a port is known at that port alone (Ollama's)."""


def is_known(address: SplitResult) -> bool:
    """Whether models are known to be served at an address."""
    host, port = _place(address)
    return any(fnmatchcase(f"{host}:{port}" if ":" in known else host, known) for known in KNOWN)


def is_named(address: SplitResult, hosts: Collection[str]) -> bool:
    """Whether an address is one of those that a user names: hosts, with a port or not, or base URLs."""
    return any(_is_below(address, named) for named in hosts)


def _is_below(address: SplitResult, named: str) -> bool:
    base = urlsplit(named if "://" in named else f"//{named}")
    host, port = _place(address)
    named_host, named_port = _place(base) if base.scheme else (base.hostname or "", _port(base))
    same_host = fnmatchcase(host, named_host) and named_port in (None, port)
    below = f"{address.path}/".startswith(f"{base.path.rstrip('/')}/")
    return same_host and below


def _place(address: SplitResult) -> tuple[str, int | None]:
    port = _port(address)
    return address.hostname or "", port or {"http": 80, "https": 443}.get(address.scheme)


def _port(address: SplitResult) -> int | None:
    try:
        return address.port
    except ValueError:
        return None

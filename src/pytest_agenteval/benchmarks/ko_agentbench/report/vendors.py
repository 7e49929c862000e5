"""Who makes a model, and whether its weights are published, guessed from its id."""

from __future__ import annotations

API, OPEN, UNKNOWN = "API", "OSS", "Unknown"

VENDORS: tuple[tuple[str, str, str], ...] = (
    ("gpt-oss", "OpenAI", OPEN),
    ("gpt", "OpenAI", API),
    ("claude", "Anthropic", API),
    ("gemini", "Google", API),
    ("gemma", "Google", OPEN),
    ("nova-", "Amazon", API),
    ("grok", "xAI", API),
    ("qwen", "Alibaba", OPEN),
    ("deepseek", "DeepSeek", OPEN),
    ("glm", "Z.ai", OPEN),
    ("llama", "Meta", OPEN),
    ("devstral", "Mistral", OPEN),
    ("mistral", "Mistral", OPEN),
    ("kimi", "Moonshot AI", OPEN),
    ("kanana", "Kakao", OPEN),
    ("a.x-", "SKT", OPEN),
    ("midm", "KT", OPEN),
    ("exaone", "LG AI Research", OPEN),
    ("hyperclova", "Naver", OPEN),
    ("solar", "Upstage", OPEN),
)
"""A part of a model's id, its vendor, and how the model can be had; the first that is found decides."""


def vendor_of(model: str) -> tuple[str, str]:
    """Give a model's vendor, and ``API`` or ``OSS``; ``Unknown`` twice for an id that tells nothing.

    Only what comes after the last provider prefix is looked at: ``azure/gpt-4o`` is not Microsoft's.
    """
    name = model.rpartition("/")[2].lower()
    return next(((vendor, kind) for part, vendor, kind in VENDORS if part in name), (UNKNOWN, UNKNOWN))

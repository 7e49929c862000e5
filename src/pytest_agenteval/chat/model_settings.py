"""What a table of ``[tool.agenteval.models]`` may say of a model, and how each value has to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pytest_agenteval.chat.local.loading import DTYPES, LOADED_BY, QUANTIZATIONS, provider_of
from pytest_agenteval.chat.via import WAYS
from pytest_agenteval.records.plan import Model

REQUEST_SECONDS = 120.0
"""How long one request may take, unless a model's table says."""
REQUEST_GRACE_S = 1.0
"""By how much longer whoever waits for a request waits."""

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")

Setting: TypeAlias = tuple[str, Callable[[object], bool]]
"""What is expected, in words, and whether a value is that."""


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _above_0(value: object) -> bool:
    return _number(value) and value != 0


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and _above_0(value)


def _named_values(value: object) -> bool:
    return isinstance(value, Mapping)


def _share(value: object) -> bool:
    return isinstance(value, int | float) and _above_0(value) and value <= 1


def is_device(value: object) -> bool:
    """Whether a value is torch's name of a device, or leaves it to torch."""
    return isinstance(value, str) and DEVICE.fullmatch(value) is not None


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_text, value))


SETTINGS: Mapping[str, Setting] = {
    "id": ("a litellm id, hf/NAME or vllm/NAME", _text),
    "api_base": ("an address", _text),
    "api_key_env": ("the name of an environment variable", _text),
    "via": (" or ".join(WAYS), lambda value: value in WAYS),
    "temperature": ("a number, 0 or more", _number),
    "top_p": ("a number, 0 or more", _number),
    "seed": ("a whole number", _whole),
    "max_tokens": ("a whole number, 1 or more", _count),
    "reasoning_effort": ("the provider's word, such as low, medium or high", _text),
    "request_seconds": ("a number of seconds above 0", _above_0),
    "stream": ("true or false", _flag),
    "extra_body": ("a table that is sent with each request as it is", _named_values),
    "params": ("a table with parameters for litellm", _named_values),
    "device": ("auto, cpu, cuda, cuda:N or mps", is_device),
    "dtype": (f"one of {', '.join(DTYPES)}", _text),
    "quantization": (f"{' or '.join(QUANTIZATIONS)}; of a vllm model also vLLM's own word", _text),
    "max_model_len": ("a whole number of tokens, 1 or more", _count),
    "tensor_parallel_size": ("a whole number of GPUs, 1 or more", _count),
    "gpu_memory_utilization": ("a share above 0, 1 at most", _share),
    "tool_call_parser": ("the name of one of vLLM's parsers", _text),
    "reasoning_parser": ("the name of one of vLLM's parsers", _text),
    "serve_args": ("a list of further arguments of vllm serve", _texts),
    "start_seconds": ("a number of seconds above 0", _above_0),
    "requests_at_once": ("a whole number, 1 or more", _count),
    "requests_at_start": ("a whole number, 1 or more", _count),
    "requests_per_minute": ("a whole number, 1 or more", _count),
    "tokens_per_minute": ("a whole number, 1 or more", _count),
    "patience_seconds": ("a number of seconds above 0", _above_0),
}

RATES: Mapping[str, str] = {
    "requests_at_once": "at_once",
    "requests_at_start": "at_start",
    "requests_per_minute": "requests_per_minute",
    "tokens_per_minute": "tokens_per_minute",
    "patience_seconds": "patience_s",
}
"""What says how much a model is asked, and of whom it says that; no part of what the model is."""

IN_BOTH_PLACES = frozenset({"reasoning_effort", "extra_body"})
"""What may stand below ``params`` too, where it stood before it was a setting of ours."""


def misplaced(model: Model) -> str:
    """Say which setting nobody obeys, such as those of loading a model that is asked elsewhere."""
    provider = provider_of(model.id)
    for name in model.params:
        if name in LOADED_BY and provider not in LOADED_BY[name]:
            whose = " and ".join(f"{one}/" for one in LOADED_BY[name])
            return f"{name}: expected a model that begins with {whose}; found {model.id}"
    return _unloadable(model) if provider == "hf" else ""


def _unloadable(model: Model) -> str:
    expected: Mapping[str, tuple[str, ...]] = {"dtype": DTYPES, "quantization": QUANTIZATIONS}
    for name, words in expected.items():
        value: Any = model.params.get(name, words[0])
        if value not in words:
            return f"{name}: expected one of {', '.join(words)}; found {value!r}"
    return ""

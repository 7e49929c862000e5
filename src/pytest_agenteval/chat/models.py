"""Turns the names that users type into models: aliases with their settings, offline models, litellm ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import DTYPES, LOADED_BY, QUANTIZATIONS, provider_of
from pytest_agenteval.records.plan import OWN_MODEL, Model, Via
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.text.errors import UsageMistake, did_you_mean, nearest_names
from pytest_agenteval.text.json_values import compact_json

DIRECT: Via = "direct"
LITELLM: Via = "litellm"
TRANSPORTS = (DIRECT, LITELLM)

# Prefixes of the ids of models that can be called directly.
DIRECT_PROVIDERS = ("openai", "anthropic", "hosted_vllm")
# Settings that a direct request can hold.
DIRECT_SETTINGS = ("temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "extra_body")
_DIRECT_PARAMS = frozenset({"api_base", "request_seconds", "stream", *DIRECT_SETTINGS, *LOADED_BY})


def usual_transport(model: Model) -> Via:
    """Give the transport of a model that names none; empty for one that is not reached over HTTP."""
    if model.offline or provider_of(model.id) == "hf" or "/" not in model.id:
        return ""
    if direct_problem(model):
        return LITELLM
    if model.id.startswith("anthropic/"):
        from pytest_agenteval.chat.model_prices import price_entry

        # litellm guesses the abilities of a model that the table lacks from its name.
        return LITELLM if price_entry(model.id) is None else DIRECT
    return DIRECT


def direct_problem(model: Model) -> str:
    """Give the reason why a model cannot be reached directly; empty where it can."""
    if model.id.partition("/")[0] not in DIRECT_PROVIDERS and provider_of(model.id) != "vllm":
        known = ", ".join(f"{name}/" for name in DIRECT_PROVIDERS)
        return f"expected a model that begins with {known}; found {model.id}"
    if model.id.startswith("openai/responses/"):
        return "OpenAI's responses API is reached through litellm"
    unknown = sorted(set(model.params) - _DIRECT_PARAMS)
    return f"params.{unknown[0]} is a parameter that only litellm knows" if unknown else ""


def transport_note(model: Model) -> str:
    """Give a model's transport for people: ``direct``, ``via litellm``, or an empty text."""
    return f"via {model.via}" if model.via == LITELLM else model.via


# How long one request may take, unless the model's table says otherwise.
REQUEST_SECONDS = 120.0
# How much longer than the request itself its caller waits.
REQUEST_GRACE_S = 1.0

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")

# What is expected, in words, and a test for values.
Setting: TypeAlias = tuple[str, Callable[[object], bool]]


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _above_0(value: object) -> bool:
    return _number(value) and value != 0


def _count(value: object) -> bool:
    return isinstance(value, int) and _above_0(value)


SETTINGS: Mapping[str, Setting] = {
    "id": ("a litellm id, hf/NAME or vllm/NAME", _text),
    "api_base": ("an address", _text),
    "api_key_env": ("the name of an environment variable", _text),
    "via": (" or ".join(TRANSPORTS), lambda value: value in TRANSPORTS),
    "temperature": ("a number, 0 or more", _number),
    "top_p": ("a number, 0 or more", _number),
    "seed": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "max_tokens": ("a whole number, 1 or more", _count),
    "reasoning_effort": ("the provider's word, such as low, medium or high", _text),
    "request_seconds": ("a number of seconds above 0", _above_0),
    "stream": ("true or false", lambda value: isinstance(value, bool)),
    "extra_body": (
        "a table that is sent with each request as it is",
        lambda value: isinstance(value, Mapping),
    ),
    "params": ("a table with parameters for litellm", lambda value: isinstance(value, Mapping)),
    "device": (
        "auto, cpu, cuda, cuda:N or mps",
        lambda value: isinstance(value, str) and DEVICE.fullmatch(value) is not None,
    ),
    "dtype": (f"one of {', '.join(DTYPES)}", _text),
    "quantization": (f"{' or '.join(QUANTIZATIONS)}; of a vllm model also vLLM's own word", _text),
    "max_model_len": ("a whole number of tokens, 1 or more", _count),
    "tensor_parallel_size": ("a whole number of GPUs, 1 or more", _count),
    "gpu_memory_utilization": (
        "a share above 0, 1 at most",
        lambda value: isinstance(value, int | float) and _above_0(value) and value <= 1,
    ),
    "tool_call_parser": ("the name of one of vLLM's parsers", _text),
    "reasoning_parser": ("the name of one of vLLM's parsers", _text),
    "serve_args": (
        "a list of further arguments of vllm serve",
        lambda value: isinstance(value, list | tuple) and all(map(_text, value)),
    ),
    "start_seconds": ("a number of seconds above 0", _above_0),
    "requests_at_once": ("a whole number, 1 or more", _count),
    "requests_at_start": ("a whole number, 1 or more", _count),
    "requests_per_minute": ("a whole number, 1 or more", _count),
    "tokens_per_minute": ("a whole number, 1 or more", _count),
    "patience_seconds": ("a number of seconds above 0", _above_0),
}

# Settings that limit how often a model is called, with the field of ``RateLimits`` that each becomes.
RATE_SETTINGS: Mapping[str, str] = {
    "requests_at_once": "at_once",
    "requests_at_start": "at_start",
    "requests_per_minute": "requests_per_minute",
    "tokens_per_minute": "tokens_per_minute",
    "patience_seconds": "patience_s",
}


def setting_problem(model: Model) -> str:
    """Describe a setting without effect, such as one for loading a remote model; empty for none."""
    provider = provider_of(model.id)
    for name in model.params:
        if name in LOADED_BY and provider not in LOADED_BY[name]:
            whose = " and ".join(f"{one}/" for one in LOADED_BY[name])
            return f"{name}: expected a model that begins with {whose}; found {model.id}"
    if provider == "hf":
        expected: Mapping[str, tuple[str, ...]] = {"dtype": DTYPES, "quantization": QUANTIZATIONS}
        for name, words in expected.items():
            value: Any = model.params.get(name, words[0])
            if value not in words:
                return f"{name}: expected one of {', '.join(words)}; found {value!r}"
    return ""


# The table ``[tool.agenteval.models]``: for each name a litellm id, or a map with ``id`` and settings.
Aliases: TypeAlias = Mapping[str, "str | Mapping[str, Any]"]

SHIPPED: Mapping[str, str] = MappingProxyType(
    {"claude": "anthropic/claude-sonnet-5-5", "gpt": "openai/gpt-6.1-sol", "gemini": "gemini/gemini-4-argon"}
)

# Former names of offline models, for a message that gives the new one.
FORMER_NAMES: Mapping[str, str] = MappingProxyType({"baseline": "rules"})

TABLE = "[tool.agenteval.models]"
# pytest-agenteval sets these for each request; ``n`` would add choices, of which it reads the first only.
RESERVED_PARAMS = frozenset(
    {"model", "messages", "tools", "response_format", "stream_options", "n", "timeout"}
    | {"max_retries", "num_retries", "drop_params"}
)

# A model's name is a part of test ids, of comma-separated lists and of MODEL@DATE, so it cannot hold the
# characters that separate those parts.
_TYPEABLE = re.compile(r"[!-~]+")
_FORBIDDEN = re.compile(r"[\[\]@,]|::")

# litellm's variables. Providers that offer other ways to sign in
# are missing on purpose: their keys are not checked before a run.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "cohere_chat": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN", "HUGGINGFACE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
    "xai": ("XAI_API_KEY",),
}


def resolve_all(typed: Sequence[str], aliases: Aliases, offline: Collection[str]) -> tuple[Model, ...]:
    """Turn each name into a model; a repeated name is a mistake."""
    models = {}
    for model in (resolve(name, aliases, offline) for name in typed):
        if model.name in models:
            # Trials of one model under one name could not be distinguished in reports.
            raise UsageMistake(f"the model {model.name!r} is named more than once")
        models[model.name] = model
    return tuple(models.values())


def rate_limits_of(aliases: Aliases, default: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Give the rate limits of each model of the table by its name; ``default`` has the empty name."""
    tables = {name: table for name, table in aliases.items() if isinstance(table, Mapping)}
    own = {
        name: {**default, **table} for name, table in tables.items() if RATE_SETTINGS.keys() & table.keys()
    }
    return {
        name: {field: given[key] for key, field in RATE_SETTINGS.items() if given.get(key) is not None}
        for name, given in {**own, "": default}.items()
    }


def expand_panels(
    typed: Sequence[str], aliases: Aliases, panels: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Replace the name of a panel by its judges; an alias of the user's with that name comes first."""
    judges_by_panel = {name: judges for name, judges in panels.items() if name not in aliases}
    return tuple(judge for name in typed for judge in judges_by_panel.get(name, (name,)))


def resolve(typed: str, aliases: Aliases, offline: Collection[str]) -> Model:
    """Turn a name into a model: the user's alias, else an offline model, a shipped alias, or a litellm id."""
    name = typed.strip()
    if not name:
        raise UsageMistake("a model needs a name")
    if not _TYPEABLE.fullmatch(name) or _FORBIDDEN.search(name):
        alias = f"add `short_name = {compact_json(name)}` to {TABLE} in pyproject.toml and name that"
        raise UsageMistake(
            f"the model name {name!r} cannot stand in a test id, which is ASCII without blanks, "
            f"commas, '[', ']', '@' and '::'; {alias}"
        )
    if name in aliases:
        return _of_alias(name, aliases[name], offline)
    if name == OWN_MODEL:
        return Model(name, name)
    if name in offline:
        return Model(name, name, offline=True)
    if name in SHIPPED or "/" in name:
        model = Model(name, SHIPPED.get(name, name))
        return replace(model, via=usual_transport(model))
    names = sorted({*aliases, *SHIPPED, *offline, OWN_MODEL})
    hint = did_you_mean(name, names)
    if name in FORMER_NAMES:
        hint = f"it is called {FORMER_NAMES[name]!r} now"
    elif family := next((family for family in SHIPPED if name.startswith(f"{family}-")), ""):
        # ``gpt-5-mini`` lacks its provider, and is no ``gemini``.
        hint = f"did you mean {SHIPPED[family].partition('/')[0] + '/' + name!r}?"
    rows = (
        f"unknown model {name!r}",
        f"known: {', '.join(names)}; anything else is hf/NAME, vllm/NAME, or a litellm id such as "
        "openai/gpt-6.1-sol",
        hint,
    )
    raise UsageMistake("; ".join(row for row in rows if row))


def key_names(model: Model) -> tuple[str, ...]:
    """Give the environment variables that may hold the model's key, best first; none if it needs none."""
    if model.offline:
        return ()
    if model.api_key_env:
        return (model.api_key_env,)
    if provider_of(model.id):
        return ()
    # The real provider's key must not be sent to an address of the user's own.
    return () if "api_base" in model.params else _KEYS.get(model.id.partition("/")[0], ())


def known_key_names() -> tuple[str, ...]:
    """Give every environment variable that may hold a provider's usual key."""
    return tuple(name for names in _KEYS.values() for name in names)


def missing_key(model: Model, environ: Mapping[str, str]) -> str:
    """Name the environment variables of which one should hold the model's key; empty if one does."""
    names = key_names(model)
    return "" if any(environ.get(name) for name in names) else " or ".join(names)


def _of_alias(name: str, setting: str | Mapping[str, Any], offline: Collection[str]) -> Model:
    if name in offline:
        raise UsageMistake(f"{TABLE} {name}: the name is that of an offline model; choose another")
    table = {"id": setting} if isinstance(setting, str) else setting
    if not isinstance(table, Mapping):
        raise UsageMistake(f"{TABLE} {name}: expected a litellm id or a table with id, found {setting!r}")
    for key, value in table.items():
        _check_refused(name, key, key)
        if key not in SETTINGS:
            raise UsageMistake(f"{TABLE} {name}: {key}: {_unknown(key, value)}")
        expected, fits = SETTINGS[key]
        if not fits(value):
            raise UsageMistake(f"{TABLE} {name}: {key}: expected {expected}, found {value!r}")
    params: dict[str, Any] = {**dict(table).get("params", NOTHING)}
    for key in params:
        if key in SETTINGS:
            raise UsageMistake(f"{TABLE} {name}: params.{key}: {key} belongs beside params, not in it")
        _check_refused(name, f"params.{key}", key)
    named = _target(name, table.get("id"), offline)
    apart = ("id", "api_key_env", "params", "via", *RATE_SETTINGS)
    settings = {key: value for key, value in table.items() if key not in apart}
    model = replace(named, params={**settings, **params}, api_key_env=table.get("api_key_env", ""))
    if problem := setting_problem(model):
        raise UsageMistake(f"{TABLE} {name}: {problem}")
    via: Any = table.get("via")
    return replace(model, via=_transport(model, via))


def _transport(model: Model, named: Via | None) -> Via:
    """Give the transport that a model's table names, else the usual one; refuses an impossible one."""
    usual = usual_transport(model)
    if named is None:
        return usual
    problem = direct_problem(model) if named == DIRECT else ""
    if not usual:
        problem = f"expected a model that is reached over HTTP; found {model.id}"
    if problem:
        raise UsageMistake(f"{TABLE} {model.name}: via = {compact_json(named)}: {problem}")
    return named


def _target(name: str, id: object, offline: Collection[str]) -> Model:
    if id is None:
        raise UsageMistake(f"{TABLE} {name}: the key `id` is missing: set it to a litellm id")
    if id in offline:
        return Model(name, str(id), offline=True)
    target = SHIPPED.get(str(id), str(id))
    if "/" not in target:
        raise UsageMistake(f"{TABLE} {name}: expected an id such as openai/gpt-6.1-sol, found {target!r}")
    return Model(name, target)


def _check_refused(name: str, place: str, key: str) -> None:
    if key == "api_key":
        raise UsageMistake(
            f"{TABLE} {name}: do not put a key into a file; name its environment variable with api_key_env"
        )
    if key in RESERVED_PARAMS:
        raise UsageMistake(f"{TABLE} {name}: {place} cannot be set for a model")


def _unknown(key: str, value: object) -> str:
    plain = compact_json(value) if isinstance(value, str | int | float) else "…"
    # An unknown key is not sent to the provider, where it might do nothing without an error.
    for_litellm = f"a parameter for litellm stands under params: params = {{{key} = {plain}}}"
    rows = (f"unknown; one of {nearest_names(key, SETTINGS)}", did_you_mean(key, SETTINGS), for_litellm)
    return "; ".join(row for row in rows if row)

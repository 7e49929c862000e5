"""What the user typed, turned into models: aliases, offline models and litellm ids."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.model_settings import IN_BOTH_PLACES, RATES, SETTINGS, misplaced
from pytest_agenteval.chat.via import DIRECT, undirected, via_of
from pytest_agenteval.records.plan import OWN_MODEL, Model, Via
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.errors import UsageMistake, nearest

Aliases: TypeAlias = Mapping[str, "str | Mapping[str, Any]"]
"""The table ``[tool.agenteval.models]``: a litellm id, or a map with ``id`` and settings, for each name."""

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "claude": "anthropic/claude-sonnet-5-5",
        "gpt": "openai/gpt-6.1-sol",
        "gemini": "gemini/gemini-4-argon",
    }
)

FORMER_NAMES: Mapping[str, str] = MappingProxyType({"baseline": "rules"})
"""Offline models that were called something else: who types the old name is told the new one."""

TABLE = "[tool.agenteval.models]"
OURS = frozenset(
    {"model", "messages", "tools", "response_format", "stream_options", "n", "timeout"}
    | {"max_retries", "num_retries", "drop_params"}
)

_TYPEABLE = re.compile(r"[!-~]+")
_FORBIDDEN = re.compile(r"[\[\]@,]|::")

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
    """Turn each name into a model; a name may stand only once."""
    models = {}
    for model in (resolve(name, aliases, offline) for name in typed):
        if model.name in models:
            raise UsageMistake(f"the model {model.name!r} is named more than once")
        models[model.name] = model
    return tuple(models.values())


def rates_of(aliases: Aliases, default: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Give how much each model of the table is asked, by its name; ``default`` is of the empty name."""
    tables = {name: table for name, table in aliases.items() if isinstance(table, Mapping)}
    own = {name: {**default, **table} for name, table in tables.items() if RATES.keys() & table.keys()}
    return {name: _rates(said) for name, said in {**own, "": default}.items()}


def _rates(said: Mapping[str, Any]) -> dict[str, float]:
    return {field: said[key] for key, field in RATES.items() if said.get(key) is not None}


def expand_panels(
    typed: Sequence[str], aliases: Aliases, panels: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Put the judges of a panel in the place of its name; an alias of the user's comes first."""
    judges_by_panel = {name: judges for name, judges in panels.items() if name not in aliases}
    return tuple(judge for name in typed for judge in judges_by_panel.get(name, (name,)))


def resolve(typed: str, aliases: Aliases, offline: Collection[str]) -> Model:
    """Turn a name into a model: the user's alias, else an offline model, a shipped alias, or a litellm id."""
    name = typed.strip()
    _check_name(name)
    if name in aliases:
        return _of_alias(name, aliases[name], offline)
    if name == OWN_MODEL:
        return Model(name, name)
    if name in offline:
        return Model(name, name, offline=True)
    if name in SHIPPED or "/" in name:
        model = Model(name, SHIPPED.get(name, name))
        return replace(model, via=via_of(model))
    names = sorted({*aliases, *SHIPPED, *offline, OWN_MODEL})
    rows = (
        f"unknown model {name!r}",
        f"known: {', '.join(names)}; anything else is hf/NAME, vllm/NAME, or a litellm id such as "
        "openai/gpt-6.1-sol",
        f"it is called {FORMER_NAMES[name]!r} now" if name in FORMER_NAMES else _likely(name, names),
    )
    raise UsageMistake("; ".join(row for row in rows if row))


def _likely(name: str, names: Collection[str]) -> str:
    """Say what an unknown name may mean: ``gpt-5-mini`` lacks its provider, and is no ``gemini``."""
    for family, id in SHIPPED.items():
        if name.startswith(f"{family}-"):
            return f"did you mean {id.partition('/')[0] + '/' + name!r}?"
    return nearest(name, names)


def key_names(model: Model) -> tuple[str, ...]:
    """Give the environment variables that may hold the model's key, best first; none where none is needed."""
    if model.offline:
        return ()
    if model.api_key_env:
        return (model.api_key_env,)
    if provider_of(model.id):
        return ()
    return () if "api_base" in model.params else _KEYS.get(model.id.partition("/")[0], ())


def key_names_known() -> tuple[str, ...]:
    """Give every environment variable that may hold a provider's usual key."""
    return tuple(name for names in _KEYS.values() for name in names)


def missing_key(model: Model, environ: Mapping[str, str]) -> str:
    """Name the environment variables of which one should hold the model's key; empty where all is well."""
    names = key_names(model)
    return "" if any(environ.get(name) for name in names) else " or ".join(names)


def _check_name(name: str) -> None:
    if not name:
        raise UsageMistake("a model needs a name")
    if not _TYPEABLE.fullmatch(name) or _FORBIDDEN.search(name):
        alias = f"add `short_name = {compact(name)}` to {TABLE} in pyproject.toml and name that"
        raise UsageMistake(
            f"the model name {name!r} cannot stand in a test id, which is ASCII without blanks, "
            f"commas, '[', ']', '@' and '::'; {alias}"
        )


def _of_alias(name: str, setting: str | Mapping[str, Any], offline: Collection[str]) -> Model:
    if name in offline:
        raise UsageMistake(f"{TABLE} {name}: the name is that of an offline model; choose another")
    table = {"id": setting} if isinstance(setting, str) else setting
    if not isinstance(table, Mapping):
        raise UsageMistake(f"{TABLE} {name}: expected a litellm id or a table with id, found {setting!r}")
    for key, value in table.items():
        _check_setting(name, key, value)
    params: dict[str, Any] = {**dict(table).get("params", NOTHING)}
    for key in params:
        _check_param(name, key)
    named = _target(name, table.get("id"), offline)
    apart = ("id", "api_key_env", "params", "via", *RATES)
    settings = {key: value for key, value in table.items() if key not in apart}
    model = replace(named, params={**settings, **params}, api_key_env=table.get("api_key_env", ""))
    if problem := misplaced(model):
        raise UsageMistake(f"{TABLE} {name}: {problem}")
    via: Any = table.get("via")
    return replace(model, via=_via(model, via))


def _via(model: Model, named: Via | None) -> Via:
    """Give how a model is asked: as its table says, which has to be possible."""
    usual = via_of(model)
    if named is None:
        return usual
    problem = undirected(model) if named == DIRECT else ""
    if not usual:
        problem = f"expected a model that is asked over HTTP; found {model.id}"
    if problem:
        raise UsageMistake(f"{TABLE} {model.name}: via = {compact(named)}: {problem}")
    return named


def _target(name: str, id: object, offline: Collection[str]) -> Model:
    if id is None:
        raise UsageMistake(f"{TABLE} {name}: the key id is missing; it holds a litellm id")
    if id in offline:
        return Model(name, str(id), offline=True)
    target = SHIPPED.get(str(id), str(id))
    if "/" not in target:
        raise UsageMistake(f"{TABLE} {name}: expected an id such as openai/gpt-6.1-sol, found {target!r}")
    return Model(name, target)


def _check_refused(name: str, place: str, key: str) -> None:
    if key == "api_key":
        raise UsageMistake(f"{TABLE} {name}: a key does not belong in a file; name its variable: api_key_env")
    if key in OURS:
        raise UsageMistake(f"{TABLE} {name}: {place} cannot be set for a model")


def _check_setting(name: str, key: str, value: object) -> None:
    _check_refused(name, key, key)
    if key not in SETTINGS:
        raise UsageMistake(f"{TABLE} {name}: {key}: {_unknown(key, value)}")
    expected, fits = SETTINGS[key]
    if not fits(value):
        raise UsageMistake(f"{TABLE} {name}: {key}: expected {expected}, found {value!r}")


def _unknown(key: str, value: object) -> str:
    """Say what may be meant by a key that is none of ours: sent to a provider, it would do nothing, live."""
    plain = compact(value) if isinstance(value, str | int | float) else "…"
    for_litellm = f"a parameter for litellm stands under params: params = {{{key} = {plain}}}"
    rows = (f"unknown; one of {', '.join(SETTINGS)}", nearest(key, SETTINGS), for_litellm)
    return "; ".join(row for row in rows if row)


def _check_param(name: str, key: str) -> None:
    """Refuse below ``params`` what is not litellm's: each key has one place."""
    if key in SETTINGS and key not in IN_BOTH_PLACES:
        raise UsageMistake(f"{TABLE} {name}: params.{key}: {key} stands beside params, not in it")
    _check_refused(name, f"params.{key}", key)

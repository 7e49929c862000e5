"""Where a model is asked directly, with which key and in which format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.models import key_names
from pytest_agenteval.chat.price_table import entry_of
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING

NO_KEY = "no-key"
"""Sent in a key's place to an address for which none is named."""

RESPONSES = "responses/"
"""What stands before the name of a model of OpenAI's that is to be asked by its responses."""


class Provider(NamedTuple):
    """Where a provider is, unless an address is given, and the variables that may name another."""

    address: str
    variables: tuple[str, ...]
    own_key: str = ""


_OPENAI = ".api.openai.com"

PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "anthropic": Provider("https://api.anthropic.com", ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    "hosted_vllm": Provider("", ("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
}
"""How the ids of models begin that can be asked directly."""


def address_of(model: Model) -> str:
    """Give the address that a model is asked at, without a slash at its end; empty where none is known."""
    provider = PROVIDERS[model.id.partition("/")[0]]
    given = str(model.params.get("api_base") or "")
    if not given:
        given = next((os.environ[name] for name in provider.variables if os.environ.get(name)), "")
    return (given or provider.address).strip().rstrip("/")


def url_of(model: Model, path: str) -> str:
    """Give the address that a request goes to; one that ends with the path of its format is whole."""
    address = address_of(model)
    return address if address.endswith(path) else f"{address}{path}"


def address_problem(model: Model) -> str:
    """Say why a model cannot be asked where it is; empty where nothing stands against it."""
    address = address_of(model)
    if not address:
        variables = " or ".join(PROVIDERS[model.id.partition("/")[0]].variables)
        return f"nobody says where it is: set api_base in its table, or {variables}"
    if not provider_name(model):
        return f"{model.id!r} names no model"
    # A password may stand before the host, a key in the query: neither is for anybody's terminal.
    public = address.rpartition("@")[2].partition("?")[0]
    try:
        parts = urlsplit(address)
        host, _ = (parts.hostname or ""), parts.port
        host.encode("idna")
    except ValueError as odd:  # UnicodeError among them
        return f"{public} is no address" + ("" if "@" in address else f": {odd}")
    if parts.scheme not in ("http", "https") or not host:
        return f"expected an address that begins with http:// or https:// and a host; found {public!r}"
    if parts.username is not None:
        return "its address names a user: a key stands in an environment variable, which api_key_env names"
    if parts.query or parts.fragment:
        return f"expected an address that ends with its path; found a query or fragment behind {public!r}"
    return ""


def is_own_host(model: Model) -> bool:
    """Whether a model is asked at its provider's own host, or a region's of it."""
    own, asked = _host(PROVIDERS[model.id.partition("/")[0]].address), _host(address_of(model))
    return bool(own) and (asked == own or asked.endswith(f".{own}"))


@lru_cache(maxsize=64)
def _host(address: str) -> str:
    return urlsplit(address).hostname or ""


def region_of(model: Model) -> str:
    """Give the part of the world for which an address of OpenAI's is; empty of any other."""
    host = _host(address_of(model))
    region = host.removesuffix(_OPENAI)
    return region if region != host and "." not in region else ""


def table_name(model: Model) -> str:
    """Give the id by which the table of prices knows a model."""
    return model.id.replace(f"/{RESPONSES}", "/", 1)


def table_entry(model: Model) -> Mapping[str, Any]:
    """Give what the table of prices says of a model; nothing of one on a server of the user's own.

    Such a server gives its models whatever names it likes, other providers' among them.
    """
    return (entry_of(table_name(model)) or NOTHING) if has_family(model) else NOTHING


def has_family(model: Model) -> bool:
    """Whether a model's name tells whose it is: a server of the user's own may call one as it likes."""
    return bool(PROVIDERS[model.id.partition("/")[0]].address)


def redirect_base(url: str, location: str, path: str) -> str:
    """Give the address to name in the place of one that redirects, without what only requests have."""
    try:
        scheme, host, target, _, _ = urlsplit(urljoin(url, location))
    except ValueError:
        return "an address that is none"
    return f"{scheme}://{host}{target.removesuffix(path)}" if location else "nowhere"


def key_of(model: Model) -> str:
    """Give the model's key from the environment; empty where none is set, or none belongs there."""
    provider = PROVIDERS[model.id.partition("/")[0]]
    names = key_names(model) or ((provider.own_key,) if "api_base" not in model.params else ())
    return next((os.environ[name].strip() for name in names if os.environ.get(name)), "")


def takes_key(model: Model) -> bool:
    """Whether a model cannot be asked without a key."""
    return bool(key_names(model))


def provider_name(model: Model) -> str:
    """Give the name by which a provider knows its model."""
    return model.id.partition("/")[2].removeprefix(RESPONSES)


def format_of(model: Model, ask: ModelAsk) -> str:
    """Give the module beside this one that writes the request for an ask of a model."""
    provider, _, name = model.id.partition("/")
    if provider == "anthropic":
        return "anthropic_messages"
    if provider == "openai":
        from pytest_agenteval.chat.direct.openai_settings import wants_responses

        if name.startswith(RESPONSES) or wants_responses(ask, provider):
            return "openai_responses"
    return "openai_chat"


def account_headers_of(model: Model) -> dict[str, str]:
    """Give the headers with the user's organization and project, for OpenAI's own host alone."""
    if not model.id.startswith("openai/") or not is_own_host(model):
        return {}
    from pytest_agenteval.chat.direct.openai_settings import account_headers

    return account_headers(os.environ)

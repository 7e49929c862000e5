"""A request to a model before it is written in a provider's format: its content, address and key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from pytest_agenteval.cassettes.wire.traffic import Json
from pytest_agenteval.chat.models import key_names
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue


class ModelAsk(FrozenValue, frozen=True):
    """One ask of a model, before it is written in a provider's format.

    ``model`` is the provider's own name of it. ``messages`` and ``tools`` are in the shape of OpenAI's chat
    completions; nothing of an ask may be changed, since a retry and the tape need it again. ``settings``
    holds those that are set and were not refused before: temperature, top_p, seed, max_tokens, tool_choice
    (auto, none, required, a tool's name, or OpenAI's map) and reasoning_effort. ``extra_body`` is merged over
    the body. ``counts_streamed``: a request for a stream may request token counts. ``echoes`` are what
    ``echo_of`` gave for earlier replies, by the id of the first call of each. ``abilities`` is the model's
    entry in the table of prices, empty if it has none. ``own_host``: the address is the provider's own.
    ``has_family``: the name shows what the model accepts, which it does not on a server of the user's own.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    response_schema: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = NOTHING
    extra_body: Mapping[str, Any] = NOTHING
    streamed: bool = False
    counts_streamed: bool = True
    echoes: Mapping[str, Any] = NOTHING
    abilities: Mapping[str, Any] = NOTHING
    own_host: bool = True
    has_family: bool = True


class DirectFormat(Protocol):
    """The interface of a module that writes requests in one format."""

    # Its name in the readers of model traffic.
    FORMAT: str

    # What is appended to the provider's address.
    PATH: str

    def needs_litellm(self, ask: ModelAsk) -> bool:
        """Whether an ask holds what this format does not write: litellm sends it then."""

    def body_of(self, ask: ModelAsk) -> dict[str, Any]:
        """Give the request's body."""

    def headers_of(self, key: str) -> dict[str, str]:
        """Give the headers with the key."""

    def echo_of(self, whole: Json) -> Any:
        """Give the part of a reply that returns with the results of its calls, or None."""


# Is sent as the key to an address that needs none.
NO_KEY = "no-key"


class DirectProvider(NamedTuple):
    """A provider's usual address, and the variables that may name another."""

    address: str
    variables: tuple[str, ...]
    own_key: str = ""


_OPENAI = ".api.openai.com"

# The providers that can be called directly, by the prefix of their models' ids.
DIRECT_ADDRESSES: Mapping[str, DirectProvider] = {
    "openai": DirectProvider("https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "anthropic": DirectProvider("https://api.anthropic.com", ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    "hosted_vllm": DirectProvider("", ("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
}


def address_of(model: Model) -> str:
    """Give the address of a model without a slash at its end; empty if none is known."""
    provider = DIRECT_ADDRESSES[model.id.partition("/")[0]]
    given = str(model.params.get("api_base") or "")
    if not given:
        given = next((os.environ[name] for name in provider.variables if os.environ.get(name)), "")
    return (given or provider.address).strip().rstrip("/")


def address_problem(model: Model) -> str:
    """Describe why a model's address cannot be used; empty if it can."""
    address = address_of(model)
    if not address:
        variables = " or ".join(DIRECT_ADDRESSES[model.id.partition("/")[0]].variables)
        return f"its address is unknown: set api_base in its table, or {variables}"
    if not model.id.partition("/")[2]:
        return f"{model.id!r} names no model"
    # A password may stand before the host, a key in the query: neither belongs in a message.
    public = address.rpartition("@")[2].partition("?")[0]
    try:
        parts = urlsplit(address)
        host, _ = (parts.hostname or ""), parts.port
        host.encode("idna")
    except ValueError as refused:  # UnicodeError among them
        return f"{public} is no address" + ("" if "@" in address else f": {refused}")
    if parts.scheme not in ("http", "https") or not host:
        return f"expected an address that begins with http:// or https:// and a host; found {public!r}"
    if parts.username is not None:
        return (
            "its address contains a user: put the key into an environment variable and name it in api_key_env"
        )
    if parts.query or parts.fragment:
        return f"expected an address that ends with its path; found a query or fragment behind {public!r}"
    return ""


def region_of(host: str) -> str:
    """Give the region of a host of OpenAI's, such as ``eu``; empty for any other host."""
    region = host.removesuffix(_OPENAI)
    return region if region != host and "." not in region else ""


def api_key_of(model: Model) -> str:
    """Give the model's key from the environment; empty if none is set or needed."""
    provider = DIRECT_ADDRESSES[model.id.partition("/")[0]]
    # A key for an address in the model's own table has to be named there by api_key_env: the usual key of
    # hosted_vllm belongs to the address in its environment variable.
    names = key_names(model) or ((provider.own_key,) if "api_base" not in model.params else ())
    return next((os.environ[name].strip() for name in names if os.environ.get(name)), "")

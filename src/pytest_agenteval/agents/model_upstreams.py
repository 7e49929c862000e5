"""Where the models that programs ask really are, how they are signed for, and by which names programs go."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.loopback_address import TrialAddress, Upstream
from pytest_agenteval.chat.models import key_names
from pytest_agenteval.records.plan import OWN_MODEL, Model

DUMMY = "agenteval"
"""What programs get for a key: the real one is put on where their requests are sent on."""

ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "gemini": ("GOOGLE_GEMINI_BASE_URL",),
    "ollama": ("OLLAMA_HOST",),
}
"""The variables that say where a provider is, for each wire; of the user's the first that is set counts."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "ollama": ("OLLAMA_API_KEY",),
}
"""The variables of keys, for each wire."""

DUMMY_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Keys without which clients refuse to send anything."""

# All places where clients put a key: the dummies there are left out before the real key is put on.
_SIGNED = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "key")
_HEADER, _BEARER = "Authorization", "Bearer "
_DEFAULTS: Mapping[str, Upstream] = {
    "openai": Upstream(
        "openai", "https://api.openai.com/v1", _HEADER, _BEARER, dummies=_SIGNED, version="v1"
    ),
    "anthropic": Upstream("anthropic", "https://api.anthropic.com", header="X-Api-Key", dummies=_SIGNED),
    "gemini": Upstream(
        "gemini", "https://generativelanguage.googleapis.com", header="X-Goog-Api-Key", dummies=_SIGNED
    ),
    "ollama": Upstream("ollama", "http://127.0.0.1:11434", _HEADER, _BEARER, dummies=_SIGNED),
}
OLLAMA_PORT = 11434


def model_upstreams(environ: Mapping[str, str]) -> tuple[Upstream, ...]:
    """Give where each provider's requests go: to the user's own address, or to the provider's usual one."""
    return tuple(_usual(wire, environ) for wire in ADDRESSES)


def model_variables(address: TrialAddress) -> dict[str, str]:
    """Give the variables that lead a program to its trial's addresses, with dummies for keys."""
    addresses = {name: address.url(wire) for wire, names in ADDRESSES.items() for name in names}
    return {**addresses, **dict.fromkeys(DUMMY_KEYS, DUMMY)}


def wire_of_path(path: str) -> str:
    """Name the wire that a client speaks, by the path that it puts behind the address that it was given."""
    if re.search(r"/messages(/\w+)*$", path) or path.startswith("/v1/complete"):
        return "anthropic"
    # Google's methods stand behind a colon, as in ``models/NAME:generateContent``.
    if path.startswith(("/v1beta", "/v1alpha")) or ":" in path.rpartition("/")[2]:
        return "gemini"
    return "ollama" if path.startswith("/api/") else "openai"


def bare_name(model: Model) -> str | None:
    """Give the name by which the model's own provider knows it; None where the agent chooses itself."""
    if model.offline or model.id == OWN_MODEL:
        return None
    return model.id.partition("/")[2] or model.id


def keys_of(model: Model) -> frozenset[str]:
    """Give the names of variables whose keys no program gets: those that are put on for it."""
    return frozenset(name for names in KEYS.values() for name in names) | frozenset(key_names(model))


def _usual(wire: str, environ: Mapping[str, str]) -> Upstream:
    default = _DEFAULTS[wire]
    base = next((environ[name] for name in ADDRESSES[wire] if environ.get(name)), "")
    key = next((name for name in KEYS[wire] if environ.get(name)), KEYS[wire][0])
    # Anthropic's clients send this variable as a bearer token, and the other one as X-Api-Key.
    if key == "ANTHROPIC_AUTH_TOKEN":
        default = replace(default, header=_HEADER, prefix=_BEARER)
    if base:
        return _at(replace(default, key_env=key), _ollama(base) if wire == "ollama" else base)
    # A provider's usual address refuses whoever has no key. Ollama runs on this machine without one.
    return replace(default, key_env=key, needed=wire != "ollama")


def _at(upstream: Upstream, base: str) -> Upstream:
    """Give an upstream at another address; servers of one's own may need no key, so none is required."""
    return replace(upstream, base=base.rstrip("/"), needed=False)


def _ollama(host: str) -> str:
    """Give the address that OLLAMA_HOST names, which may lack its scheme and its port."""
    scheme, _, rest = host.rpartition("://")
    name, slash, path = rest.partition("/")
    # The variable is the server's too: it listens at 0.0.0.0, which is no address to connect to.
    name = name.replace("0.0.0.0", "127.0.0.1")
    usual_port = "" if scheme else f":{OLLAMA_PORT}"
    port = "" if ":" in name.rpartition("]")[2] else usual_port
    return f"{scheme or 'http'}://{name}{port}{slash}{path}"

"""How an operation's callers show who they are: keys and tokens from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.errors import KeyPath, nearest
from pytest_agenteval.tools.openapi.source import Operation, Source


@dataclass(slots=True)
class Keys:
    """What is sent with each request, and the environment variables it takes."""

    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def keys_of(source: Source, operation: Operation, variables: Mapping[str, str]) -> Keys:
    """Give what the first way of the operation's ``security`` needs whose schemes all have a variable."""
    ways = operation.said.get("security", source.root.get("security")) or [{}]
    chosen = next((way for way in ways if way and set(way) <= set(variables)), None)
    if chosen is None and {} not in ways:
        named = " or ".join(" with ".join(way) for way in ways)
        place = operation.place if "security" in operation.said else ()
        expected = f"a variable for {named} under `security` of the tool file"
        source.refuse((*place, "security"), expected, f"variables for {', '.join(variables) or 'none'}")
    keys = Keys()
    for name in chosen or ():
        _add(keys, source, name, variables[name])
    return keys


def _add(keys: Keys, source: Source, name: str, variable: str) -> None:
    place: KeyPath = ("components", "securitySchemes", name)
    schemes = (source.root.get("components") or {}).get("securitySchemes") or {}
    if name not in schemes:
        known = ", ".join(schemes) or "no security scheme"
        source.refuse(
            ("components", "securitySchemes"), f"the scheme {name!r}", known, nearest(name, schemes)
        )
    scheme: Mapping[str, Any] = source.followed(schemes[name], place)
    kind, secret = scheme.get("type"), f"${{{variable}}}"
    keys.secrets = (*keys.secrets, variable)
    if kind == "apiKey" and scheme.get("in") == "query":
        keys.query[str(scheme["name"])] = secret
    elif kind == "apiKey":
        cookie = scheme.get("in") == "cookie"
        keys.headers["Cookie" if cookie else str(scheme["name"])] = (
            f"{scheme['name']}={secret}" if cookie else secret
        )
    elif kind in ("oauth2", "openIdConnect") or str(scheme.get("scheme", "")).lower() == "bearer":
        keys.headers["Authorization"] = f"Bearer {secret}"
    else:
        told = f"{kind} {scheme.get('scheme', '')}".strip()
        source.refuse(place, "apiKey, http bearer, oauth2 or openIdConnect", told)

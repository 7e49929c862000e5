"""When two requests are the same: method, address and body, whatever the order of keys and parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from pytest_agenteval.canonical import canonical, digest_text
from pytest_agenteval.cassettes.interaction import Body, Request, text_of

Address: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[str, str, str]
Match: TypeAlias = Callable[[Request, Request], bool]


def address_of(request: Request) -> Address:
    """Give method and URI without query and fragment: what requests to one tool or endpoint share."""
    return request.method.upper(), parted(request.uri)[0]


def key_of(request: Request) -> Key:
    """Give what equal requests share; headers tell of the client, not of the question, and are left out."""
    address, query, fragment = parted(request.uri)
    asked = _in_order(query) + (f"#{_in_order(fragment)}" if fragment else "")
    return request.method.upper(), address, digest_text(f"{asked}\n{_settled(request.body)}")


def parted(uri: str) -> tuple[str, str, str]:
    """Give address, query and fragment."""
    sent, _, fragment = uri.partition("#")
    address, _, query = sent.partition("?")
    return address, query, fragment


def _in_order(pairs: str) -> str:
    return "&".join(sorted(pairs.split("&")))


def _settled(body: Body) -> str:
    """Write a JSON body canonically, and leave any other as it is."""
    text = text_of(body)
    if text[:1] in ("{", "[") or text[:1].isspace():
        try:
            return canonical(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text

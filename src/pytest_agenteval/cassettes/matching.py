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
    """Give method and URI without its query: what requests to one tool or endpoint share."""
    return request.method.upper(), request.uri.partition("?")[0]


def key_of(request: Request) -> Key:
    """Give what equal requests share; headers tell of the client, not of the question, and are left out."""
    query = "&".join(sorted(request.uri.partition("?")[2].split("&")))
    return (*address_of(request), digest_text(f"{query}\n{_settled(request.body)}"))


def _settled(body: Body) -> str:
    """Write a JSON body canonically, and leave any other as it is."""
    text = text_of(body)
    if text[:1] in ("{", "[") or text[:1].isspace():
        try:
            return canonical(json.loads(text))
        except (ValueError, RecursionError):
            return text
    return text

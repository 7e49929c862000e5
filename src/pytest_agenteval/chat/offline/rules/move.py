"""What the rules give back, and what they read messages with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_agenteval.chat.chat import ChatMessage


@dataclass(frozen=True, slots=True)
class Move:
    """What to say, and which tools to call with what."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


def text_of(message: ChatMessage) -> str:
    """Give a message's text; of content in parts, the text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = (part.get("text") for part in content or () if isinstance(part, Mapping))
    return "\n".join(part for part in parts if isinstance(part, str))


def last_words(messages: Sequence[ChatMessage]) -> str:
    """Give what the user said last."""
    return next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")


def block(text: str, tag: str) -> str | None:
    """Give what stands between ``<tag>`` and the last ``</tag>``; None where there is no such block."""
    found = re.search(rf"<{tag}>\n?(.*?)\n?</{tag}>(?!.*</{tag}>)", text, re.DOTALL)
    return None if found is None else found[1]


def failed(message: ChatMessage) -> bool:
    """Whether a tool message says that the call failed."""
    try:
        said = json.loads(text_of(message))
    except ValueError:
        return False
    return isinstance(said, dict) and "error" in said

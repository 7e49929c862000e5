"""How the rule-based model plays the agents of this benchmark; here, the message that holds the entry."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_agenteval import ChatMessage
from pytest_agenteval.chat.offline.rules import text_of


def last_entry(messages: Sequence[ChatMessage]) -> tuple[int, str, str] | None:
    """Find the last user message that holds an entry: its place, the entry's fact id, and its whole text."""
    for place in range(len(messages) - 1, -1, -1):
        text = text_of(messages[place])
        if messages[place]["role"] == "user" and (fact := block(text, "fact_id")) is not None:
            return place, fact, text
    return None


def block(text: str, tag: str) -> str | None:
    """Give what stands between ``<tag>`` and the last ``</tag>``; None where there is no such block."""
    match = re.search(rf"<{tag}>\n?(.*?)\n?</{tag}>(?!.*</{tag}>)", text, re.DOTALL)
    return None if match is None else match[1]

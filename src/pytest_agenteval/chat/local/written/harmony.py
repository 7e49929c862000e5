"""GPT-OSS's harmony: a reply of several messages, each on a channel and for somebody."""

from __future__ import annotations

import re

from pytest_agenteval.chat.local.written.written_call import WrittenCall
from pytest_agenteval.records.record import FrozenValue

MARK = "<|channel|>"
_MESSAGE = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]*))?<\|channel\|>(?P<header>[^<]*(?:<\|constrain\|>[^<]*)?)"
    r"<\|message\|>(?P<body>.*?)(?:<\|end\|>|<\|call\|>|<\|return\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.-]+)")


class HarmonyReply(FrozenValue, frozen=True):
    """What was said on the final channel, thought on the others, and asked of tools."""

    text: str
    reasoning: str
    calls: tuple[WrittenCall, ...]


def read_harmony(text: str) -> HarmonyReply:
    """Read a reply; whatever stands in no message is said."""
    said, calls = [_MESSAGE.sub("", text)], []
    thoughts: list[str] = []
    for message in _MESSAGE.finditer(text):
        recipient = _RECIPIENT.search(f"{message['role'] or ''} {message['header']}")
        channel = message["header"].split(maxsplit=1)[0] if message["header"].split() else ""
        if recipient and recipient[1] not in ("user", "assistant"):
            calls.append(WrittenCall(recipient[1], message["body"].strip() or "{}"))
        else:
            (thoughts if channel == "analysis" else said).append(message["body"])
    return HarmonyReply(_joined(said), _joined(thoughts), tuple(calls))


def _joined(parts: list[str]) -> str:
    return "\n".join(part.strip() for part in parts if part.strip())

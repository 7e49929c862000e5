"""What an agent told its models beforehand: the prompts that were sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pytest_agenteval.records.transcript import Transcript

_FILLED_IN = re.compile(r"[{}$%<>]")
"""What stands in lines of a template that may be sent otherwise than they are written."""


def unsent_prompts(given: Mapping[str, str], transcript: Transcript) -> Iterator[str]:
    """Name the prompts of which no message holds all lines; none where no request was seen.

    Lines that a program may fill in are not looked for.
    """
    sent = [" ".join(message.content.split()) for message in transcript.messages if message.role != "tool"]
    for name, text in given.items():
        if sent and not _was_sent(text, sent):
            yield name


def _was_sent(text: str, sent: Iterable[str]) -> bool:
    lines = (" ".join(line.split()) for line in text.splitlines() if not _FILLED_IN.search(line))
    return all(any(line in message for message in sent) for line in lines)

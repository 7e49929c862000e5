"""What an agent told its models beforehand: the prompts that were sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from pytest_agenteval.records.record import FrozenMap
from pytest_agenteval.records.transcript import AROUND_TAPES, STARTED_PROGRAM, UNREAD_REQUEST, Transcript
from pytest_agenteval.text.canonical import canonical, digest_text

_FILLED_IN = re.compile(r"[{}$%<>]")
"""What stands in lines of a template that may be sent otherwise than they are written."""

_UNSEEN = (UNREAD_REQUEST, AROUND_TAPES, STARTED_PROGRAM)
"""Kinds of events after which a prompt may have been sent where nobody could read it."""


def unsent_prompts(given: Mapping[str, str], transcript: Transcript) -> Iterator[str]:
    """Name the prompts of which a line stands in no message; none where a request may not have been seen.

    Lines that a program may fill in are not looked for.
    """
    if not transcript.asks or any(event.kind in _UNSEEN for event in transcript.events):
        return
    sent = [" ".join(message.content.split()) for message in transcript.messages if message.role != "tool"]
    for name, text in given.items():
        if not _was_sent(text, sent):
            yield name


def _was_sent(text: str, sent: Iterable[str]) -> bool:
    lines = (" ".join(line.split()) for line in text.splitlines() if not _FILLED_IN.search(line))
    return all(any(line in message for message in sent) for line in lines)


SYSTEM, FIRST_MESSAGE, TOOLS = "system prompt", "first message", "list of tools"
"""What a model is told beforehand: by whom it acts, what it is asked, what it may call."""


def sent_texts(transcript: Transcript, *, tools: bool = True) -> dict[str, str]:
    """Give what an agent has sent its models, by what it is; what it sent none of is left out."""
    system = dict.fromkeys(
        message.content
        for message in transcript.messages
        if message.role == "system" and not message.seeded and message.content
    )
    user = (message.content for message in transcript.messages if message.role == "user")
    declared = sorted(canonical(tool.declaration()) for tool in transcript.tools) if tools else ()
    texts = {SYSTEM: "\n\n".join(system), FIRST_MESSAGE: next(user, ""), TOOLS: "\n".join(declared)}
    return {kind: text for kind, text in texts.items() if text}


def sent_digests(
    transcript: Transcript, words: Collection[str] | None, *, has_tools: bool
) -> Mapping[str, str]:
    """Give the digest of each, but of what is known otherwise.

    That is a first message that is the task's own ``words`` (None where a model plays the user), and tools
    that the trial itself offers.
    """
    texts = sent_texts(transcript, tools=not has_tools)
    known = {FIRST_MESSAGE} if words is None or texts.get(FIRST_MESSAGE, "").strip() in words else set()
    return FrozenMap({kind: digest_text(text) for kind, text in texts.items() if kind not in known})

"""Where asking directly is not what litellm does, on purpose, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .conversation import FORMS, WIRES, Form, Wire

ENDING = "ending"
"""The place where one way fails and the other does not."""


@dataclass(frozen=True)
class Difference:
    """Conversations that differ at certain places, and the reason in words.

    A name of ``*`` speaks of all conversations, of which some may not differ; the others do for certain, in
    each form on each wire that is named.
    """

    names: tuple[str, ...]
    places: tuple[str, ...]
    why: str
    wires: tuple[Wire, ...] = WIRES
    forms: tuple[Form, ...] = FORMS

    @property
    def is_certain(self) -> bool:
        """Whether it is there in each conversation that is named."""
        return "*" not in self.names

    def is_about(self, name: str, wire: Wire, form: Form) -> bool:
        """Whether it speaks of a conversation, on this wire and in this form."""
        return ("*" in self.names or name in self.names) and wire in self.wires and form in self.forms


def known(place: str, entries: Iterable[Difference]) -> bool:
    """Whether a difference at a place is one of these."""
    return any(fnmatchcase(place, pattern) for entry in entries for pattern in entry.places)


CHAT: tuple[Wire, ...] = ("chat",)
MESSAGES: tuple[Wire, ...] = ("messages",)
WHOLE: tuple[Form, ...] = ("whole",)
STREAMED: tuple[Form, ...] = ("streamed",)

DIFFERENCES: tuple[Difference, ...] = (
    # What is sent.
    Difference(
        ("no content",),
        ("sent.body.messages",),
        "users between whom nothing was said are one message, as Anthropic itself makes of them",
        MESSAGES,
    ),
    # What is read.
    Difference(
        ("*",),
        ("ask.usage.reasoning_tokens",),
        "litellm estimates the tokens of thoughts where none are told",
        MESSAGES,
    ),
    Difference(
        ("arguments that are a list", "arguments that are a text", "arguments that are null"),
        ("ask.calls.raw_args", "sent.body.messages.content.input.INVALID_JSON"),
        "an input that is no object is kept without blanks, a text as it is; null is no arguments",
        MESSAGES,
        WHOLE,
    ),
    Difference(
        ("blank arguments",),
        ("ask.calls.raw_args", "sent.body.*.arguments"),
        "blanks are no arguments, as an empty text is none",
        CHAT,
    ),
    Difference(
        ("a call without a name",),
        ("ask.calls", "sent.body.*"),
        "litellm loses a call without a name in a stream; it is the agent that says that no tool has it",
        WIRES,
        STREAMED,
    ),
    Difference(
        ("a legacy call",),
        ("ask.calls",),
        "a call in the form of 2023 is one; litellm hands it on where nobody looks",
    ),
    Difference(
        ("a provider's own call",),
        ("ask.calls", "ask.finish"),
        "litellm takes a call that the provider has carried out for one that the agent is to answer",
        MESSAGES,
        WHOLE,
    ),
    Difference(
        ("uploaded file",),
        ("sent.headers.anthropic-beta",),
        "a file that the provider keeps needs no code execution, whose beta litellm names too",
        MESSAGES,
    ),
    Difference(
        ("searched",),
        ("ask.usage.cost_usd",),
        "litellm adds the list price of the provider's searches, which are not asked for with our tools",
    ),
    Difference(
        ("thoughts between texts",),
        ("ask.reasoning",),
        "parts of thoughts are paragraphs; litellm joins them with nothing",
        MESSAGES,
    ),
    Difference(
        ("refusal beside a text",),
        ("ask.text",),
        "a text is not run together with the refusal behind it, streamed as whole",
        CHAT,
        STREAMED,
    ),
    Difference(
        ("anthropic's compaction",),
        ("ask.finish",),
        "a compaction is no reply that was cut",
    ),
    Difference(
        ("anthropic's pause_turn",),
        ("ask.finish",),
        "a pause is no reply that was cut",
    ),
    Difference(
        ("text in parts",),
        (ENDING,),
        "a text in parts is read; litellm reads a text only",
    ),
    Difference(
        ("more thought than written",),
        ("ask.usage.cost_usd", "ask.usage.reasoning_tokens"),
        "litellm cuts Anthropic's count of thoughts at that of the reply; nobody counts so",
        MESSAGES,
    ),
    Difference(
        ("counts as text",),
        ("ask.usage.*",),
        "digits as a text are a count: litellm reads them of OpenAI, and not of Anthropic",
        MESSAGES,
    ),
    # Why a request failed.
    Difference(
        ("status 408", "status 504"),
        ("ask.status",),
        "litellm tells a provider's own timeout as ours, without its status",
    ),
    Difference(("status 413",), ("ask.status",), "litellm makes 400 of Anthropic's 413", MESSAGES),
    Difference(
        ("status 413",),
        ("ask.cause", "ask.retryable"),
        "what is too large stays so, however often it is sent",
        CHAT,
    ),
    Difference(
        ("status 409", "status 425"),
        ("ask.cause", "ask.retryable"),
        "a conflict, and a request that came too early, pass: litellm takes both for mistakes in the request",
        MESSAGES,
    ),
    Difference(
        ("status 529", "status 529 in its usual words", "529 with seconds", "overloaded"),
        ("ask.status",),
        "litellm makes 500 of Anthropic's 529",
        MESSAGES,
    ),
    Difference(
        ("against the policy",),
        ("ask.cause",),
        "litellm does not know the code by which a content filter is told",
        CHAT,
    ),
    Difference(
        ("limited in a stream",),
        ("ask.status",),
        "litellm makes up a status for an error within a stream, whose status was 200",
        CHAT,
        STREAMED,
    ),
    Difference(
        ("limited in a stream",),
        ("ask.puts_off",),
        "a provider that is overloaded within a stream wants to be asked later, too",
        MESSAGES,
        STREAMED,
    ),
    Difference(
        ("a stream that just ends", "a stream that ends in half an event", "a stream that holds no JSON"),
        ("ask.usage.*",),
        "what a stream told of its tokens before it ended was paid for",
        MESSAGES,
        STREAMED,
    ),
    Difference(
        (
            "reply of no JSON",
            "reply of a page",
            "reply of nothing",
            "reply of half JSON",
            "reply of an error",
        ),
        ("ask.status",),
        "litellm makes up a status of 500 for a body that it cannot read",
        MESSAGES,
        WHOLE,
    ),
    Difference(
        ("reply of an error",),
        ("ask.*",),
        "litellm makes up a status of 422, and so a mistake in the request, for an error told with 200",
        CHAT,
        WHOLE,
    ),
)
"""All known differences: what stands here is on purpose, and is looked at in each run."""

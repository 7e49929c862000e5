"""All conversations of the differential test, and which of them are led in which form."""

from __future__ import annotations

import os
from collections.abc import Iterator

from . import calls, counts, endings, failures, knobs, texts, thoughts
from .conversation import FORMS, WIRES, Conversation, Form, Wire

ALL = "AGENTEVAL_DIFFERENTIAL_ALL"
"""The environment variable that has each conversation led in each form."""

ROOMS = (texts, calls, thoughts, endings, counts, knobs, failures)
CONVERSATIONS: tuple[Conversation, ...] = tuple(it for room in ROOMS for it in room.CONVERSATIONS)
TOLD_IN_PIECES = frozenset(it.name for it in (*calls.TOLD_IN_PIECES, *thoughts.PLAIN, *endings.CONVERSATIONS))
"""Conversations whose replies a stream tells in another way."""


def subject_of(conversation: Conversation) -> str:
    """Give what a conversation is about: the name of its module."""
    room = next(room for room in ROOMS if conversation in room.CONVERSATIONS)
    return room.__name__.rpartition(".")[2]


def cases() -> Iterator[tuple[Conversation, Wire, Form]]:
    """Give each conversation on each of its wires, by turns in either form.

    Those that are told in pieces are led in both forms on one wire.
    """
    everything, turn = bool(os.environ.get(ALL)), 0
    for number, conversation in enumerate(CONVERSATIONS):
        wires = list(filter(conversation.on, WIRES))
        in_both = {wires[number % len(wires)]} if conversation.name in TOLD_IN_PIECES else set()
        for wire in wires:
            turn += 1
            forms = [form for form in FORMS if form in conversation.forms]
            if not everything and wire not in in_both:
                forms = [forms[turn % len(forms)]]
            for form in forms:
                yield conversation, wire, form

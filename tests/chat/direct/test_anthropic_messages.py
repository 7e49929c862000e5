"""Anthropic's messages, written and read without litellm: the same on the wire as with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.chat.direct import anthropic_request
from pytest_agenteval.chat.direct.model_request import NO_KEY, ModelAsk
from pytest_agenteval.chat.direct.provider_schemas import plain_copy
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.model_prices import price_entry
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.plan import Model
from tests.chat.bench import ModelServer
from tests.chat.litellm_oracle import Compared, held_against_litellm

from .anthropic_asks import ASKS, Asked, said, user

HEADERS = ("x-api-key", "anthropic-version", "anthropic-beta")
ON_PURPOSE: Mapping[str, tuple[set[str], str]] = {
    "a blank system": ({"system"}, "the provider refuses a text that is blank: it is left out"),
    "a file's address": ({"anthropic-beta"}, "an address is no file that the provider keeps: no beta"),
    **{
        f"a kept {kind}": ({"anthropic-beta"}, "a file that the provider keeps needs no code execution")
        for kind in ("document", "image", "file")
    },
    **{
        f"schema {name}, {model}": (
            {key},
            "a reference stays what it is; litellm writes one that leads nowhere",
        )
        for name, model, key in (
            ("in a loop", "claude-sonnet-4-5", "output_format"),
            ("that refers", "claude-3-haiku-20240307", "tools"),
            ("in a loop", "claude-3-haiku-20240307", "tools"),
        )
    },
}
"""What differs from what litellm sends, by ask: which keys and headers, and why."""
COMPARED = Compared("anthropic_messages")


def ask_of(asked: Asked) -> ModelAsk:
    """Write an ask as the chat does that asks directly."""
    params = dict(asked.params)
    streamed, extra_body = bool(params.pop("stream", False)), params.pop("extra_body", {})
    return ModelAsk(
        asked.model,
        [plain_copy(message) for message in asked.messages],
        [plain_copy(spec.declaration()) for spec in asked.tools],
        asked.schema,
        {**asked.settings.as_params(), **params},
        extra_body,
        streamed,
        abilities=price_entry(f"anthropic/{asked.model}") or {},
    )


@pytest.fixture(scope="module")
def sent_by_litellm(loop: asyncio.Runner) -> Mapping[str, dict[str, Any]]:
    """Give what litellm sends for each ask: the body, and beside it the headers that count."""
    sent = {}
    with ModelServer() as server:
        for name, asked in ASKS.items():
            model = Model(
                "m", f"anthropic/{asked.model}", params={"api_base": server.anthropic_base, **asked.params}
            )
            told = {"tools": asked.tools, "response_schema": asked.schema, "settings": asked.settings}
            loop.run(LitellmChat(model).ask(asked.messages, **told))
            request = server.requests[-1]
            sent[name] = {**request.body, **{head: request.headers.get(head) for head in HEADERS}}
    assert len(sent) == len(ASKS)
    return sent


@held_against_litellm
def test_the_body_is_that_of_litellm(request: pytest.FixtureRequest) -> None:
    """An ask is written as litellm writes it, but for the differences that are listed with their reasons."""
    for name, asked in ASKS.items():
        body = anthropic_request.body_of(ask_of(asked))
        headers = anthropic_request.headers_of(NO_KEY, body)
        ours = {**json.loads(json.dumps(body)), **{head: headers.get(head) for head in HEADERS}}
        if COMPARED.agreed(name, ours):
            continue
        theirs = request.getfixturevalue("sent_by_litellm")[name]
        differ = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
        assert differ == ON_PURPOSE.get(name, (set(), ""))[0], {
            name: {key: (ours.get(key), theirs.get(key)) for key in differ}
        }
        COMPARED.record(name, ours)


def test_every_difference_belongs_to_an_ask() -> None:
    """The list of differences names asks that are made."""
    assert set(ON_PURPOSE) <= set(ASKS)


def test_nothing_of_the_ask_is_written_into() -> None:
    """Writing a body leaves its ask as it was, and writing it again gives the same body."""
    for asked in ASKS.values():
        ask = ask_of(asked)
        before = json.dumps([ask.messages, ask.tools, ask.response_schema, dict(ask.extra_body)])
        body = json.dumps(anthropic_request.body_of(ask))
        assert json.dumps([ask.messages, ask.tools, ask.response_schema, dict(ask.extra_body)]) == before
        assert json.dumps(anthropic_request.body_of(ask)) == body


def test_an_effort_that_is_none_is_the_users_mistake() -> None:
    """A word for the effort that the provider does not have is refused with those that it has."""
    ask = ask_of(Asked([user(), said("x")], params={"reasoning_effort": "much"}))
    with pytest.raises(AttemptFailed, match=r"expected none, minimal, low.*found 'much'") as failed:
        anthropic_request.body_of(ask)
    assert (failed.value.cause, failed.value.retryable) == ("bad_request", False)

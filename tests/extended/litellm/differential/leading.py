"""Leads a conversation through one way of asking, and notes what came back and what the server was sent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pytest_agenteval.chat.chat import ProviderChat, Reply
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.chat.direct.direct_chat import DirectChat
from pytest_agenteval.chat.models import direct_problem
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.plan import NO_PRICES, Model, Prices
from tests.loopback.model_server import ModelServer, RawReply, ReplyPlan, Request

from .conversation import Answer, Body, Conversation, Form, Wire, result
from .wire_bodies import raw_reply

TOLD_HEADERS = ("authorization", "x-api-key", "anthropic-version", "anthropic-beta")
GIVEN_ID = re.compile(r"(call|toolu|fc)_\d+_\d+")
"""An id that the loopback server gives to a call."""

MakeChat: TypeAlias = Callable[[Model, Prices], ProviderChat]
Outcome: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Course:
    """How a conversation went: what each ask brought, the words of failures, and what the server was sent."""

    outcomes: Sequence[Outcome]
    failures: Sequence[str]
    sent: Sequence[Mapping[str, Any]]

    @property
    def ends(self) -> list[str]:
        """How each ask ended, as conversations say it."""
        return [f"!{it['cause']}" if "cause" in it else str(it["finish"]) for it in self.outcomes]


class Provider:
    """A model server that answers one conversation after the other."""

    def __init__(self) -> None:
        self.server = ModelServer(self._choose)
        self._answers: Sequence[Answer] = ()
        self._wire: Wire = "chat"

    def begin(self, wire: Wire, answers: Sequence[Answer]) -> None:
        """Begin a conversation: requests count from 0 again."""
        self.server.forget()
        self._wire, self._answers = wire, answers

    def _choose(self, request: Mapping[str, Any], n: int) -> ReplyPlan | RawReply:
        answer = self._answers[min(n, len(self._answers) - 1)]
        if isinstance(answer, Body):
            return raw_reply(self._wire, answer, streamed=bool(request.get("stream")))
        return answer

    def base(self, wire: Wire, host: str) -> str:
        """Give the address at which a host's name leads to this server."""
        port = self.server.anthropic_base.rpartition(":")[2]
        place = host if ":" in host else f"{host}:{port}"
        return f"http://{place}" if wire == "messages" else f"http://{place}/v1"


@dataclass
class Leader:
    """Leads conversations on one loop, with one provider."""

    loop: asyncio.Runner
    provider: Provider = field(default_factory=Provider)

    def lead(self, conversation: Conversation, wire: Wire, form: Form, make: MakeChat) -> Course:
        """Lead a conversation from its first ask to its last."""
        self.provider.begin(wire, conversation.answers_on(wire))
        model = self.model(conversation, wire, form)
        prices = NO_PRICES if conversation.price is None else {"asked": conversation.price}
        outcomes, failures = self.loop.run(_lead(make(model, prices), conversation))
        return Course(outcomes, failures, [_sent(request) for request in self.provider.server.requests])

    def is_by_litellm(self, conversation: Conversation, wire: Wire, form: Form) -> bool:
        """Whether an ask of a conversation is sent through litellm in any case."""
        model = self.model(conversation, wire, form)
        if direct_problem(model):
            return True
        chat, messages = DirectChat(model), list[Mapping[str, Any]]()
        for ask in conversation.asks:
            messages += ask.messages
            said = {"tools": ask.tools, "response_schema": ask.schema, "settings": ask.settings}
            if messages and chat.is_by_litellm(chat.model_ask(messages, **said)):
                return True
        return False

    def model(self, conversation: Conversation, wire: Wire, form: Form) -> Model:
        """Give the model that a conversation is led with."""
        params = {"api_base": self.provider.base(wire, conversation.host), **conversation.params}
        if form == "streamed":
            params["stream"] = True
        return Model(
            "asked", conversation.model_on(wire), params=params, api_key_env=conversation.api_key_env
        )


async def _lead(chat: ProviderChat, conversation: Conversation) -> tuple[list[Outcome], list[str]]:
    messages: list[Mapping[str, Any]] = []
    outcomes: list[Outcome] = []
    failures: list[str] = []
    last = Reply()
    for ask in conversation.asks:
        messages += [result(call.id, it) for call, it in zip(last.calls, ask.results, strict=False)]
        messages += ask.messages
        try:
            last = await chat.ask(
                list(messages), tools=ask.tools, response_schema=ask.schema, settings=ask.settings
            )
        except AttemptFailed as failed:
            outcomes.append(_failure(failed))
            failures.append(failed.message)
        else:
            messages.append(last.message())
            outcomes.append(_reply(last))
    await http_pool.close()  # what is dropped on a connection of the one before is sent again
    return outcomes, failures


def _reply(reply: Reply) -> Outcome:
    told = reply.to_json()
    return {
        "text": reply.text,
        "finish": reply.finish,
        "reasoning": reply.reasoning,
        "calls": [_call(call) for call in told.get("calls", ())],
        "usage": {**told["usage"], "cost_usd": reply.cost_usd},
        "first_token_told": reply.first_token_s is not None,
    }


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call.get(name) for name in ("id", "index", "tool", "args", "raw_args", "by")}


def _failure(failed: AttemptFailed) -> Outcome:
    return {
        "cause": failed.cause,
        "retryable": failed.retryable,
        "status": failed.status,
        "puts_off": failed.puts_off,
        "retry_after_s": failed.retry_after_s,
        "usage": failed.usage.to_json(),
    }


def _sent(request: Request) -> dict[str, Any]:
    headers = {name: request.headers[name] for name in TOLD_HEADERS if name in request.headers}
    return {"path": request.path, "headers": headers, "body": request.body}


def with_own_ids(course: Course, answers: Sequence[Answer]) -> Course:
    """Give a course in which ids that the client made up are called by their order."""
    given = "".join(_text(answer) for answer in answers)
    numbered = any(isinstance(answer, ReplyPlan) and answer.calls for answer in answers)
    names: dict[str, str] = {}
    for outcome in course.outcomes:
        for call in outcome.get("calls", ()):
            named = numbered and GIVEN_ID.fullmatch(call["id"])
            if not named and json.dumps(call["id"]) not in given:
                names.setdefault(call["id"], f"own-{len(names)}")
    told = json.dumps([course.outcomes, course.sent])
    for id, name in names.items():
        told = told.replace(json.dumps(id), json.dumps(name))
    outcomes, sent = json.loads(told)
    return Course(outcomes, course.failures, sent)


def _text(answer: Answer) -> str:
    if isinstance(answer, RawReply):
        return answer.body.decode("utf-8", "replace")
    return json.dumps(answer.body) if isinstance(answer, Body) else ""

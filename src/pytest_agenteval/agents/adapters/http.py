"""An agent behind an HTTP endpoint: each user's turn is a request, each reply what the agent says.

Its own requests of models are made where it runs, and not seen: the transcript is what its replies tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec.structs import replace

from pytest_agenteval.agents.adapters.endpoint import Endpoint
from pytest_agenteval.agents.adapters.endpoint_replies import PATHS, EndpointReply, ReplyReader
from pytest_agenteval.agents.agent import Agent, AgentContext, InputProblem
from pytest_agenteval.agents.conversation import input_problems, last_user_turn, seed_conversation
from pytest_agenteval.chat.model_prices import with_price
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import OWN_MODEL
from pytest_agenteval.records.transcript import Ask, ToolCall
from pytest_agenteval.text.json_values import PathError, parse_path

MOST_TOKENS = 4096
"""What an endpoint of Anthropic's shape is allowed to write: that shape demands a number."""

BODIES: Mapping[str, Mapping[str, Any]] = {
    "json": {
        "input": "{input}",
        "task": "{task}",
        "repetition": "{repetition}",
        "session": "{session}",
        "turns": "{turns}",
    },
    "openai": {"model": "{model=agent}", "messages": "{turns}"},
    "openai.responses": {"model": "{model=agent}", "input": "{turns}"},
    "anthropic": {"model": "{model=agent}", "max_tokens": MOST_TOKENS, "messages": "{turns}"},
}
"""What is sent where the form says nothing of it; what it says is laid over those of OpenAI and Anthropic."""

VERSION_HEADER = {"anthropic-version": "2023-06-01"}


class HttpFactory:
    """Makes the agents of one form; ``takes_model`` says whether the endpoint is told a run's model."""

    prompt_names = ()
    prompt_hint = "an endpoint is sent none: change its own, and compare two runs (--agent-baseline)"

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form = form
        self.takes_model = "{model" in str(form.get("body")) or form.get("as", "json") != "json"

    def __call__(self, **settings: Any) -> Agent:
        """Make the agent."""
        return HttpAgent(self._form, settings)


def endpoint_problems(form: Mapping[str, Any]) -> Sequence[InputProblem]:
    """Say what is wrong with a form that names an endpoint, at keys of suite.yaml."""
    problems: list[InputProblem] = []
    address = str(form["http"])
    is_whole = address.startswith(("http://", "https://")) and bool(urlsplit(address).netloc)
    if not (is_whole or address.startswith("${")):
        expected = "an address that begins with http:// or https://, or with ${NAME}"
        problems.append((("agent", "http"), expected, repr(address)))
    for key in PATHS:
        try:
            parse_path(form.get(key) or "x")
        except PathError as odd:
            problems.append(
                (("agent", key), "a path into the reply, such as reply.text or choices[0].text", str(odd))
            )
    return problems


class HttpAgent:
    """An agent that is asked over HTTP, as a suite's form says."""

    implementation = None
    """There is no code of it here."""

    def __init__(self, form: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        shape = form.get("as", "json")
        if shape == "openai" and urlsplit(form["http"]).path.rstrip("/").endswith("/responses"):
            shape = "openai.responses"
        body = dict(form.get("body") or {})
        if shape != "json" or not body:
            body = {**BODIES[shape], **({"settings": "{settings}"} if settings and not body else {}), **body}
        headers = {**(VERSION_HEADER if shape == "anthropic" else {}), **form.get("headers", {})}
        self._endpoint = Endpoint({**form, "headers": headers}, body)
        self._replies = ReplyReader(form, shape)
        self._settings = dict(settings)

    input_problems = staticmethod(input_problems)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Send each of the user's turns, and give the last reply as the answer."""
        talk = _Talk(self._endpoint, self._replies, {"settings": self._settings, **self._settings}, ctx)
        await talk.begin(task_input)
        while (text := await ctx.turns(talk.last.text)) is not None:
            await talk.turn(text)
        return Answer(talk.last.text, talk.last.state)


class _Talk:
    """One trial's conversation with an endpoint."""

    def __init__(
        self, endpoint: Endpoint, replies: ReplyReader, settings: Mapping[str, Any], ctx: AgentContext
    ) -> None:
        self._endpoint, self._replies, self._ctx = endpoint, replies, ctx
        self._values: dict[str, Any] = dict(settings)
        self._session = uuid4().hex
        self._messages: list[dict[str, Any]] = []
        self.last = EndpointReply()

    async def begin(self, task_input: Mapping[str, Any]) -> None:
        """Take over what was said before the trial, and what can be told by name."""
        seeded = last_user_turn(task_input)
        turns = task_input.get("turns") or ()
        for _ in range(
            seed_conversation(turns[:seeded], self._messages, self._ctx.transcript) if seeded else 0
        ):
            await self._ctx.turns()
        trial = self._ctx.trial
        self._values |= {
            **task_input,
            "input": dict(task_input),
            "task": trial.task,
            "repetition": trial.repetition,
        }
        if not _asks_its_own(self._ctx):
            self._values["model"] = self._ctx.model.id

    async def turn(self, text: str) -> None:
        """Send what the user says, and write down what comes back."""
        ctx, recorder = self._ctx, self._ctx.transcript
        self._messages.append({"role": "user", "content": text})
        ctx.limits.step()
        recorder.turn += 1
        turn = recorder.turn
        recorder.add_prompt(self._messages)
        turns = [{"role": each["role"], "content": each["content"]} for each in _spoken(self._messages)]
        values = {**self._values, "content": text, "turns": turns, "turn": turn}
        started = recorder.at()
        request, response, taped = await self._endpoint.ask(values, self._session, ctx)
        self.last = reply = self._replies.read(request, response)
        calls = tuple(_placed(call, turn, index) for index, call in enumerate(reply.calls))
        for call in calls:
            recorder.end_call(recorder.begin_call(call), call)
        message = {"role": "assistant", "content": reply.text}
        usage, prices = reply.usage, recorder.prices
        if usage.cost_usd != 0:  # which is a price, where the endpoint says it
            usage = with_price(reply.model, usage, reply.priced_apart, prices)
        ask = Ask(turn, started, recorder.at(), usage, reply.finish, None, reply.reasoning, reply.model)
        recorder.add_reply(message, tuple(_without_result(call) for call in calls), ask, unpaid=taped)
        self._messages.append(message)
        ctx.limits.spend(usage)


def _spoken(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give the messages that say something: calls of an earlier conversation are none that others take."""
    return [message for message in messages if message["role"] != "tool" and message.get("content")]


def _placed(call: ToolCall, turn: int, index: int) -> ToolCall:
    return replace(call, id=call.id or f"call_{turn}_{index + 1}", turn=turn, index=index)


def _without_result(call: ToolCall) -> ToolCall:
    """Give a call as a reply asks for it, without what came of it."""
    return replace(call, result=None, error=None)


def _asks_its_own(ctx: AgentContext) -> bool:
    return ctx.model.offline or ctx.model.id == OWN_MODEL

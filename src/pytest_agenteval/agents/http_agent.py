"""An agent behind an HTTP endpoint: what it is sent, what it replies, and the conversation with it.

A request is written twice. What is recorded and looked for holds a mark in place of each secret, one word in
place of the session, and behind a ``#`` the repetition, from the second on: so that it is the same in every
run, and each repetition has a recording of its own. What is sent holds the real values."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from msgspec.structs import replace

from pytest_agenteval.agents.agent import Agent, AgentContext, InputProblem
from pytest_agenteval.agents.loop import input_problems, seed_conversation
from pytest_agenteval.cassettes.http.scope import Scope, current, untaped
from pytest_agenteval.cassettes.interaction import Request, Response, text_of, utf8_json
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.transcripts.parts import (
    UNKNOWN_USAGE,
    Place,
    call_request,
    result_text,
    returned_usage,
)
from pytest_agenteval.cassettes.wire.reader import read_reply
from pytest_agenteval.cassettes.wire.traffic import UnreadableTraffic
from pytest_agenteval.chat.model_prices import NOTHING_APART, with_price
from pytest_agenteval.chat.provider_failures import AttemptFailed, no_reply_message, retry_after_s
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.plan import OWN_MODEL
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.tool_spec import shown_value
from pytest_agenteval.records.transcript import Ask, ToolCall, ToolError, Usage, unanswered_usage
from pytest_agenteval.text.errors import KeyPath, NoKey, ProviderDown, TrialBroken
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_values import ABSENT, PathError, compact_json, parse_path, value_at
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.text.secret_forms import MARK
from pytest_agenteval.tools.request_values import NestedValue, TemplateValue, compile_value

TRIAL_HEADER = "x-agenteval-trial"
"""Names the trial to the endpoint: suite, task, model, repetition, percent-encoded where it is no ASCII."""

ATTEMPTS = 3
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
REQUEST_SECONDS = 600.0
"""How long one request may take where neither the form nor the trial's own limit says less."""

MOST_BYTES = 10_000_000
"""What a reply may hold; of a larger one the trial is errored."""

RETRY = "endpoint_retry"
"""The kind of event that reports an attempt that failed."""

BUSY = frozenset({425, 429, 502, 503, 504, 529})
"""Statuses after which the same request is sent again: by them a server says that it did nothing with it."""

_ADVICE: Mapping[int, str] = {
    401: "look at agent.headers in suite.yaml",
    403: "look at agent.headers in suite.yaml",
    404: "look at agent.http in suite.yaml",
    405: "it is sent a POST: look at agent.http in suite.yaml",
    400: "look at agent.as and agent.body in suite.yaml",
    422: "look at agent.as and agent.body in suite.yaml",
}
LONGEST_TEXT = 300


class EndpointMistake(TrialBroken):
    """What a suite says of an endpoint cannot be sent to it."""

    cause = "agent"


class AgentEndpoint:
    """Where an agent is reached: address, headers and body of its requests, as a form says them.

    ``body`` is written for each request from what that has to tell by name. Secrets (``${NAME}`` in address,
    headers or body) are read from the environment when something is sent; they are known to be secret.
    """

    def __init__(self, form: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        self._uri: TemplateValue = compile_value(form["http"])
        self._headers = NestedValue(
            {name: compile_value(value) for name, value in form.get("headers", {}).items()}
        )
        self._body = NestedValue({name: compile_value(value) for name, value in body.items()})
        self._seconds = float(form.get("request_seconds") or REQUEST_SECONDS)
        self._address = KNOWN_SECRETS.text(form["http"])

    async def ask(
        self, values: Mapping[str, Any], session: str, ctx: AgentContext
    ) -> tuple[Request, Response, bool]:
        """Give a request with these ``values`` where the form names them, its reply, and if it was replayed.

        Raises ProviderDown where no reply can be had, NoKey where a variable is not set.
        """
        repetition = ctx.trial.repetition
        question = self._request({**values, "session": "session"}, {})
        if repetition > 1:
            question = dataclasses.replace(question, uri=f"{question.uri}#repetition={repetition}")
        # An endpoint is the agent, even if it speaks as a model does: its requests are not a model's traffic.
        scope = (current() or Scope(passing=True)).without_traffic()
        response = scope.play(question)
        taped = response is not None
        if response is None:
            secrets = self._secrets()
            # Registered before anything is sent: the endpoint may repeat them in its reply.
            KNOWN_SECRETS.know(secrets.values())
            request = self._request({**values, "session": session}, secrets)
            response = await self._response(request, ctx)
            scope.record(question, response)
            # Redacted as it is recorded, so that the agent's answer is the same live and in a replay.
            response = Redactor.from_environ().response(response)
        return question, response, taped

    def _secrets(self) -> dict[str, str]:
        names = dict.fromkeys((*self._uri.secrets, *self._headers.secrets, *self._body.secrets))
        unset = [name for name in names if not os.environ.get(name)]
        if unset:
            variables = " and ".join(f"${name}" for name in unset)
            raise NoKey(f"the agent at {self._address} needs {variables}: not set in the environment")
        return {name: os.environ[name] for name in names}

    def _request(self, values: Mapping[str, Any], secrets: Mapping[str, str]) -> Request:
        def secret(name: str) -> str:
            return secrets.get(name, MARK)

        # Without this check, a misspelt name in the body would send an empty question.
        missing = [
            name for template in (self._uri, self._headers, self._body) for name in _missing(template, values)
        ]
        if missing:
            first = missing[0]
            way = f"the values are: {', '.join(sorted(values))}"
            if prompt := first.removesuffix("_prompt") if first.endswith("_prompt") else "":
                way = f"name today's prompt in suite.yaml: prompts: {{{prompt}: ../../prompts/{prompt}.md}}"
            raise EndpointMistake(f"{self._address}: {{{first}}} has no value; {way}")
        headers = {name: str(value) for name, value in self._headers.write(values, secret).items()}
        if "content-type" not in {name.lower() for name in headers}:
            headers["Content-Type"] = "application/json"
        body = utf8_json(compact_json(self._body.write(values, secret)))
        return Request("POST", str(self._uri.write(values, secret)), body, headers)

    async def _response(self, request: Request, ctx: AgentContext) -> Response:
        """Send a request, again where that may help; failed attempts take none of the trial's seconds.

        Gives the first response below 400; raises ProviderDown where none comes.
        """
        attempt, limits = 0, ctx.limits
        trial = quote(ctx.trial.label, safe="/[]@ ,:=+")
        # Trials that failed together do not all try again together; each waits the same in every run.
        jitter = random.Random(str(ctx.trial))
        while True:
            attempt += 1
            try:
                with limits.time.span("charged") as span:
                    try:
                        return await self._send(request, trial)
                    except AttemptFailed:
                        span.kind = "uncharged"
                        raise
            except AttemptFailed as failed:
                if not failed.retryable or attempt == ATTEMPTS:
                    ctx.transcript.add_usage(unanswered_usage(attempt))
                    raise self._down(failed, attempt) from None
                doubled = FIRST_WAIT_S * 2 ** (attempt - 1) * jitter.uniform(0.5, 1)
                wait_s = min(
                    doubled if failed.retry_after_s is None else failed.retry_after_s, LONGEST_WAIT_S
                )
                line = f"attempt {attempt} of {ATTEMPTS}: {failed.message}"
                ctx.transcript.event(RETRY, line, {"attempt": attempt, "wait_s": round(wait_s, 3)})
                with limits.time.span("uncharged"):
                    await asyncio.sleep(wait_s)

    def _down(self, failed: AttemptFailed, attempts: int) -> ProviderDown:
        tries = pluralize(attempts, "attempt")
        running = "look at the log of its server" if failed.status else "check that its server runs"
        status = failed.status or 0
        advice = _ADVICE.get(404 if 300 <= status < 400 else status, running)
        return ProviderDown(f"{self._address}: no reply after {tries}; last: {failed.message}; {advice}")

    async def _send(self, request: Request, trial: str) -> Response:
        import httpx

        from pytest_agenteval.tools.http_request import loop_client

        headers = [(name.encode(), value.encode()) for name, (value,) in request.headers.items()]
        headers.append((TRIAL_HEADER.encode(), trial.encode()))
        try:
            with untaped():
                client = await loop_client()
                content = text_of(request.body).encode()
                async with (
                    asyncio.timeout(self._seconds),
                    client.stream(
                        "POST", request.uri, content=content, headers=headers, timeout=None
                    ) as reply,
                ):
                    data = bytearray()
                    # Counted while it arrives: a reply may have no end.
                    async for chunk in reply.aiter_bytes():
                        data += chunk
                        if len(data) > MOST_BYTES:
                            why = f"a reply of more than {MOST_BYTES // 1_000_000} MB"
                            raise AttemptFailed(why, retryable=False, status=reply.status_code)
                    # JSON behind a byte order mark would not be read as JSON, but taken for a plain answer.
                    text = data.decode(reply.encoding or "utf-8", "replace").removeprefix("\ufeff")
        except TimeoutError:
            raise AttemptFailed(no_reply_message(self._seconds), retryable=False) from None
        except httpx.ConnectError as failed:
            raise AttemptFailed(f"it cannot be reached ({_text(failed)})") from None
        # The endpoint may have acted on the request by now: it is not sent again.
        except (httpx.HTTPError, httpx.InvalidURL) as failed:
            raise AttemptFailed(_text(failed), retryable=False) from None
        content_type = {name: value for name, value in reply.headers.items() if name == "content-type"}
        response = Response(reply.status_code, reply.reason_phrase, content_type, text)
        status = response.status
        if status >= 400:
            shown = " ".join(KNOWN_SECRETS.text(text_of(response.body)).split())[:LONGEST_TEXT]
            why, wait_s = f"HTTP {status}: {shown or response.message}", retry_after_s(reply.headers)
            raise AttemptFailed(why, retryable=status in BUSY, status=status, retry_after_s=wait_s)
        # A redirect is not followed: the form does not say whether the new address may see the request.
        if status >= 300:
            to = KNOWN_SECRETS.text(reply.headers.get("location", ""))[:LONGEST_TEXT] or "no address"
            raise AttemptFailed(f"HTTP {status}: it redirects to {to}", retryable=False, status=status)
        return response


def _text(raised: Exception) -> str:
    return KNOWN_SECRETS.text(str(raised)) or type(raised).__name__


def _missing(template: TemplateValue, values: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(template, NestedValue):
        below = template.inner.values() if isinstance(template.inner, Mapping) else template.inner
        for inner in below:
            yield from _missing(inner, values)
    else:
        yield from template.sure_of(values)


PATHS = ("answer", "state", "calls", "usage")
"""The keys of a form that are paths into a reply."""

FORMATS: Mapping[str, str] = {
    "openai": "openai.chat",
    "openai.responses": "openai.responses",
    "anthropic": "anthropic.messages",
}


class UnreadableEndpointReply(TrialBroken):
    """An endpoint replied, and not with what its suite says."""

    cause = "answer"


class EndpointReply(FrozenValue, frozen=True):
    """What one reply of an endpoint tells; its calls have neither turn nor times."""

    text: str = ""
    state: Mapping[str, Any] = NOTHING
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    finish: str = "stop"
    reasoning: str = ""
    model: str = ""
    priced_apart: PricedApart = NOTHING_APART


class ReplyReader:
    """Reads the replies of one endpoint, as its form says: by its shape, and by the paths that are given."""

    def __init__(self, form: Mapping[str, Any], shape: str) -> None:
        self._address, self._shape = str(form["http"]), shape
        self._paths: dict[str, KeyPath] = {key: parse_path(form[key]) for key in PATHS if form.get(key)}
        if shape == "json":
            self._paths.setdefault("answer", ("answer",))
        self._may_be_text = shape == "json" and not any(form.get(key) for key in PATHS)

    def read(self, request: Request, response: Response) -> EndpointReply:
        """Read a reply; raises UnreadableEndpointReply or UnreadableTranscript, which name the place."""
        shaped = EndpointReply()
        if self._shape != "json":
            try:
                reply = read_reply(FORMATS[self._shape], request, response)
            except UnreadableTraffic as problem:
                raise UnreadableEndpointReply(
                    f"{self._address}: {problem}; look at agent.as in suite.yaml"
                ) from None
            shaped = EndpointReply(
                str(reply.message.get("content", "")),
                NOTHING,
                reply.calls,
                reply.usage if reply.usage.known_tokens else UNKNOWN_USAGE,
                reply.finish,
                reply.reasoning,
                reply.model,
                reply.priced_apart,
            )
        body = self._json(response) if self._paths else NOTHING
        if isinstance(body, str):
            return replace(shaped, text=body)
        fields: dict[str, Any] = {}
        if "answer" in self._paths:
            place = self._at(body, "answer")
            if place is None:
                wrong = Place(body, self._paths["answer"]).wrong("the answer's text")
                raise UnreadableEndpointReply(
                    f"{self._address}: {wrong}; set agent.answer in suite.yaml to where it is"
                )
            fields["text"] = result_text(place)
        state = self._at(body, "state")
        if state is not None:
            fields["state"] = state.map()
        calls = self._at(body, "calls")
        if calls is not None:
            fields["calls"] = tuple(map(_call, calls.items()))
        usage = returned_usage(self._at(body, "usage"))
        if usage is not None:
            fields |= {"usage": usage, "priced_apart": NOTHING_APART}
        return replace(shaped, **fields)

    def _json(self, response: Response) -> Any:
        """Give a reply's JSON; a plain text is the answer where the form names no path at all."""
        text = text_of(response.body)
        try:
            body, is_json = json.loads(text), True
        except (ValueError, RecursionError):
            body, is_json = text, False
        if isinstance(body, str) and not self._may_be_text:
            raise UnreadableEndpointReply(f"{self._address}: expected a reply in JSON, found {text[:60]!r}")
        if is_json:
            return body
        begins = text[:60].lstrip().lower()
        types = [values for name, values in response.headers.items() if name.lower() == "content-type"]
        says_json = any("json" in value.lower() for values in types for value in values)
        # Half of a JSON document, or a page that a server shows when it fails, would be graded as an answer.
        is_half = says_json and begins.startswith(("{", "["))
        is_page = begins.startswith(("<!doctype html", "<html"))
        if is_half or is_page:
            expected = "a text, or JSON that can be read"
            raise UnreadableEndpointReply(f"{self._address}: expected {expected}, found {text[:60]!r}")
        return body

    def _at(self, body: Any, key: str) -> Place | None:
        """Give what stands where the form says, None where that is nothing or null, or it says nothing."""
        if key not in self._paths:
            return None
        value = value_at(body, self._paths[key])
        return None if value is ABSENT or value is None else Place(value, self._paths[key])


def _call(place: Place) -> ToolCall:
    """Read a call, with its result or error where these stand beside it."""
    request, error, result = call_request(place), place.get("error"), place.map().get("result")
    failed = None if error is None else ToolError("tool_error", result_text(error))
    value = shown_value(result) if isinstance(result, str) else result
    return ToolCall(request.id, 0, 0, request.tool, request.args, request.raw_args, value, failed)


_PROMPT = re.compile(r"\{(\w+)_prompt(?:=[^{}]*)?\}")


def prompts_in(form: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the prompts that a form sends: ``{system_prompt}`` is the text of the prompt ``system``."""
    texts = (str(form.get(key, "")) for key in ("http", "headers", "body"))
    return tuple(dict.fromkeys(name for text in texts for name in _PROMPT.findall(text)))


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
"""Bodies that are sent by default; the ``body`` of a form is laid over those of OpenAI's and Anthropic's."""


class HttpFactory:
    """Makes the agents of one form; ``takes_model`` says whether the endpoint is sent a run's model."""

    prompt_hint = (
        "send it to the endpoint, in suite.yaml beside agent.http:\n"
        '    body: {question: "{content}", system_prompt: "{system_prompt}"}\n'
        "  and name today's prompt, in suite.yaml:\n"
        "    prompts: {system: ../../prompts/system.md}\n"
        "  or change the endpoint's own prompt, and compare two runs (--agent-baseline)"
    )

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form = form
        self.prompt_names = prompts_in(form)
        self.takes_model = "{model" in str(form.get("body")) or form.get("as", "json") != "json"

    def __call__(self, **settings: Any) -> Agent:
        return HttpAgent(self._form, settings)


def endpoint_problems(form: Mapping[str, Any]) -> Sequence[InputProblem]:
    """Say what is wrong with a form that names an endpoint, at keys of suite.yaml."""
    problems: list[InputProblem] = []
    address = str(form["http"])
    # An address that begins with a variable is not known until a request is sent.
    is_whole = address.startswith(("http://", "https://")) and bool(urlsplit(address).netloc)
    if not (is_whole or address.startswith("${")):
        expected = "an address that begins with http:// or https://, or with ${NAME}"
        problems.append((("agent", "http"), expected, repr(address)))
    for key in PATHS:
        try:
            parse_path(form.get(key) or "x")
        except PathError as problem:
            problems.append(
                (("agent", key), "a path into the reply, such as reply.text or choices[0].text", str(problem))
            )
    return problems


class HttpAgent:
    """An agent that is reached over HTTP, as a suite's form says."""

    implementation = None
    """There is no code of it here."""

    def __init__(self, form: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        shape = form.get("as", "json")
        if shape == "openai" and urlsplit(form["http"]).path.rstrip("/").endswith("/responses"):
            shape = "openai.responses"
        body = dict(form.get("body") or {})
        if shape != "json" or not body:
            body = {**BODIES[shape], **({"settings": "{settings}"} if settings and not body else {}), **body}
        version = {"anthropic-version": "2023-06-01"} if shape == "anthropic" else {}
        headers = {**version, **form.get("headers", {})}
        self._endpoint = AgentEndpoint({**form, "headers": headers}, body)
        self._replies = ReplyReader(form, shape)
        self._settings = dict(settings)
        self.prompt_names = prompts_in(form)

    input_problems = staticmethod(input_problems)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Send each of the user's turns, and give the last reply as the answer."""
        settings = {"settings": self._settings, **self._settings}
        talk = _Talk(self._endpoint, self._replies, settings, ctx, self.prompt_names)
        await talk.begin(task_input)
        while (text := await ctx.turns(talk.last.text)) is not None:
            await talk.turn(text)
        return Answer(talk.last.text, talk.last.state)


class _Talk:
    """One trial's conversation with an endpoint."""

    def __init__(
        self,
        endpoint: AgentEndpoint,
        replies: ReplyReader,
        settings: Mapping[str, Any],
        ctx: AgentContext,
        prompts: Sequence[str],
    ) -> None:
        self._prompts = prompts
        self._endpoint, self._replies, self._ctx = endpoint, replies, ctx
        self._values: dict[str, Any] = dict(settings)
        self._session = uuid4().hex
        self._messages: list[dict[str, Any]] = []
        self.last = EndpointReply()

    async def begin(self, task_input: Mapping[str, Any]) -> None:
        """Take over the conversation before the trial, and the values that a form may name."""
        await seed_conversation(task_input, self._messages, self._ctx)
        trial, model = self._ctx.trial, self._ctx.model
        self._values |= {**task_input, "input": dict(task_input)}
        self._values |= {"task": trial.task, "repetition": trial.repetition}
        for name in self._prompts:
            if name in self._ctx.prompts.texts:
                self._values[f"{name}_prompt"] = self._ctx.prompts.texts[name].strip()
        if not (model.offline or model.id == OWN_MODEL):
            self._values["model"] = model.id

    async def turn(self, text: str) -> None:
        ctx, recorder = self._ctx, self._ctx.transcript
        self._messages.append({"role": "user", "content": text})
        ctx.limits.step()
        recorder.turn += 1
        turn = recorder.turn
        recorder.add_prompt(self._messages)
        # Only messages with a text are sent: earlier tool calls mean nothing to the endpoint.
        spoken = [each for each in self._messages if each["role"] != "tool" and each.get("content")]
        turns = [{"role": each["role"], "content": each["content"]} for each in spoken]
        values = {**self._values, "content": text, "turns": turns, "turn": turn}
        started = recorder.at()
        request, response, taped = await self._endpoint.ask(values, self._session, ctx)
        self.last = reply = self._replies.read(request, response)
        calls = []
        for index, call in enumerate(reply.calls):
            id = call.id or f"call_{turn}_{index + 1}"
            calls.append(replace(call, id=id, turn=turn, index=index))
            recorder.end_call(recorder.begin_call(calls[-1]), calls[-1])
        message = {"role": "assistant", "content": reply.text}
        usage, prices = reply.usage, recorder.prices
        # A cost of 0 that the endpoint states is a price: none is looked up for it.
        if usage.cost_usd != 0:
            usage = with_price(reply.model, usage, reply.priced_apart, prices)
        ask = Ask(turn, started, recorder.at(), usage, reply.finish, None, reply.reasoning, reply.model)
        bare_calls = tuple(replace(call, result=None, error=None) for call in calls)
        recorder.add_reply(message, bare_calls, ask, unpaid=taped)
        self._messages.append(message)
        ctx.limits.spend(usage)

"""An agent's HTTP endpoint: what it is sent, through the trial's tapes, and how often it is tried.

A request is written twice. What is recorded and looked for holds a mark in place of each secret, one word in
place of the session, and behind a ``#`` the repetition, from the second on: so that it is the same in every
run, and each repetition has a recording of its own. What is sent holds what is meant.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.scope import Scope, current, untaped
from pytest_agenteval.cassettes.interaction import Request, Response, text_of
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.chat.provider_failures import retry_after_s
from pytest_agenteval.text.errors import NoKey, ProviderDown, TrialBroken
from pytest_agenteval.text.json_values import compact_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.text.secret_forms import MARK
from pytest_agenteval.tools.request_values import NestedValue, TemplateValue, compile_value

if TYPE_CHECKING:
    import httpx

TRIAL_HEADER = "x-agenteval-trial"
"""Names the trial to the endpoint: suite, task, model, repetition, percent-encoded where it is no ASCII."""

ATTEMPTS = 3
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
REQUEST_SECONDS = 600.0
"""How long one request may take where neither the form nor the trial's own limit says less."""

MOST_BYTES = 10_000_000
"""What a reply may hold; of a larger one the trial is errored."""

RETRY = "endpoint_retry"
"""The kind of event that tells of an attempt that failed."""

BUSY = frozenset({425, 429, 502, 503, 504, 529})
"""Statuses after which the same request is sent again: nothing was done with it, its server says."""

_ADVICE: Mapping[int, str] = {
    401: "look at agent.headers in suite.yaml",
    403: "look at agent.headers in suite.yaml",
    404: "look at agent.http in suite.yaml",
    405: "it is sent a POST: look at agent.http in suite.yaml",
    400: "look at agent.as and agent.body in suite.yaml",
    422: "look at agent.as and agent.body in suite.yaml",
}
_SURROGATE = re.compile("[\ud800-\udfff]")
LONGEST_TEXT = 300


class EndpointMistake(TrialBroken):
    """What a suite says of an endpoint cannot be sent to it."""

    cause = "agent"


class Endpoint:
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
        """Give a request with these ``values`` where the form names them, its reply, and if that was played.

        Raises ProviderDown where no reply can be had, NoKey where a variable is not set.
        """
        repetition = ctx.trial.repetition
        question = self._request({**values, "session": "session"}, {})
        if repetition > 1:
            question = dataclasses.replace(question, uri=f"{question.uri}#repetition={repetition}")
        scope = (current() or Scope(passing=True)).without_traffic()
        response = scope.play(question)
        taped = response is not None
        if response is None:
            secrets = self._secrets()
            KNOWN_SECRETS.know(secrets.values())
            request = self._request({**values, "session": session}, secrets)
            response = await _Attempts(self._address, self._seconds, ctx).response(request, _trial_name(ctx))
            scope.record(question, response)
            # As it was recorded: so the agent's answer is live what it will be in a replay.
            response = Redactor.from_environ().response(response)
        return question, response, taped

    def _secrets(self) -> dict[str, str]:
        names = dict.fromkeys((*self._uri.secrets, *self._headers.secrets, *self._body.secrets))
        unset = [name for name in names if not os.environ.get(name)]
        if unset:
            variables = " and ".join(f"${name}" for name in unset)
            raise NoKey(f"the agent at {self._address} is sent {variables}: not set in the environment")
        return {name: os.environ[name] for name in names}

    def _request(self, values: Mapping[str, Any], secrets: Mapping[str, str]) -> Request:
        def secret(name: str) -> str:
            return secrets.get(name, MARK)

        missing = [
            name for template in (self._uri, self._headers, self._body) for name in _missing(template, values)
        ]
        if missing:
            names = ", ".join(sorted(values))
            raise EndpointMistake(
                f"{self._address}: nothing is called {{{missing[0]}}} here; there are: {names}"
            )
        headers = {name: str(value) for name, value in self._headers.write(values, secret).items()}
        if "content-type" not in {name.lower() for name in headers}:
            headers["Content-Type"] = "application/json"
        text = compact_json(self._body.write(values, secret))
        body = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return Request("POST", str(self._uri.write(values, secret)), body, headers)


class _Failed(Exception):
    """An attempt that brought no reply; ``again`` says whether another may, ``wait_s`` when, if told."""

    def __init__(self, why: str, *, again: bool, status: int = 0, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.why, self.again, self.status, self.wait_s = why, again, status, wait_s


class _Attempts:
    """Sends one request of a trial, again where that is of use; what failed is none of its seconds."""

    def __init__(self, address: str, seconds: float, ctx: AgentContext) -> None:
        self._address, self._seconds, self._ctx = address, seconds, ctx
        self._random = random.Random(str(ctx.trial))

    async def response(self, request: Request, trial: str) -> Response:
        """Give the first response below 400; raises ProviderDown where none comes."""
        attempt, limits = 0, self._ctx.limits
        while True:
            attempt, began = attempt + 1, limits.at
            try:
                return await self._send(request, trial)
            except _Failed as failed:
                limits.forgive(limits.at - began)
                if not failed.again or attempt == ATTEMPTS:
                    self._ctx.transcript.add_unanswered(attempt)
                    raise self._down(failed, attempt) from None
                await self._wait(failed, attempt)

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
                    text = await _bounded_text(reply)
        except TimeoutError:
            raise _Failed(f"no reply within {self._seconds:g} s", again=False) from None
        except httpx.ConnectError as failed:
            raise _Failed(f"it cannot be reached ({_text(failed)})", again=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as failed:  # it may have acted: nobody asks it again
            raise _Failed(_text(failed), again=False) from None
        kept = {name: value for name, value in reply.headers.items() if name == "content-type"}
        response = Response(reply.status_code, reply.reason_phrase, kept, text)
        if response.status >= 400:
            raise _refused(response, retry_after_s(reply.headers))
        if response.status >= 300:  # nobody knows whether the same may be sent there
            raise _moved(response, reply.headers.get("location", ""))
        return response

    async def _wait(self, failed: _Failed, attempt: int) -> None:
        doubled = FIRST_WAIT_S * 2 ** (attempt - 1) * self._random.uniform(0.5, 1)
        wait_s = min(doubled if failed.wait_s is None else failed.wait_s, LONGEST_WAIT_S)
        details = {"attempt": attempt, "wait_s": round(wait_s, 3)}
        self._ctx.transcript.event(RETRY, f"attempt {attempt} of {ATTEMPTS}: {failed.why}", details)
        with self._ctx.limits.held_up(wait_s):
            await asyncio.sleep(wait_s)

    def _down(self, failed: _Failed, attempts: int) -> ProviderDown:
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        running = "look at the log of its server" if failed.status else "see that its server runs"
        moved = _ADVICE[404] if 300 <= failed.status < 400 else running
        advice = _ADVICE.get(failed.status, moved)
        return ProviderDown(f"{self._address}: no reply after {tries}; last: {failed.why}; {advice}")


def _refused(response: Response, wait_s: float | None) -> _Failed:
    text = " ".join(KNOWN_SECRETS.text(text_of(response.body)).split())[:LONGEST_TEXT]
    why = f"HTTP {response.status}: {text or response.message}"
    return _Failed(why, again=response.status in BUSY, status=response.status, wait_s=wait_s)


def _moved(response: Response, to: str) -> _Failed:
    why = (
        f"HTTP {response.status}: it is elsewhere, at {KNOWN_SECRETS.text(to)[:LONGEST_TEXT] or 'no address'}"
    )
    return _Failed(why, again=False, status=response.status)


async def _bounded_text(reply: httpx.Response) -> str:
    """Read a reply as it comes, for it may have no end; raises _Failed for one that is too large."""
    data = bytearray()
    async for chunk in reply.aiter_bytes():
        data += chunk
        if len(data) > MOST_BYTES:
            why = f"a reply of more than {MOST_BYTES // 1_000_000} MB"
            raise _Failed(why, again=False, status=reply.status_code)
    return data.decode(reply.encoding or "utf-8", "replace").removeprefix("\ufeff")


def _text(raised: Exception) -> str:
    return KNOWN_SECRETS.text(str(raised)) or type(raised).__name__


def _missing(template: TemplateValue, values: Mapping[str, Any]) -> Iterator[str]:
    """Give the names that a template needs and that have no value."""
    if isinstance(template, NestedValue):
        below = template.inner.values() if isinstance(template.inner, Mapping) else template.inner
        for inner in below:
            yield from _missing(inner, values)
    else:
        yield from template.sure_of(values)


def _trial_name(ctx: AgentContext) -> str:
    return quote(ctx.trial.label, safe="/[]@ ,:=+")

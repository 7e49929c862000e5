"""A model provider on 127.0.0.1, for tests and benchmarks that must not leave the machine.

It speaks OpenAI's chat completions and responses and Anthropic's messages, whole and streamed, and answers
by a script::

    with ModelServer([ReplyPlan(calls=(("add", {"a": 1, "b": 2}),)), ReplyPlan(text="3")]) as server:
        litellm.completion("openai/some-model", api_base=server.openai_base, api_key="x", ...)

As a program, ``python -m tests.loopback.model_server --port 0 --latency-ms 200`` prints its address and
serves until it is ended; ``GET /stats`` gives its counters and ``GET /reset`` sets them to zero.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from . import anthropic_wire, openai_wire, responses_wire
from .connection import Answer, Connection, Request, Traffic, http_event_stream, http_raw, http_reply
from .replies import Answered, Json, RawReply, Replies, ReplyPlan, Wire, chooser, tool_then_text

__all__ = ["ModelServer", "RawReply", "ReplyPlan", "Request"]

OK = (ReplyPlan(text="ok"),)


class ModelServer:
    """A loopback model provider that runs in a thread of its own.

    A callable given as ``replies`` is called in that thread with the body of the request and its number,
    counted from 0; when it raises, the client gets a status of 500 that quotes the exception.

    How long a reply takes is said by its plan, else by ``latency_s``; ``hang_s`` of the plan is added.
    """

    def __init__(
        self,
        replies: Replies = OK,
        latency_s: float = 0.0,
        *,
        port: int = 0,
        keep_requests: bool = True,
    ) -> None:
        self._choose = chooser(replies)
        self._latency_s = latency_s
        self._port = port
        self._keep_requests = keep_requests
        self._traffic = Traffic()
        self._requests: list[Request] = []
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Listen; the server answers when this returns."""
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="model-server", daemon=True)
        self._thread.start()
        started.result()
        return self

    def stop(self) -> None:
        """Close every connection, answered or not, and wait for the thread to end."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = None

    def join(self) -> None:
        """Wait until another thread stops the server."""
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def anthropic_base(self) -> str:
        """The address to give to a client of Anthropic's messages."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_base(self) -> str:
        """The address to give to a client of OpenAI's chat completions or responses."""
        return f"{self.anthropic_base}/v1"

    @property
    def requests(self) -> list[Request]:
        """The requests to a model so far, in the order of their arrival."""
        return list(self._requests)

    def forget(self) -> None:
        """Count from 0 again, and forget the requests so far; to be called while none is on its way."""
        self._traffic.reset()
        self._requests.clear()

    @property
    def peak_in_flight(self) -> int:
        """The most requests that were waiting for their reply at one time."""
        return self._traffic.peak_in_flight

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(started))
        except OSError as error:
            started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(
            lambda: Connection(self._answer, self._traffic), "127.0.0.1", self._port, backlog=1024
        )
        self._port = server.sockets[0].getsockname()[1]
        started.set_result(None)
        await self._stopping.wait()
        server.close()
        for transport in tuple(self._traffic.open):
            transport.abort()

    def _answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            return self._model_answer(openai_wire, request)
        if path.endswith("/v1/messages"):
            return self._model_answer(anthropic_wire, request)
        if path.endswith("/responses"):
            return self._model_answer(responses_wire, request)
        if path == "/stats":
            return Answer(http_reply(200, self._traffic.as_json()), counted=False)
        if path == "/reset":
            self.forget()
            return Answer(http_reply(200, {}), counted=False)
        body = openai_wire.error(404, f"Invalid URL ({request.method} {path})", "unknown_url", 0)
        return Answer(http_reply(404, body), counted=False)

    def _model_answer(self, wire: Wire, request: Request) -> Answer:
        n = self._traffic.requests
        if self._keep_requests:
            self._requests.append(request)
        if not isinstance(request.body, dict):
            return Answer(http_reply(400, wire.error(400, "The body is no JSON object.", "", n)))
        plan = self._plan(request.body, n)
        if isinstance(plan, RawReply):
            return Answer(http_raw(plan), cut=plan.ending == "cut")
        delay_s = plan.hang_s + (self._latency_s if plan.latency_s is None else plan.latency_s)
        return Answer(None if plan.drop else _payload(wire, plan, request.body, n), delay_s)

    def _plan(self, body: Json, n: int) -> Answered:
        try:
            return self._choose(body, n)
        except Exception as error:
            return ReplyPlan(status=500, text=f"the script of replies raised {error!r}")


def _payload(wire: Wire, plan: ReplyPlan, request: Json, n: int) -> bytes:
    headers = {"x-request-id": f"req_{n}", "request-id": f"req_{n}", **plan.headers}
    if plan.status >= 400:
        return http_reply(plan.status, wire.error(plan.status, plan.text, plan.error_code, n), headers)
    if request.get("stream"):
        return http_event_stream(wire.stream(plan, request, n), headers)
    return http_reply(plan.status, wire.reply(plan, request, n), headers)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="A model provider on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free one")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--text", default="The answer is 42.")
    parser.add_argument("--tool", help="call this tool until a request holds a tool result")
    parser.add_argument("--tool-args", type=json.loads, default={}, metavar="JSON")
    arguments = parser.parse_args()
    replies: Replies = [ReplyPlan(text=arguments.text)]
    if arguments.tool:
        replies = tool_then_text(arguments.text, arguments.tool, arguments.tool_args)
    server = ModelServer(replies, arguments.latency_ms / 1000, port=arguments.port, keep_requests=False)
    server.start()
    print(f"listening {server.anthropic_base}", flush=True)
    try:
        server.join()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()

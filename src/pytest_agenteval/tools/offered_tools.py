"""A trial's own tools, offered over MCP to programs and to whatever else takes the address of a server.

This is the part of the protocol that a server of tools needs (streamable HTTP, without streams and sessions),
written here so that nothing has to be installed: https://modelcontextprotocol.io/specification
"""

from __future__ import annotations

import contextvars
import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any
from urllib.parse import urlsplit

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.text.json_values import compact_json
from pytest_agenteval.tools.mcp_servers import LoopThread
from pytest_agenteval.tools.tool import ToolResult
from pytest_agenteval.tools.toolbox import ToolBox

# Versions of the protocol that are supported, the newest first. They do not differ in what is used here.
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = (
    *(-32700, -32600, -32601),
    *(-32602, -32603),
)
_LOCAL = ("127.0.0.1", "localhost", "::1")


class ProtocolError(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class OfferedTools:
    """Answers the requests of one trial's agent for its tools; each call goes through the trial's tool box.

    It is made within the trial, to which all calls belong. ``on_broken`` gets the exception that breaks the
    trial. Requests may come from several threads at once. Once it is closed, no call is made.
    """

    def __init__(
        self, box: ToolBox, recorder: Recorder, on_broken: Callable[[BaseException], object] = repr
    ) -> None:
        self._box, self._recorder, self._on_broken = box, recorder, on_broken
        self._context = contextvars.copy_context()
        self._loop = LoopThread("agenteval-offered-tools")
        self._numbers = itertools.count(1)
        self._calls: set[Future[ToolResult]] = set()
        self._changing, self._closed = threading.Lock(), False

    def answer(self, method: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Answer an HTTP request; ``headers`` have names in small letters."""
        # The protocol requires this check: else a web page could call the tools through the user's browser.
        if urlsplit(headers.get("origin", "")).hostname not in (None, *_LOCAL):
            return Response(403, "Forbidden", body="only programs on this machine are answered")
        if method != "POST":  # no stream of the server's own, and no session to end
            return Response(405, "Method Not Allowed", {"Allow": "POST"})
        try:
            message = json.loads(body or b"")
        except ValueError:
            return _json_response(_error_message(None, PARSE_ERROR, "the body is not JSON"))
        if isinstance(message, list):  # several at once, as one form of the protocol had it
            answers = [answer for each in message if (answer := self._answer_message(each)) is not None]
            return _json_response(answers) if answers else Response(202, "Accepted")
        answer = self._answer_message(message)
        return Response(202, "Accepted") if answer is None else _json_response(answer)

    def _answer_message(self, message: Any) -> Mapping[str, Any] | None:
        """Give the answer to a request; None for a notification or an answer."""
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            is_answer = isinstance(message, dict) and {"result", "error"} & message.keys()
            if is_answer:
                return None
            return _error_message(None, INVALID_REQUEST, "neither a request nor a notification")
        if message.get("id") is None:
            return None
        params = message.get("params")
        try:
            result = self._result(message["method"], params if isinstance(params, dict) else NOTHING)
        except ProtocolError as wrong:
            return _error_message(message["id"], wrong.code, str(wrong))
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _result(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "initialize":
            from pytest_agenteval import __version__

            version = params.get("protocolVersion")
            return {
                "protocolVersion": version if version in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "agenteval", "version": __version__},
            }
        if method == "tools/list":
            tools = []
            for spec in self._box.specs:
                # The protocol requires an object, also for a tool without parameters.
                schema = {"type": "object", **(dict(spec.parameters) or {"properties": {}})}
                tools.append({"name": spec.name, "description": spec.description, "inputSchema": schema})
            return {"tools": tools}
        if method == "tools/call":
            called = self._call(params)
            content = [{"type": "text", "text": called.content}]
            # As text and, where it is a map, as structured content too: clients read either.
            structured = {"structuredContent": called.value} if isinstance(called.value, dict) else {}
            return {"content": content, "isError": called.error is not None, **structured}
        if method == "ping":
            return {}
        raise ProtocolError(METHOD_NOT_FOUND, f"there is no method {method}")

    def _call(self, params: Mapping[str, Any]) -> ToolResult:
        name, args, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str) or not isinstance(args, dict | None):
            raise ProtocolError(INVALID_PARAMS, "a call has a name, which is a text, and arguments, a map")
        number = next(self._numbers)
        # Clients have the id that the model gave a call under one of these keys.
        keys = ("claudecode/toolUseId", "toolUseId", "toolCallId")
        named = (meta.get(key) for key in keys) if isinstance(meta, dict) else ()
        # With the model's id, the call is the one that the model's reply has announced in the transcript.
        id = next((each for each in named if isinstance(each, str)), "") or f"mcp-{number}"
        call = ToolCall(id, self._recorder.turn, 0, name, args or {})
        with self._changing:
            if self._closed:
                raise ProtocolError(INTERNAL_ERROR, "the trial has ended: no tool is called")
            # Under the lock, so that ``close`` sees every call that it has to cut off.
            future = self._loop.submit(self._box.call(call), self._context)
            self._calls.add(future)
        try:
            return future.result()
        except CancelledError:
            raise ProtocolError(INTERNAL_ERROR, "the trial has ended before the call did") from None
        except BaseException as broken:
            self._on_broken(broken)
            raise ProtocolError(INTERNAL_ERROR, "the trial is broken: no tool is called any more") from None
        finally:
            self._calls.discard(future)

    def close(self) -> None:
        """Cut off the calls that are under way, and refuse all later ones."""
        with self._changing:
            self._closed = True
        for call in tuple(self._calls):
            call.cancel()
        self._loop.close()


def _error_message(id: Any, code: int, message: str) -> Mapping[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _json_response(value: Mapping[str, Any] | Sequence[Any]) -> Response:
    return Response(200, "OK", {"Content-Type": "application/json"}, compact_json(value))

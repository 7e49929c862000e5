"""Sessions with MCP servers through the official package ``mcp``, which no other module imports.

Values from servers have the protocol's own names (``inputSchema``, ``isError``), and not those of the
package's attributes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.tools.tool import ToolFailed

# The key of a tool's ``_meta`` that holds an ``inputSchema`` that the protocol does not allow.
UNSUPPORTED_SCHEMA = "pytest-agenteval/inputSchema"


class ServedTool(Record, frozen=True):
    """A tool as its server declares it; ``parameters`` is the JSON Schema of its arguments as declared."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = NOTHING


def read_served_tool(tool: Mapping[str, Any]) -> ServedTool:
    """Read one entry of ``tools/list``."""
    schema = tool.get("inputSchema") or NOTHING
    meta = tool.get("_meta")
    if isinstance(meta, Mapping) and UNSUPPORTED_SCHEMA in meta:
        schema = meta[UNSUPPORTED_SCHEMA] or NOTHING
    # In MCP, arguments are always an object, also if a server omits the type.
    if isinstance(schema, Mapping) and schema and "type" not in schema:
        schema = {"type": "object", **schema}
    return ServedTool(tool["name"], tool.get("description") or tool.get("title") or "", schema)


def is_object_schema(schema: Any) -> bool:
    """Whether a schema can be that of a tool's arguments: an object's, with its properties in a map."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return isinstance(properties, Mapping) and isinstance(required, list)


def read_result(result: Mapping[str, Any]) -> Any:
    """Give the value of a call's result: its structured content if it has any, else its text.

    Raises ToolFailed if the result reports that the call failed.
    """
    text = "\n".join(map(_text_of, result.get("content") or ()))
    if result.get("isError"):
        raise ToolFailed(text or "the tool failed, and its server does not say why", "tool_error")
    structured = result.get("structuredContent")
    return text if structured is None else structured


def _text_of(block: Mapping[str, Any]) -> str:
    """Give a block's text; of other content, its kind, format and size."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource_link":
        return f"[link to {block.get('name') or 'a resource'}: {block.get('uri')}]"
    resource: Mapping[str, Any] = block.get("resource") or NOTHING if kind == "resource" else block
    if "text" in resource:
        return str(resource["text"])
    form = resource.get("mimeType") or "of an unknown form"
    data = resource.get("data") or resource.get("blob") or ""
    # Four characters of base64 hold three bytes, less one for each = at the end.
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{kind}: {form}, {size} bytes, not shown]"


Session: TypeAlias = Any
Streams: TypeAlias = "tuple[Any, Any]"
Transport: TypeAlias = "AbstractAsyncContextManager[Streams]"


class ConnectionLost(Exception):
    """The server no longer answers; the text is what the client knows of it."""


class InvalidResult(Exception):
    """The server's answer does not fit the protocol; the text says where, and what is wrong."""


class RequestRejected(Exception):
    """The server answered with an error of the protocol, or with a result that its own schema forbids."""


@asynccontextmanager
async def session_over(transport: Transport) -> AsyncIterator[Session]:
    """Open a session, in the newest form of the protocol that both sides know."""
    import mcp

    async with mcp.Client(_with_lenient_schemas(transport), cache=None) as client:
        yield client


@asynccontextmanager
async def _with_lenient_schemas(transport: Transport) -> AsyncIterator[Streams]:
    """Make a server usable whose list of tools holds a schema that the package does not support."""
    # The package would refuse the whole list for one such schema.
    async with transport as (incoming, outgoing):
        yield _LenientStream(incoming), outgoing


class _LenientStream:
    """A stream of a server's messages, with unsupported schemas moved to where the package ignores them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        message = await self._stream.receive()
        result = getattr(getattr(message, "message", None), "result", None)
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                if not _is_supported(tool.get("inputSchema")):
                    meta = tool["_meta"] if isinstance(tool.get("_meta"), dict) else {}
                    tool["_meta"] = {**meta, UNSUPPORTED_SCHEMA: tool.get("inputSchema")}
                    tool["inputSchema"] = {"type": "object"}
                if not _is_supported(tool.get("outputSchema")):
                    tool.pop("outputSchema", None)
        return message

    def __aiter__(self) -> _LenientStream:
        return self

    async def __anext__(self) -> Any:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _LenientStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)


def _is_supported(schema: Any) -> bool:
    return is_object_schema(schema) and "type" in schema


async def list_tools(session: Session) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await _answer(session.list_tools(cursor=cursor))
        tools += [_in_protocol_words(tool) for tool in page.tools]
        cursor = _in_protocol_words(page).get("nextCursor")
        if not cursor:
            return tools


async def call_tool(session: Session, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool; raises RequestRejected, InvalidResult or ConnectionLost if no result comes."""
    return _in_protocol_words(await _answer(session.call_tool(name, dict(args))))


async def _answer(request: Awaitable[Any]) -> Any:
    try:
        return await request
    except ValueError as invalid:  # pydantic's, of the package's classes
        raise InvalidResult(first_error_line(invalid)) from None
    except RuntimeError as broken:  # a result that does not fit the schema that the server gave of it
        raise RequestRejected(str(broken)) from None
    except Exception as raised:
        error = getattr(raised, "error", None)
        if error is None or error.code == -32000:  # the package's own code for a closed connection
            raise ConnectionLost(str(raised) or type(raised).__name__) from None
        raise RequestRejected(error.message) from None


def first_error_line(raised: BaseException) -> str:
    """Give an exception's message; of pydantic's list of errors, the first one with its place."""
    mistakes: Any = getattr(raised, "errors", None)
    if not isinstance(raised, ValueError) or not callable(mistakes):
        return str(raised) or type(raised).__name__
    listed = mistakes(include_url=False, include_context=False, include_input=False)
    more = f", and {len(listed) - 1} more" if len(listed) > 1 else ""
    return f"{'.'.join(map(str, listed[0]['loc']))}: {listed[0]['msg']}{more}" if listed else "no result"


def _in_protocol_words(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return fields


@asynccontextmanager
async def line_streams(
    read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]
) -> AsyncIterator[Streams]:
    """Carry a session over lines: ``read`` gives the next line, empty at the end; ``write`` sends one.

    Lines that are no messages are ignored.
    """
    import anyio
    import mcp  # noqa: F401  # first, whole
    from mcp.shared.message import SessionMessage

    incoming, received = anyio.create_memory_object_stream[Any](0)
    sent, outgoing = anyio.create_memory_object_stream[Any](0)
    closed = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)

    async def receive() -> None:
        async with incoming:
            while line := await read():
                message = _message(line)
                if message is not None:
                    await incoming.send(SessionMessage(message))

    async def send() -> None:
        async with outgoing:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await write(text.encode() + b"\n")

    async def until_closed(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except closed:
            incoming.close()  # so that requests that wait for an answer fail

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_closed, receive)
        tasks.start_soon(until_closed, send)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()


def _message(line: bytes) -> Any:
    import mcp

    # Some servers print other lines to their output by mistake.
    try:
        return mcp.types.jsonrpc_message_adapter.validate_json(line)
    except ValueError:
        return None


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], on_status: Callable[[int], object] = int
) -> AsyncIterator[Streams]:
    """Carry a session over streamable HTTP; ``on_status`` is called with the status of each response."""
    import mcp  # noqa: F401  # first, whole
    from mcp.client import streamable_http
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def note(response: Any) -> None:
        on_status(response.status_code)

    async with (
        create_mcp_http_client(headers=dict(headers)) as client,
        streamable_http.streamable_http_client(url, http_client=client) as streams,
    ):
        client.event_hooks = {"response": [note]}
        yield streams[0], streams[1]

"""Requests to Anthropic's messages API, equal to litellm's, and its replies in the terms of the request.

A conversation becomes turns of user and model, each a list of blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.traffic import Json, as_map, as_text, maps_in
from pytest_agenteval.chat.direct.model_request import ModelAsk
from pytest_agenteval.chat.direct.provider_schemas import anthropic_input_schema, anthropic_reply_schema
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.tool_spec import NO_PARAMETERS, parse_arguments
from pytest_agenteval.text.json_values import compact_json

Block = dict[str, Any]

# Replaces a blank text, which the provider refuses. The words are litellm's.
EMPTY_TEXT = "[System: Empty message content sanitised to satisfy protocol]"

NO_ID = "tool_use_id"
# The key of the object that wraps arguments that are no JSON object.
UNREADABLE = "INVALID_JSON"

# Characters that the provider refuses in the names of tools and in the ids of their calls.
_FOREIGN_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
_DOCUMENTS = ("application/pdf", "text/plain")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def marked(block: Block, source: Mapping[str, Any]) -> Block:
    """Copy a cache mark onto a block from its source."""
    mark = source.get("cache_control")
    return {**block, "cache_control": dict(mark)} if isinstance(mark, Mapping) else block


def system_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the texts of a system message without blank ones, which the provider refuses."""
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(content), message)] if content.strip() else []
    texts = (part for part in _content_parts(content) if part.get("type") == "text")
    texts = (part for part in texts if as_text(part.get("text")).strip())
    return [marked(text_block(part["text"]), part) for part in texts]


def user_blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [marked(text_block(content if content.strip() else EMPTY_TEXT), message)]
    return list(_visible_blocks(_content_parts(content), blank=EMPTY_TEXT))


def result_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Give the result of one call: its text, or blocks with media."""
    content = message.get("content")
    shown = isinstance(content, list | tuple)
    blocks = list(_visible_blocks(_content_parts(content), blank="")) if shown else as_text(content)
    result = {"type": "tool_result", "tool_use_id": wire_id(message.get("tool_call_id")), "content": blocks}
    return [marked(result, message)]


def reply_blocks(message: Mapping[str, Any]) -> Iterator[Block]:
    """Give the model's texts without its calls; a blank text is left out beside anything else."""
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    called = any(call.get("type", "function") == "function" for call in calls)
    blank = "" if called or any(map(_goes_back, _content_parts(message.get("content")))) else EMPTY_TEXT
    if isinstance(content, str) and (text := content if content.strip() else blank):
        yield marked(text_block(text), message)
    for part in _content_parts(content):
        if part.get("type") != "text":
            if _goes_back(part):
                yield dict(part)
        elif text := as_text(part.get("text")) if as_text(part.get("text")).strip() else blank:
            yield marked(text_block(text), part)


def _goes_back(part: Mapping[str, Any]) -> bool:
    """Whether a part of a reply that is no text returns to the provider with the conversation."""
    kind = as_text(part.get("type"))
    of_provider = kind == "server_tool_use" or kind.endswith("_tool_result")
    return of_provider or (kind == "thinking" and is_signed(part))


def is_signed(block: Mapping[str, Any]) -> bool:
    """Whether a block may return to the provider, which checks its own signature of a thought."""
    return block.get("type") != "thinking" or bool(as_text(block.get("signature")))


def call_blocks(calls: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[Block]:
    """Give the model's calls, under the names that the tools have on the wire."""
    for call in calls:
        function = as_map(call.get("function"))
        name = as_text(function.get("name"))
        args, raw = parse_arguments(as_text(function.get("arguments")))
        use = {"type": "tool_use", "id": wire_id(call.get("id")), "name": names.get(name, name)}
        if call.get("type", "function") == "function":
            yield marked({**use, "input": dict(args) if raw is None else {UNREADABLE: raw}}, call)


def wire_id(id: Any) -> str:
    """Give the id of a call in the provider's alphabet."""
    return _FOREIGN_CHARACTERS.sub("_", as_text(id)) or NO_ID


def _content_parts(content: Any) -> Sequence[Mapping[str, Any]]:
    listed = content if isinstance(content, list | tuple) else ()
    return [part for part in listed if isinstance(part, Mapping)]


def _visible_blocks(parts: Iterable[Mapping[str, Any]], *, blank: str) -> Iterator[Block]:
    """Give the blocks of parts; ``blank`` replaces a blank text, unless it is empty."""
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            text = as_text(part.get("text"))
            yield marked(text_block(text if text.strip() or not blank else blank), part)
        elif kind == "image_url":
            image = part.get("image_url")
            url = as_text(image) or as_text(as_map(image).get("url"))
            source = _source(url, as_text(as_map(image).get("format")))
            shown_as = "document" if source.get("media_type") in _DOCUMENTS else "image"
            yield marked({"type": shown_as, "source": source}, part)
        elif kind == "document":
            yield dict(part)
        elif kind == "file":
            yield marked(_file_block(as_map(part.get("file"))), part)


def _source(url: str, media_type: str) -> Block:
    media_named, encoded, data = url.removeprefix("data:").partition(";base64,")
    if not url.startswith("data:") or not encoded:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type or media_named.replace("\\/", "/"), "data": data}


def _file_block(file: Mapping[str, Any]) -> Block:
    """Give a file by its data, its id at the provider, or its address."""
    data, id, media_type = (as_text(file.get(name)) for name in ("file_data", "file_id", "format"))
    if data:
        return {"type": "document", "source": _source(data, media_type)}
    if not media_type and id.startswith("http"):
        return {"type": "document", "source": {"type": "url", "url": id}}
    if media_type in _DOCUMENTS or media_type in _IMAGES:
        kind = "document" if media_type in _DOCUMENTS else "image"
        return {"type": kind, "source": {"type": "file", "file_id": id}}
    return {"type": "container_upload", "file_id": id}


def blocks_of(messages: object) -> Iterator[Json]:
    """Give every block of a body's messages, those of results included."""
    for message in maps_in(messages):
        for block in maps_in(message.get("content")):
            yield block
            yield from maps_in(block.get("content"))


# Precedes a system message that is sent as a user's message. The words are litellm's.
SYSTEM_NOTE = (
    "Operator note (not from the user): the following was originally a mid-conversation system-role reminder."
)


class AnthropicTurn(NamedTuple):
    """The blocks of one message; ``role`` is user, result, assistant or system."""

    role: str
    blocks: list[Block]


def split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Block], Sequence[Mapping[str, Any]]]:
    """Give the system messages at the start of a conversation as blocks, and the rest of it."""
    leading = list(takewhile(lambda message: _role(message) == "system", messages))
    return [block for message in leading for block in system_blocks(message)], messages[len(leading) :]


def anthropic_messages(
    messages: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
    echoes: Mapping[str, Any],
    *,
    takes_system: bool,
) -> list[dict[str, Any]]:
    """Give the messages behind the system prompt.

    ``names`` are the tools' names on the wire, ``echoes`` the thoughts that led to calls, by the id of the
    first call; ``takes_system`` means that the model accepts system messages in the middle of a conversation.
    """
    turns = [turn for message in messages if (turn := _turn(message, names, echoes)).blocks]
    placed = _with_system(turns) if takes_system else _without_system(turns)
    # The provider expects user and model to alternate, so turns of one role become one message.
    joined = [_joined_turns(role, list(run)) for role, run in groupby(placed, key=_wire_role)]
    if joined and joined[-1]["role"] == "assistant":
        # The model is to continue this reply, and the provider refuses trailing blanks there.
        joined[-1]["content"] = [
            {**block, "text": block["text"].rstrip()} if block["type"] == "text" else block
            for block in joined[-1]["content"]
        ]
    return joined


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role") or "assistant"
    return {"developer": "system", "tool": "result", "function": "result"}.get(role, role)


def _turn(message: Mapping[str, Any], names: Mapping[str, str], echoes: Mapping[str, Any]) -> AnthropicTurn:
    role = _role(message)
    if role == "assistant":
        calls = message.get("tool_calls") or ()
        blocks = [*reply_blocks(message), *call_blocks(calls, names)]
        thoughts = (echoes.get(calls[0].get("id")) if calls else None) or message.get("thinking_blocks") or ()
        if not any(block["type"] == "thinking" for block in blocks):  # else they are among its own blocks
            blocks = [*(dict(thought) for thought in thoughts if is_signed(thought)), *blocks]
        return AnthropicTurn(role, blocks)
    read = {"system": system_blocks, "result": result_blocks}.get(role, user_blocks)
    return AnthropicTurn(role, read(message))


def _wire_role(turn: AnthropicTurn) -> str:
    return "user" if turn.role == "result" else turn.role


def _without_system(turns: Iterable[AnthropicTurn]) -> Iterator[AnthropicTurn]:
    """Turn system messages into the user's."""
    waiting: list[AnthropicTurn] = []
    for turn in turns:
        if turn.role == "system":
            waiting.append(_as_users(turn))
            continue
        # The provider requires results right after their calls, so these messages wait until after them.
        if turn.role != "result":
            yield from waiting
            waiting = []
        yield turn
    yield from waiting


def _with_system(turns: Sequence[AnthropicTurn]) -> Iterator[AnthropicTurn]:
    """Move system messages behind the user's turn beside them, where the provider accepts them.

    Between two replies and behind the last one there is no such turn: there they become the user's.
    """
    waiting: list[AnthropicTurn] = []
    speaks = [turn.role != "system" for turn in turns]
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            yield from waiting
            waiting = []
        if turn.role != "system":
            yield turn
        else:
            before = next((turns[at] for at in range(place, -1, -1) if speaks[at]), None)
            after = next((turns[at] for at in range(place, len(turns)) if speaks[at]), None)
            if any(beside is not None and _wire_role(beside) == "user" for beside in (before, after)):
                waiting.append(turn)
            else:
                yield _as_users(turn)
    yield from waiting


def _as_users(turn: AnthropicTurn) -> AnthropicTurn:
    return AnthropicTurn("user", [text_block(SYSTEM_NOTE), *turn.blocks])


def _joined_turns(role: str, turns: Iterable[AnthropicTurn]) -> dict[str, Any]:
    blocks: list[Block] = []
    called: set[str] = set()
    for block in (block for turn in turns for block in turn.blocks):
        if block["type"] == "tool_use":
            # Two blocks with the same id are the same call.
            if block["id"] in called:
                continue
            called.add(block["id"])
        blocks.append(block)
    return {"role": role, "content": blocks}


FORMAT = "anthropic.messages"
PATH = "/v1/messages"
ANTHROPIC_VERSION = "2023-06-01"
LONGEST_NAME = 128
# A model without structured output gives its reply as the arguments of this tool.
REPLY_TOOL = "json_tool_call"
# Is offered if a conversation holds calls and no tool is offered, because the provider requires one.
DUMMY_TOOL: Mapping[str, Any] = {
    "name": "dummy_tool",
    "input_schema": NO_PARAMETERS,
    "type": "custom",
    "description": "This is a dummy tool call",
}
# Is also offered if a conversation holds files that only the provider's container can read.
CODE_EXECUTION: Mapping[str, Any] = {"name": "code_execution", "type": "code_execution_20250522"}
# The most tokens of a reply of a model that the table of prices lacks. That is the limit of newer models.
MOST_TOKENS = 128_000
TOKENS_AFTER_THOUGHT = 4096
# Tokens of reasoning by effort, for models that do not choose their number themselves.
THINKING_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 2048,
    "high": 4096,
    "xhigh": 8192,
    "max": 16384,
}

# A mail address or a telephone number, which Anthropic does not accept as a user's id.
_PERSONAL_DATA = re.compile(r"[\w.%+-]+@[\w.-]+\.\w{2,}|\+?[\d\s()-]{7,}")
_BETAS_OF_TOOLS: Mapping[str, str] = {
    "web_fetch": "web-fetch-2025-09-10",
    "memory": "context-management-2025-06-27",
    "tool_search_tool": "advanced-tool-use-2025-11-20",
    "code_execution_20250825": "code-execution-2025-08-25",
}


def body_of(ask: ModelAsk) -> dict[str, Any]:
    maps = ("response_schema", "settings", "further", "extra_body")  # of whatever kind: frozen ones, too
    ask = replace(ask, **{name: json.loads(compact_json(getattr(ask, name))) for name in maps})
    names, thinking = tool_names(ask.tools), _thinking(ask)
    system, rest = split_system(ask.messages)
    takes_system = ask.abilities.get("supports_mid_conversation_system") is True
    messages = anthropic_messages(rest, names, ask.echoes, takes_system=takes_system)
    most = _max_tokens(ask, {**thinking, **ask.extra_body})
    body: dict[str, Any] = {"model": ask.model, "messages": messages, "max_tokens": most}
    if system:
        body["system"] = system
    takes_any = ask.abilities.get("supports_sampling_params") is not False
    for name in ("temperature", "top_p"):
        value = ask.settings.get(name)
        if value is not None and (takes_any or (name == "temperature" and value == 1)):
            body[name] = value
    # A tool without a function is in the provider's own form.
    tools = [_declaration(tool, names) if "function" in tool else dict(tool) for tool in ask.tools]
    choice: dict[str, Any] | None = None
    may_force = ask.abilities.get("supports_forced_tool_use") is not False
    if ask.response_schema is not None and not _has_structured_output(ask):
        tools.insert(0, {"name": REPLY_TOOL, "input_schema": {"type": "object", **ask.response_schema}})
        # With an effort, even none, the model cannot be forced to call a tool.
        thinks = ask.settings.get("reasoning_effort") is not None and _can_think(ask)
        thinks = thinks or as_map(ask.extra_body.get("thinking")).get("type") == "enabled"
        choice = {"type": "tool", "name": REPLY_TOOL} if may_force and not thinks else None
    if ask.tools and (wanted := _tool_choice(ask.settings.get("tool_choice"), names)):
        choice = wanted if may_force or wanted["type"] not in ("any", "tool") else {"type": "auto"}
    if not tools and any(message.get("tool_calls") for message in ask.messages):
        tools.append(dict(DUMMY_TOOL))
    if tools and any(block.get("type") == "container_upload" for block in blocks_of(messages)):
        tools.append(dict(CODE_EXECUTION))
    body |= thinking
    if tools:
        body["tools"] = tools
    if choice:
        body["tool_choice"] = choice
    if ask.response_schema is not None and _has_structured_output(ask):
        schema = anthropic_reply_schema(ask.response_schema)
        body["output_format"] = {"type": "json_schema", "schema": schema}
    if ask.streamed:
        body["stream"] = True
    # The user's extra_body comes last, so that it overrides everything above.
    return {**body, **_further_settings(body, ask.further), **ask.extra_body}


def _thinking(ask: ModelAsk) -> dict[str, Any]:
    """Give how much a model has to think, as an effort or in tokens; empty for one that cannot."""
    effort = ask.settings.get("reasoning_effort")
    if effort in (None, "none") or not _can_think(ask):
        return {}
    if effort not in THINKING_BUDGETS:
        words = f"reasoning_effort: expected none, {', '.join(THINKING_BUDGETS)}; found {effort!r}"
        raise AttemptFailed(f"bad_request: {words}", cause="bad_request", retryable=False)
    if ask.abilities.get("supports_adaptive_thinking") is not True:
        return {"thinking": {"type": "enabled", "budget_tokens": THINKING_BUDGETS[effort]}}
    # Else the thoughts would come back empty.
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": "low" if effort == "minimal" else effort}}


def _can_think(ask: ModelAsk) -> bool:
    return any(ask.abilities.get(f"supports_{way}") is True for way in ("reasoning", "adaptive_thinking"))


def _max_tokens(ask: ModelAsk, thinking: Mapping[str, Any]) -> int:
    """Give how long a reply may be, thoughts included; the provider requires this limit."""
    if most := ask.settings.get("max_tokens"):
        return int(most)
    budget = as_map(thinking.get("thinking")).get("budget_tokens")
    if isinstance(budget, int):
        return budget + TOKENS_AFTER_THOUGHT
    most = ask.abilities.get("max_output_tokens", ask.abilities.get("max_tokens"))
    return int(most) if isinstance(most, int) else MOST_TOKENS


def _declaration(tool: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    function = as_map(tool["function"])
    name = as_text(function.get("name"))
    schema = anthropic_input_schema(as_map(function.get("parameters", NO_PARAMETERS)))
    declaration: dict[str, Any] = {"name": names.get(name, name), "input_schema": schema, "type": "custom"}
    if function.get("description") is not None:
        declaration["description"] = function["description"]
    return marked(declaration, tool if "cache_control" in tool else function)


def _tool_choice(choice: Any, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Give which tool to call; ``choice`` is one of OpenAI's words or maps, or the name of a tool."""
    kind = choice if isinstance(choice, str) else as_text(as_map(choice).get("type"))
    name = choice if isinstance(choice, str) else as_text(as_map(as_map(choice).get("function")).get("name"))
    choices = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
    if kind in choices and (not name or name == kind):
        return {"type": choices[kind]}
    return {"type": "tool", "name": names.get(name, name)} if name else None


def _has_structured_output(ask: ModelAsk) -> bool:
    return ask.abilities.get("supports_native_structured_output") is True


def _further_settings(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Give what further settings add to a body, where Anthropic has an equivalent."""
    written: dict[str, Any] = {}
    if (stop := further.get("stop")) is not None:
        written["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if (most := further.get("max_completion_tokens")) is not None:
        written["max_tokens"] = most
    if isinstance(user := further.get("user"), str) and not _PERSONAL_DATA.fullmatch(user):
        written["metadata"] = {"user_id": user}
    at_once = further.get("parallel_tool_calls")
    if at_once is not None and "tools" in body:
        choice = body.get("tool_choice") or {"type": "auto"}
        written["tool_choice"] = {**choice, "disable_parallel_tool_use": not at_once}
    return written


def tool_names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give the name on the wire of each tool whose own name the provider would refuse.

    A name that was made valid and is taken already gets a number.
    """
    own = [as_text(as_map(tool.get("function")).get("name")) for tool in tools]
    # A valid name stays with its tool, even if an earlier tool's name becomes equal to it.
    taken = {name for name in own if name and wire_name(name) == name}
    names: dict[str, str] = {}
    for name in own:
        if name and name not in taken and name not in names:
            free, number = wire_name(name), 1
            while free in {*taken, *names.values()}:
                number += 1
                ending = f"_{number}"
                free = wire_name(name)[: LONGEST_NAME - len(ending)] + ending
            names[name] = free
    return names


def wire_name(name: str) -> str:
    """Give a name in the provider's alphabet; another tool may have it already."""
    return _FOREIGN_CHARACTERS.sub("_", name)[:LONGEST_NAME]


def headers_of(key: str, body: Mapping[str, Any]) -> dict[str, str]:
    """Give the headers with the key, and with the names of the betas that a body uses."""
    subscribed = key.startswith("sk-ant-oat")  # a subscription's key goes into another header
    # The provider requires the name of each beta that a request uses.
    betas = {"oauth-2025-04-20"} if subscribed else set()
    output = as_map(body.get("output_config"))
    if body.get("output_format") is not None or output.get("format") is not None:
        betas.add("structured-outputs-2025-11-13")
    if output.get("effort") and as_map(body.get("thinking")).get("type") != "adaptive":
        betas.add("effort-2025-11-24")
    for block in blocks_of(body.get("messages")):
        if block.get("type") == "container_upload" or as_map(block.get("source")).get("type") == "file":
            betas.add("files-api-2025-04-14")
    if body.get("context_management") is not None:
        betas.add("context-management-2025-06-27")
    if body.get("mcp_servers"):
        betas.add("mcp-client-2025-04-04")
    for tool in maps_in(body.get("tools")):
        kind = as_text(tool.get("type"))
        betas |= {beta for prefix, beta in _BETAS_OF_TOOLS.items() if kind.startswith(prefix)}
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if betas:
        headers["anthropic-beta"] = ",".join(sorted(betas))
    if subscribed:
        from_browser = {"anthropic-dangerous-direct-browser-access": "true"}
        return {**headers, "authorization": f"Bearer {key}", **from_browser}
    return {**headers, "x-api-key": key} if key else headers


def echo_of(whole: Json) -> Any:
    """Give the thoughts of a reply, which the provider wants back with the results of its calls."""
    kinds = ("thinking", "redacted_thinking")
    return [dict(block) for block in maps_in(whole.get("content")) if block.get("type") in kinds] or None


def reply_of(parts: ReplyParts, ask: ModelAsk) -> ReplyParts:
    """Give a reply in the terms of the ask: tools by their own names, a schema's object as text."""
    own = {wire: name for name, wire in tool_names(ask.tools).items()}
    last = ask.messages[-1] if ask.messages else {}
    begins_reply = last.get("role") == "assistant" and last.get("prefix")
    prefix = as_text(last.get("content")) if begins_reply else ""
    # The provider continues a reply that the conversation begins, without repeating its beginning.
    content = parts.content if parts.content.startswith(prefix) else prefix + parts.content
    calls = tuple(
        replace(call, name=own[call.name]) if call.by == "agent" and call.name in own else call
        for call in parts.calls
    )
    objects = [call for call in calls if call.name == REPLY_TOOL and call.by == "agent"]
    if ask.response_schema is None or not objects:
        return replace(parts, calls=calls, content=content)
    # The arguments of the tool that stood for the schema are the reply's text.
    text = objects[0].arguments
    if not isinstance(text, str):
        values = as_map(text).get("values")  # where some models put the object
        text = json.dumps(text if values is None else values, ensure_ascii=False)
    calls = tuple(call for call in calls if call not in objects)
    if any(call.by == "agent" for call in calls):
        return replace(parts, content=content + text, calls=calls)
    return replace(parts, content=text, calls=calls, finish="stop")

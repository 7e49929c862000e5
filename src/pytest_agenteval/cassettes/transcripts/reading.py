"""What an agent returned as its transcript, in any of the known forms, as a transcript of ours.

Messages of OpenAI (chat completions, and items of Responses) and of Anthropic may stand mixed in one list.
What a model wrote as arguments stays a text where it is no JSON object; what is no message names its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.atif import read_atif
from pytest_agenteval.cassettes.transcripts.parts import (
    UNKNOWN_USAGE,
    CallRequest,
    Place,
    TranscriptBuilder,
    UnreadableTranscript,
    call_request,
    content_text,
    part_text,
    result_text,
    returned_usage,
)
from pytest_agenteval.cassettes.transcripts.span_reading import read_spans
from pytest_agenteval.cassettes.transcripts.spans import are_spans, plain_spans
from pytest_agenteval.records.replies import FINISHES
from pytest_agenteval.records.transcript import Transcript, Usage
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import format_path

PROMPT_ROLES = {"system": "system", "developer": "system", "user": "user"}
ROLES = "a role: system, developer, user, assistant or tool"


class _OpenReply:
    """A reply as far as it has been read: Responses tell one in several items."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[CallRequest] = []
        self.results: list[tuple[str, str]] = []
        self.ask: dict[str, Any] = {}


class _MessageReader:
    def __init__(self) -> None:
        self._built = TranscriptBuilder()
        self._open: _OpenReply | None = None

    def read(self, message: Place) -> None:
        kind = message.text_of("type")
        if kind in ("function_call", "custom_tool_call", "reasoning") or kind.endswith("_call"):
            reply = self._of_items()
            if kind == "reasoning":
                parts = [*message.items_of("summary"), *message.items_of("content")]
                reply.reasoning += list(map(part_text, parts))
            elif kind in ("function_call", "custom_tool_call"):
                reply.calls.append(call_request(message))
            # A tool of the provider's, such as a web search: its call ended before the reply arrived.
            else:
                about = ("id", "call_id", "type", "status", "output")
                fields = message.map().items()
                args = {name: value for name, value in fields if name not in about and value is not None}
                id = message.text_of("id")
                reply.calls.append(CallRequest(id, kind.removesuffix("_call"), args, by="provider"))
                reply.results.append((id, result_text(message.get("output"))))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._close()
            call_id = message.at("call_id", "the call_id of a call").text()
            self._built.result(call_id, result_text(message.get("output")), failed=_failed(message))
        else:
            self._read_message(message, kind)

    def _read_message(self, message: Place, kind: str) -> None:
        role = message.get("role")
        if role is None:
            wrong = Place(None, (*message.path, "role")).wrong(ROLES)
            # Messages of langchain have these types, and no role.
            if kind in ("human", "ai"):
                wrong = UnreadableTranscript(
                    f"{wrong}; langchain's convert_to_openai_messages() gives messages with roles"
                )
            raise wrong
        word = role.text()
        if word in ("tool", "function"):
            self._close()
            # OpenAI's old ``function`` messages name the function, as their calls have no ids.
            id = message.get("tool_call_id") or message.at("name", "the tool_call_id of a call")
            self._built.result(id.text(), result_text(message.get("content")), failed=_failed(message))
        elif word == "assistant":
            self._read_assistant(message, is_item=kind == "message" and not _is_anthropic(message))
        elif word in PROMPT_ROLES:
            self._close()
            self._read_prompt(message, word)
        else:
            raise role.wrong(ROLES)

    def transcript(self, total: Usage | None) -> Transcript:
        self._close()
        return self._built.transcript(total)

    def _read_prompt(self, message: Place, role: str) -> None:
        """Read a user's message; Anthropic's has the results of tools within."""
        content, texts = message.get("content"), []
        for part in content.items() if content and isinstance(content.value, list | tuple) else ():
            if not isinstance(part.value, str) and part.text_of("type") == "tool_result":
                id = part.at("tool_use_id", "the tool_use_id of a call").text()
                failed = part.map().get("is_error") is True
                self._built.result(id, result_text(part.get("content")), failed=failed)
            else:
                texts.append(part_text(part))
        if content is None or isinstance(content.value, str):
            texts = [content_text(content)]
        elif not isinstance(content.value, list | tuple):
            raise content.wrong("a text or a list of parts")
        if texts:
            self._built.say(PROMPT_ROLES[role], "\n".join(filter(None, texts)))  # type: ignore[arg-type]

    def _read_assistant(self, message: Place, *, is_item: bool) -> None:
        if is_item:
            reply = self._of_items()
        else:
            self._close()
            reply = self._open = _OpenReply()
        content = message.get("content")
        if content is not None and isinstance(content.value, list | tuple):
            for part in content.items():
                kind = ""
                if not isinstance(part.value, str):
                    kind = part.at("type", "the type of a part, such as text").text()
                if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                    by = "agent" if kind == "tool_use" else "provider"
                    reply.calls.append(replace(call_request(part), by=by))
                # A tool of the provider's has its result within the same reply.
                elif kind.endswith("_tool_result"):
                    id = part.at("tool_use_id", "the tool_use_id of a call").text()
                    reply.results.append((id, result_text(part.get("content"))))
                elif kind in ("thinking", "redacted_thinking"):
                    reply.reasoning.append(part.text_of("thinking"))
                else:
                    reply.texts.append(part_text(part))
        else:
            reply.texts.append(content_text(content))
        reply.texts.append(message.text_of("refusal"))
        reply.reasoning += [message.text_of("reasoning_content")]
        reply.calls += map(call_request, message.items_of("tool_calls"))
        finish = message.text_of("stop_reason") or message.text_of("finish_reason")
        usage = returned_usage(message.get("usage")) or UNKNOWN_USAGE
        reply.ask |= {"usage": usage, "model": message.text_of("model")}
        if finish:
            reply.ask["finish"] = FINISHES.get(finish, finish)
        if not is_item:
            self._close()

    def _of_items(self) -> _OpenReply:
        # Items of Responses that follow each other are one reply, until an item of the client's comes.
        if self._open is None:
            self._open = _OpenReply()
        return self._open

    def _close(self) -> None:
        reply, self._open = self._open, None
        if reply is not None:
            reasoning = "\n".join(filter(None, reply.reasoning))
            text = "\n".join(filter(None, reply.texts))
            self._built.reply(text, reply.calls, reasoning=reasoning, **reply.ask)
            # The provider itself gave these results to the model: there is no message with them.
            for call_id, text in reply.results:
                self._built.result(call_id, text, is_shown=False)


def _failed(message: Place) -> bool:
    return message.map().get("error") is True or message.map().get("status") == "error"


def _is_anthropic(message: Place) -> bool:
    """Whether a message of type ``message`` is Anthropic's, and no item of OpenAI's Responses."""
    content = message.value.get("content")
    kinds: Iterable[Any] = content if isinstance(content, list | tuple) else ()
    return not any(isinstance(part, dict) and part.get("type") == "output_text" for part in kinds)


# An agent may return any value, of any depth: whatever a reader raises means that it is no known form.
_STUMBLES = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
MOST_CHARS = 200

TRANSCRIPT_FORMS = "a list of messages (OpenAI's or Anthropic's), an ATIF trajectory, or exported spans"


def read_transcript(value: Any, path: KeyPath = ("transcript",), *, usage: Any = None) -> Transcript:
    """Read messages of OpenAI or Anthropic, an ATIF trajectory or spans (also as JSON text), or one of ours.

    Each message of an assistant is one reply of a model, with its ``usage``, ``model`` and ``finish_reason``.

    ``path`` is where the value stands for whoever wrote it, ``usage`` what all replies together took, where
    the messages do not say. Raises UnreadableTranscript, whose one line names the place.
    """
    if isinstance(value, Transcript):
        return value
    place = Place(_parse_json(value), path)
    try:
        return _read_form(place, returned_usage(None if usage is None else Place(usage, ("usage",))))
    except _STUMBLES as why:
        found = f"what cannot be read as one: {type(why).__name__}: {' '.join(str(why).split())[:MOST_CHARS]}"
        raise UnreadableTranscript(
            f"{format_path(path)}: expected {TRANSCRIPT_FORMS}, found {found}"
        ) from why


def _read_form(place: Place, total: Usage | None) -> Transcript:
    if are_spans(place.value):
        return read_spans(plain_spans(place))
    if isinstance(place.value, list | tuple):
        reader = _MessageReader()
        for message in place.items():
            reader.read(message)
        return reader.transcript(total)
    if isinstance(place.value, Mapping) or hasattr(place.value, "model_dump"):
        trajectory = place.map()
        if "steps" in trajectory or "schema_version" in trajectory:
            return read_atif(place)
    raise place.wrong(TRANSCRIPT_FORMS)


def _parse_json(value: Any) -> Any:
    """Read a JSON text; any other value stays as it is, and is refused later with its own words."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value

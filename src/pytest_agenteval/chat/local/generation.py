"""Requests of concurrent trials to a model in this process: prompts for chat templates, and batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import parse_arguments
from pytest_agenteval.text.json_values import compact_json


class OutOfMemory(Exception):
    """A single request needs more memory than there is."""


class NoTemplate(Exception):
    """The model's chat template cannot write this conversation as a prompt."""


class Sampling(FrozenValue, frozen=True):
    """How tokens are chosen; None leaves a setting to the model's own configuration.

    A ``temperature`` of 0 takes the most likely token. Without a ``seed``, replies differ. A reply ends
    before the texts of ``stop``.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


class Prompt(FrozenValue, frozen=True):
    """A conversation as tokens, and the end of its text, which may be the beginning of the reply."""

    tokens: tuple[int, ...]
    end: str


@dataclass(slots=True, eq=False)
class GenerationRequest:
    """One reply to be generated; it ends once ``unwanted``, called before each token, is true."""

    prompt: Prompt
    sampling: Sampling
    max_tokens: int
    unwanted: Callable[[], bool] = lambda: False


class Generation(FrozenValue, frozen=True):
    """One reply as it was generated.

    ``text`` holds special tokens, but not the one that ended it, which ``tokens`` counts. ``seconds`` is the
    duration of the whole batch, ``first_token_s`` that to the first token.
    """

    text: str
    tokens: int
    finish: Literal["stop", "length"]
    seconds: float
    first_token_s: float | None = None


HOW_TO_CALL = """You may call tools. Each line between <tools> and </tools> describes one:
<tools>
{tools}
</tools>
To call one, write a JSON object with its name and arguments between tags, and nothing after it:
<tool_call>
{{"name": "…", "arguments": {{…}}}}
</tool_call>"""
HOW_TO_ANSWER = "Answer with one JSON object and nothing else. It has to fit this JSON Schema: {schema}"
INVALID_ARGUMENTS = "INVALID_JSON"


def template_messages(
    messages: Sequence[Mapping[str, Any]],
    response_schema: Mapping[str, Any] | None = None,
    thoughts: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Give a conversation as templates expect it: arguments as objects, short ids, tools by name.

    ``thoughts`` are repeated with the call of their id. Raises NoTemplate for an image.
    """
    names: dict[str, str] = {}
    short_ids: dict[str, str] = {}
    ready = [_template_message(message, names, short_ids, thoughts or {}) for message in messages]
    if response_schema is not None:
        _add_to_system(ready, HOW_TO_ANSWER.format(schema=compact_json(response_schema)))
    return ready


def _template_message(
    message: Mapping[str, Any], names: dict[str, str], short_ids: dict[str, str], thoughts: Mapping[str, str]
) -> dict[str, Any]:
    role, text = message["role"], _content_text(message.get("content"))
    if role == "tool":
        id = str(message.get("tool_call_id", ""))
        answered = {"tool_call_id": short_ids.get(id, id), "name": names.get(id, "")}
        return {"role": role, "content": text, **answered}
    calls = message.get("tool_calls") or ()
    ready: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": text}
    if not calls:
        return ready
    ready["tool_calls"] = []
    for call in calls:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        names[call["id"]] = name
        # Nine letters and digits: Mistral's template accepts no other ids.
        short_id = short_ids.setdefault(call["id"], f"call{len(short_ids):05d}")
        args, raw = parse_arguments(arguments) if isinstance(arguments, str) else (arguments, None)
        # Templates want an object. Arguments that are none
        # stand in one, so that the model sees what it wrote.
        function = {"name": name, "arguments": dict(args) if raw is None else {INVALID_ARGUMENTS: raw}}
        ready["tool_calls"].append({"id": short_id, "type": "function", "function": function})
    if thought := thoughts.get(calls[0]["id"]):
        ready["reasoning_content"] = thought  # Qwen's and DeepSeek's word for it
        if not text:  # GPT-OSS's, which takes no text beside it
            ready["thinking"] = thought
    return ready


def _content_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    if None in parts:
        raise NoTemplate("a message holds something else than text, which models in this process do not read")
    return "\n".join(parts)


def with_tools_in_words(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Give the conversation for a template without tools: tools, calls and results become text."""
    words = [_message_in_words(message) for message in messages]
    if tools:
        described = "\n".join(compact_json(tool["function"]) for tool in tools)
        _add_to_system(words, HOW_TO_CALL.format(tools=described))
    return _alternating(words)


def _message_in_words(message: Mapping[str, Any]) -> dict[str, Any]:
    role, text = message["role"], message["content"]
    if role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"}
    parts = [text]
    for function in (call["function"] for call in message.get("tool_calls", ())):
        written = compact_json({"name": function["name"], "arguments": function["arguments"]})
        parts.append(f"<tool_call>\n{written}\n</tool_call>")
    return {"role": role, "content": "\n".join(filter(None, parts))}


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give the conversation for a template without system messages: they become the user's."""
    return _alternating(
        [
            {**message, "role": "user" if message["role"] == "system" else message["role"]}
            for message in messages
        ]
    )


def _alternating(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join messages of one role: many templates require that user and assistant alternate."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        plain = "tool_calls" not in message and message["role"] != "tool"
        if merged and plain and merged[-1]["role"] == message["role"] and "tool_calls" not in merged[-1]:
            merged[-1]["content"] += f"\n\n{message['content']}"
        else:
            merged.append(message)
    return merged


def _add_to_system(messages: list[dict[str, Any]], text: str) -> None:
    """Append a text to the system message; without one, add it."""
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{text}"
    else:
        messages.insert(0, {"role": "system", "content": text})


def template_variants(
    messages: Sequence[dict[str, Any]], tools: Sequence[Mapping[str, Any]], *, knows_tools: bool
) -> Iterator[tuple[list[dict[str, Any]], Sequence[Mapping[str, Any]]]]:
    """Give variants of a conversation to try on a template in turn, the most faithful first."""
    has_calls = any(message["role"] == "tool" or "tool_calls" in message for message in messages)
    ways: list[tuple[list[dict[str, Any]], Sequence[Mapping[str, Any]]]] = []
    if knows_tools or not (tools or has_calls):
        ways.append(([*messages], tools))
    if tools or has_calls:
        ways.append((with_tools_in_words(messages, tools), ()))
    yield from ways
    yield from ((without_system(conversation), offered) for conversation, offered in ways)


# Seconds that the first request of a batch waits for others. A reply takes far longer.
GATHER_S = 0.02

CLOSING_S = 30.0


class _WaitingRequest(NamedTuple):
    request: GenerationRequest
    future: Future[Generation]


class Batcher:
    """A thread that passes requests to ``generate`` in batches of all that have arrived.

    A batch that does not fit into memory is generated in halves.
    """

    def __init__(
        self, generate: Callable[[Sequence[GenerationRequest]], list[Generation]], gather_s: float = GATHER_S
    ) -> None:
        self._generate, self._gather_s = generate, gather_s
        self._queue: SimpleQueue[_WaitingRequest | None] = SimpleQueue()
        self._closing = threading.Event()
        # A daemon: a kernel that hangs must not block the end of the interpreter.
        self._thread = threading.Thread(target=self._work, name="agenteval-batches", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        future: Future[Generation] = Future()
        unwanted = request.unwanted
        # A cancelled request ends at its next token, and so do all when the run ends: nobody waits for them.
        request.unwanted = lambda: future.cancelled() or self._closing.is_set() or unwanted()
        self._queue.put(_WaitingRequest(request, future))
        return future

    def close(self) -> None:
        """End what is being generated, and the thread."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(CLOSING_S)

    def _work(self) -> None:
        while not self._closing.is_set():
            come = [self._queue.get()]
            until = time.monotonic() + self._gather_s
            with suppress(Empty):
                while (left := until - time.monotonic()) > 0:
                    come.append(self._queue.get(timeout=left))
            batch = [waiting for waiting in come if waiting is not None and not waiting.future.cancelled()]
            if batch:
                self._answer(batch)
        with suppress(Empty):  # requests that came too late
            while True:
                waiting = self._queue.get_nowait()
                if waiting is not None:
                    waiting.future.cancel()

    def _answer(self, batch: Sequence[_WaitingRequest]) -> None:
        try:
            generations = self._generate([waiting.request for waiting in batch])
        except OutOfMemory as raised:
            if len(batch) == 1:
                _settle_failed(batch, raised)
            else:
                half = len(batch) // 2
                self._answer(batch[:half])
                self._answer(batch[half:])
        except BaseException as raised:  # whatever the library raises reaches all that wait
            _settle_failed(batch, raised)
        else:
            for waiting, generation in zip(batch, generations, strict=True):
                with suppress(InvalidStateError):  # cancelled meanwhile
                    waiting.future.set_result(generation)


def _settle_failed(batch: Sequence[_WaitingRequest], raised: BaseException) -> None:
    for waiting in batch:
        with suppress(InvalidStateError):
            waiting.future.set_exception(raised)

"""Real models through litellm, which no other module imports.

What litellm makes of a stream's chunks holds more than the provider sent (an estimate where no tokens were
counted, an end where the connection was cut) and less (no refusal, no call without an id). This module
corrects both.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any, Self, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.cassettes.wire.openai_chat import join_call
from pytest_agenteval.cassettes.wire.usage import read_usage
from pytest_agenteval.chat.chat import (
    DEFAULT_SETTINGS,
    ChatMessage,
    ChatSettings,
    ProviderChat,
    Reply,
    Send,
    own_calls,
)
from pytest_agenteval.chat.direct.model_request import NO_KEY
from pytest_agenteval.chat.direct.openai_chat_request import plain_copy, response_format, tool_choice
from pytest_agenteval.chat.model_prices import with_own_price
from pytest_agenteval.chat.models import REQUEST_GRACE_S, REQUEST_SECONDS, key_names
from pytest_agenteval.chat.provider_failures import (
    OptionalSettings,
    check_key,
    import_failure,
    import_off_loop,
    litellm_failure,
)
from pytest_agenteval.processes.threads import close_at_end
from pytest_agenteval.records.plan import NO_PRICES, Model, ModelPrice, Prices, own_price
from pytest_agenteval.records.replies import PricedApart, credible_usage, finish_of, split_thoughts
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments
from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.text.json_values import compact_json, mend_surrogates
from pytest_agenteval.text.redaction import KNOWN_SECRETS


def litellm_reply(
    answer: Any, call_ids: str, unknown_finish: str = "", price: ModelPrice | None = None
) -> Reply:
    """Read a whole reply; a call without an id of its own gets ``call_ids`` and its place.

    ``unknown_finish`` is the provider's finish reason if litellm did not know it and reported ``stop``;
    ``price`` is the user's own.
    """
    if not answer.choices:
        raise ValueError("it holds no choices")
    choice = answer.choices[0]
    message = choice.message
    refusal = _refusal(message)
    written = (
        (call.id, call.function.name or "", mend_surrogates(call.function.arguments or "{}"))
        for call in message.tool_calls or ()
    )
    calls = own_calls(written, call_ids)
    text, thought = split_thoughts(mend_surrogates(message.content or refusal))
    reasoning = mend_surrogates(getattr(message, "reasoning_content", None) or "")
    return Reply(
        text=text,
        calls=calls,
        usage=litellm_usage(answer, price),
        finish=finish_of(unknown_finish or choice.finish_reason, calls=bool(calls), refused=bool(refusal)),
        reasoning="\n\n".join(filter(None, (reasoning, thought))),
    )


def _refusal(message: Any) -> str:
    # Some providers' refusals are among the fields that litellm passes on as they came.
    fields = message.get("provider_specific_fields") or {}
    return getattr(message, "refusal", None) or fields.get("refusal") or ""


def litellm_usage(answer: Any, price: ModelPrice | None = None) -> Usage:
    """Read the usage that litellm made of a provider's, at the user's own price, else litellm's."""
    usage = getattr(answer, "usage", None)
    counts = {} if usage is None else usage.model_dump()
    counted, _ = read_usage("openai.chat", counts)
    if price is not None and (counted.tokens or price.is_free):
        # The word is litellm's own, whoever counted them.
        written = (counts.get("prompt_tokens_details") or {}).get("cache_creation_tokens") or 0
        return with_own_price(price, counted, PricedApart(written))
    # litellm says 0 for a model whose price it does not know.
    cost = answer._hidden_params.get("response_cost") or None
    return credible_usage(replace(counted, cost_usd=cost if counted.tokens else None))


_unknown_finishes: ContextVar[list[str] | None] = ContextVar("agenteval_unknown_finishes", default=None)


def collect_unknown_finishes() -> list[str]:
    """Give the list that collects finish reasons unknown to litellm while this task reads a reply."""
    words: list[str] = []
    _unknown_finishes.set(words)
    return words


class FinishReasons(dict[str, Any]):
    """litellm's table of finish reasons, which notes those that litellm does not know and turns into stop."""

    def get(self, word: Any, default: Any = None) -> Any:
        unknown_words = _unknown_finishes.get()
        if word not in self and unknown_words is not None and isinstance(word, str):
            unknown_words.append(word)
        return super().get(word, default)


# litellm's ``stream_chunk_builder``, which joins chunks into one reply.
ChunkBuilder: TypeAlias = Callable[..., Any]

# Streams of OpenAI's chat completions hold no token counts unless include_usage requests them.
STREAM_SETTINGS: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
# A stream may begin with an empty chunk. The first token has come when one of these fields is filled.
CONTENT_FIELDS = ("content", "reasoning_content", "thinking_blocks", "tool_calls", "function_call")

_BYTES = re.compile(r"""\bb(['"]).*\1""")


async def read_litellm_stream(
    stream: Any, build: ChunkBuilder, began: float, call_ids: str
) -> tuple[Any, float | None]:
    """Wait for the end of a stream; give its answer, and the seconds from ``began`` to its first token.

    They are None if no token came. ``began`` is by ``time.perf_counter``. A call without an id of its
    own gets ``call_ids`` and its place.
    """
    refusal: list[str] = []
    if hasattr(stream.completion_stream, "__aiter__"):
        stream.completion_stream = _RefusalListener(stream.completion_stream, refusal)
    first_token_s, finish = None, ""
    try:
        async for chunk in stream:
            if first_token_s is None and any(
                getattr(delta, name, None) for delta in _deltas((chunk,)) for name in CONTENT_FIELDS
            ):
                first_token_s = time.perf_counter() - began
            finish = next((reason for choice in chunk.choices if (reason := choice.finish_reason)), finish)
    finally:
        # Closing the stream releases its connection, which the next request can use again.
        if hasattr(stream, "aclose"):
            await stream.aclose()
    # The server may close a cut stream in good order, too. Half a reply must not be graded as the answer, so
    # the attempt fails and may be retried.
    if not (stream.received_finish_reason or stream.intermittent_finish_reason):
        raise ValueError("the stream ended before the reply did")
    return _built_answer(stream, build, call_ids, finish, "".join(refusal)), first_token_s


def original_error(raised: Exception) -> Exception:
    """Give the error within a stream without litellm's wrapping; any other as it is.

    If a provider refuses to stream, litellm quotes its answer as bytes, which become text here.
    """
    cause: Any = getattr(raised, "original_exception", None) or raised
    if isinstance(message := getattr(cause, "message", None), str):
        cause.message = _BYTES.sub(_bytes_as_text, message)
    return cause  # type: ignore[no-any-return]  # whatever litellm wrapped is an exception


def _bytes_as_text(match: re.Match[str]) -> str:
    try:
        return str(ast.literal_eval(match[0]).decode("utf-8", "replace"))
    except (ValueError, SyntaxError, AttributeError):
        return match[0]


class _RefusalListener:
    """Passes a provider's chunks to litellm, with refusals as content: it would drop them otherwise."""

    def __init__(self, chunks: Any, refusal: list[str]) -> None:
        self._chunks, self._next, self._refusal = chunks, aiter(chunks), refusal

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self._next)
        for delta in _deltas((chunk,)):
            if refusal := getattr(delta, "refusal", None):
                self._refusal.append(refusal)
                delta.content = refusal
        return chunk

    async def aclose(self) -> None:
        """Release the connection, which litellm does for some providers only."""
        for held in (self._chunks, getattr(self._chunks, "streaming_response", None)):
            close = getattr(held, "aclose", None) or getattr(held, "close", None)
            if close is not None and isawaitable(closing := close()):
                await closing


def _deltas(chunks: Iterable[Any]) -> Iterator[Any]:
    for chunk in chunks:
        for choice in getattr(chunk, "choices", None) or ():
            if getattr(choice, "delta", None) is not None:
                yield choice.delta


def _built_answer(stream: Any, build: ChunkBuilder, call_ids: str, finish: str, refusal: str) -> Any:
    """Join the chunks, with the provider's own counts and no estimates."""
    # These chunks still have their usage; those that the stream yields have lost it, or hold an estimate.
    chunks = stream.chunks
    counted = [chunk for chunk in chunks if getattr(chunk, "usage", None)]
    # Each call gets its id and its index where the provider gives none.
    calls: list[dict[str, Any]] = []
    pieces = [piece for delta in _deltas(chunks) for piece in getattr(delta, "tool_calls", None) or ()]
    places = [join_call(calls, piece.model_dump()) for piece in pieces]
    for piece, place in zip(pieces, places, strict=True):
        piece.index, piece.id = place, calls[place]["id"] or f"{call_ids}_{place}"
    _join_characters(chunks)
    _state_no_reasoning(counted)
    answer = build(chunks, logging_obj=stream.logging_obj)
    for built, joined in zip(answer.choices[0].message.tool_calls or (), calls, strict=False):
        function = joined["function"]
        built.function.name, built.function.arguments = function["name"], function["arguments"]
    answer.choices[0].finish_reason = finish
    if refusal:
        answer.choices[0].message.refusal = refusal
    # litellm estimates tokens and cost where the provider
    # counted nothing; unknown is reported as None instead.
    if not counted:
        answer.usage = None
        answer._hidden_params.pop("response_cost", None)
    return answer


def _join_characters(chunks: Iterable[Any]) -> None:
    """Move half a character at a piece's end to the next piece: litellm cannot count tokens of halves."""
    halves: dict[Any, str] = {}
    last: dict[Any, tuple[Any, str]] = {}
    for delta in _deltas(chunks):
        texts = [(delta, name, name) for name in ("content", "reasoning_content")]
        pieces = getattr(delta, "tool_calls", None) or ()
        texts += [(piece.function, "arguments", piece.index) for piece in pieces]
        for holder, name, key in texts:
            if not (text := getattr(holder, name, None)):
                continue
            text = halves.pop(key, "") + text
            if "\ud800" <= text[-1] <= "\udbff":
                halves[key], text = text[-1], text[:-1]
            setattr(holder, name, mend_surrogates(text))
            last[key] = holder, name
    for key, half in halves.items():
        holder, name = last[key]
        setattr(holder, name, mend_surrogates(getattr(holder, name) + half))


def _state_no_reasoning(counted: Sequence[Any]) -> None:
    """Set reasoning tokens to 0 where the provider does not count them: litellm would estimate them."""
    details = [getattr(chunk.usage, "completion_tokens_details", None) for chunk in counted]
    if not counted or any(getattr(detail, "reasoning_tokens", None) is not None for detail in details):
        return
    last = counted[-1]
    counts = {**(last.usage.model_dump().get("completion_tokens_details") or {}), "reasoning_tokens": 0}
    last.usage = type(last.usage)(**{**last.usage.model_dump(), "completion_tokens_details": counts})


STOPPING_S = 2.0
UNSENT_PARAMS = ("request_seconds", "stream")
# Providers with a format of their own: any other address takes what OpenAI's API takes.
OTHER_FORMATS = ("anthropic/", "bedrock/", "deepseek/", "gemini/", "ollama", "vertex_ai/")
# Formats in which arguments are an object: text that is none, which only streams bring, goes back wrapped.
OBJECT_CALLS = ("anthropic/", "bedrock/", "gemini/", "vertex_ai/")

_litellm: Any = None


class LitellmChat(ProviderChat):
    """Asks one real model; each ask is one request, and a failing one raises AttemptFailed.

    The model's own params go with every request and win over the settings of an ask. A setting that the
    provider refuses is left out from then on. With an address but no name of a key, no real key is sent. The
    user's ``prices`` win over litellm's.
    """

    def __init__(self, model: Model, prices: Prices = NO_PRICES) -> None:
        self.model, self._price = model, own_price(prices, model.name, model.id)
        params = {name: value for name, value in model.params.items() if name not in UNSENT_PARAMS}
        if model.id.startswith("anthropic/"):  # it would send a key of that name
            params |= params.pop("extra_body", None) or {}
        # With drop_params, litellm would drop the effort of a model whose name it does not know. Whether a
        # server of the user's own accepts it is for that server to decide.
        if "reasoning_effort" in params and "api_base" in params and not model.id.startswith(OTHER_FORMATS):
            params.setdefault("allowed_openai_params", ["reasoning_effort"])
        self._params = params
        self._timeout_s = float(model.params.get("request_seconds", REQUEST_SECONDS))
        self._streamed = STREAM_SETTINGS if model.params.get("stream") else {}
        self._optional = OptionalSettings()
        self.thoughts: dict[str, Any] = {}
        self._asks = 0
        close_at_end(close)

    @property
    def longest_s(self) -> float:
        return self._timeout_s + REQUEST_GRACE_S

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Import litellm in a thread, which takes seconds; give what sends the ask."""
        if _litellm is None:
            await import_off_loop(_import_litellm)
        return partial(self._reply, messages, **ask)

    async def _reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        self._asks += 1
        call_ids, key = f"call_{self._asks}", self._key()
        request = self._request_settings(tools, response_schema, settings)
        sent = [self._outgoing(message) for message in messages]
        unknown_finishes = collect_unknown_finishes()
        answer: Any = None
        try:
            answer, first_token_s = await self._answer(call_ids, messages=sent, **key, **request)
            reply = litellm_reply(answer, call_ids, "".join(unknown_finishes[-1:]), self._price)
        except Exception as raised:  # whatever litellm raises, also where it cannot read the reply
            if broken := import_failure(raised):
                raise broken from raised
            # litellm finds a provider's usual key by itself, so every variable that may hold one is a secret.
            KNOWN_SECRETS.know_variables(key_names(self.model))
            original = original_error(raised)
            failed = litellm_failure(original, self._timeout_s)
            failed = self._optional.without_what_it_names(failed, str(original), request)
            # Tokens that the provider counted were paid for, even if the reply cannot be used.
            usage = NO_USAGE if answer is None else litellm_usage(answer, self._price)
            failed.usage = usage if usage.tokens else NO_USAGE
            raise failed from raised
        # The provider wants these thoughts back when the results of the calls are sent.
        thoughts = getattr(answer.choices[0].message, "thinking_blocks", None)
        if thoughts and reply.calls:
            self.thoughts[reply.calls[0].id] = thoughts
        return replace(reply, first_token_s=first_token_s)

    async def _answer(self, call_ids: str, **request: Any) -> tuple[Any, float | None]:
        """Send a request; give the answer and, where it was streamed, the seconds to its first token."""
        # litellm's own timeout is that between two bytes: a trickling reply would never end. In a stream it
        # reports a timeout as a lost connection, so ours comes first.
        async with asyncio.timeout(self._timeout_s if self._streamed else self.longest_s):
            began = time.perf_counter()
            answer = await _litellm.acompletion(
                model=self.model.id,
                timeout=self._timeout_s,
                max_retries=0,  # its own retries would be neither counted nor recorded
                num_retries=0,
                # A setting that litellm knows the model to refuse
                # is left out; it would be an error otherwise.
                drop_params=True,
                **request,
            )
            if not self._streamed:
                return answer, None
            return await read_litellm_stream(answer, _litellm.stream_chunk_builder, began, call_ids)

    def _request_settings(
        self, tools: Sequence[ToolSpec], response_schema: Mapping[str, Any] | None, settings: ChatSettings
    ) -> dict[str, Any]:
        # litellm writes into what it gets, such as the user's metadata, and would send that the next time.
        params = plain_copy({**settings.as_params(), **self._params, **self._streamed})
        choice = params.pop("tool_choice", None)
        if tools:
            params["tools"] = [plain_copy(spec.declaration()) for spec in tools]
            if choice is not None:
                params["tool_choice"] = tool_choice(choice)
        if response_schema is not None:
            params["response_format"] = response_format(response_schema)
        return self._optional.without_refused(params)

    def _key(self) -> dict[str, str]:
        name = self.model.api_key_env
        if not name:
            # Without a key, litellm would look for the real
            # provider's key and send it to the user's own address.
            return {"api_key": NO_KEY} if "api_base" in self._params else {}
        # Keys that are read from files often end with a line break, which no header can hold.
        key = os.environ.get(name, "").strip()
        check_key(key, (name,))
        return {"api_key": key}

    def _outgoing(self, message: ChatMessage) -> dict[str, Any]:
        """Give a copy of a message, with the signed thoughts that led to its calls."""
        sent: dict[str, Any] = plain_copy(message)
        calls = sent.get("tool_calls")
        if self.model.id.startswith(OBJECT_CALLS):
            for call in calls or ():
                raw = parse_arguments(call["function"]["arguments"])[1]
                if raw is not None:
                    call["function"]["arguments"] = compact_json({"INVALID_JSON": raw})
        thoughts = self.thoughts.get(calls[0]["id"]) if calls else None
        return {**sent, "thinking_blocks": thoughts} if thoughts else sent


async def close() -> None:
    """Close litellm's connections; to be awaited at the end, on the loop of the requests."""
    if _litellm is None:
        return
    # The worker that writes litellm's logs moves to the loop that sent the last request, such as that of an
    # agent that uses litellm by itself. There it is not ours: this loop would never learn that it stopped.
    with suppress(ImportError, AttributeError, RuntimeError, TimeoutError):
        from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

        if GLOBAL_LOGGING_WORKER._bound_loop is asyncio.get_running_loop():
            async with asyncio.timeout(STOPPING_S):
                await GLOBAL_LOGGING_WORKER.stop()
    with suppress(AttributeError):  # not every release has these
        await _litellm.close_litellm_async_clients()
    for_streams = vars(_litellm).pop("module_level_aclient", None)
    if for_streams is not None:  # in the cache only until the first end of a run
        await for_streams.close()
    # litellm would use the closed clients again for the same address on such a loop.
    with suppress(AttributeError):
        _litellm.in_memory_llm_clients_cache.flush_cache()


def _import_litellm() -> None:
    global _litellm
    # Its prices come from the package, not from the network, and it reads no .env file.
    with _environment(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION"):
        import litellm
    # litellm reports a finish reason that it does not know
    # as stop, which would mean that the model was done.
    with suppress(ImportError, AttributeError):
        from litellm.litellm_core_utils import core_helpers

        core_helpers.__dict__["_FINISH_REASON_MAP"] = FinishReasons(core_helpers._FINISH_REASON_MAP)
    # What litellm made at import lives until the end: the garbage collector need not visit it again.
    gc.freeze()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    if not os.environ.get("LITELLM_LOG"):
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    _litellm = litellm


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables that are not set, for as long as the block lasts."""
    ours = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)

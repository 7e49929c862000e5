"""``hf/NAME``: a model of the hub, or of a folder, in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, ProviderChat, Reply, Send
from pytest_agenteval.chat.local.generation import (
    Batcher,
    Generation,
    GenerationRequest,
    NoTemplate,
    OutOfMemory,
    Prompt,
    Sampling,
    template_messages,
)
from pytest_agenteval.chat.local.loading import Loading, loading_of, note_loading, request_params
from pytest_agenteval.chat.local.written_calls import opening_of, read_reply_text
from pytest_agenteval.chat.model_prices import with_own_price
from pytest_agenteval.chat.provider_failures import AttemptFailed, no_reply_message
from pytest_agenteval.processes.threads import close_at_end, in_daemon_thread
from pytest_agenteval.records.plan import Model, own_price
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec, parse_arguments
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.json_values import json_digest

if TYPE_CHECKING:
    from pytest_agenteval.chat.local.transformers_model import TransformersModel

REQUEST_SECONDS = 600.0
# The most tokens of a reply if neither the request nor the model's own configuration has a limit.
MAX_TOKENS = 4096

SAMPLED_BY = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
TEMPLATE_KWARGS = "chat_template_kwargs"
# Parameters that have an effect on a model in this process.
TAKEN = frozenset(
    {*SAMPLED_BY, "max_tokens", "stop", "tool_choice", "reasoning_effort", "request_seconds", "stream"}
    | {"extra_body", TEMPLATE_KWARGS}
)


class _Ready(NamedTuple):
    """A model in memory, and the thread that generates with it."""

    model: TransformersModel
    batcher: Batcher


_loading = threading.Lock()
_ready: dict[Loading, _Ready | AgentEvalError] = {}


class HfChat(ProviderChat):
    """Asks a model that is loaded once for this process, in batches with the asks of other trials.

    An ask without a seed derives its own from ``seed``, or draws one if that is empty.
    """

    def __init__(self, model: Model, recorder: Recorder, seed: str = "") -> None:
        self.model, self._recorder = model, recorder
        self._loading = loading_of(model)
        self._params = request_params(model)
        self._timeout_s = float(model.params.get("request_seconds", REQUEST_SECONDS))
        self._thoughts: dict[str, str] = {}
        self._seed, self._asks, self._calls, self._noted = seed, 0, 0, False
        close_at_end(close)

    @property
    def loaded(self) -> Mapping[str, str]:
        """The model's device, dtype and quantization; empty before it is loaded."""
        ready = _ready.get(self._loading)
        return ready.model.description if isinstance(ready, _Ready) else {}

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Load the model in a thread; raises the error of a failed load, also if another trial started it."""
        if not isinstance(_ready.get(self._loading), _Ready):
            await in_daemon_thread(_load_once, self._loading)
        if not self._noted:
            self._noted = True
            note_loading(self._recorder, self.model, self.loaded)
        return partial(self._answer, messages, **ask)

    async def _answer(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        ready = _ready[self._loading]
        assert isinstance(ready, _Ready)
        params = {**settings.as_params(), **self._params}
        offered = () if params.get("tool_choice") == "none" else tuple(tools)
        try:
            conversation = template_messages(messages, response_schema, self._thoughts)
            declared = [tool.declaration() for tool in offered]
            effort = params.get("reasoning_effort")
            in_body = (params.get("extra_body") or {}).get(TEMPLATE_KWARGS) or {}
            template_kwargs = {**({"reasoning_effort": effort} if effort else {}), **in_body}
            template_kwargs |= params.get(TEMPLATE_KWARGS) or {}
            prompt = await in_daemon_thread(ready.model.prompt, conversation, declared, template_kwargs)
            request = self._request(ready.model, prompt, params)
            async with asyncio.timeout(self._timeout_s):
                generation = await asyncio.wrap_future(ready.batcher.submit(request))
        except NoTemplate as refused:
            raise _failed("bad_request", str(refused)) from None
        except TimeoutError:
            raise _failed("timeout", no_reply_message(self._timeout_s)) from None
        except OutOfMemory as full:
            raise _failed("provider", f"out of memory: {full}") from None
        except AttemptFailed:
            raise
        except Exception as raised:  # whatever the libraries raise is no fault of the agent's
            message = f"{type(raised).__name__}: {' '.join(str(raised).split())[:300]}"
            raise _failed("provider", message) from raised
        return self._reply(ready.model, prompt, generation, offered)

    def _request(
        self, model: TransformersModel, prompt: Prompt, params: Mapping[str, Any]
    ) -> GenerationRequest:
        left = model.context - len(prompt.tokens)
        if left < 1:
            tokens = f"{len(prompt.tokens)} tokens, and the model reads {model.context}"
            raise _failed("context_length", f"the conversation has {tokens}")
        stop = params.get("stop") or ()
        self._asks += 1
        own = {"seed": int(json_digest([self._seed, self._asks]), 16)} if self._seed else {}
        sampling = Sampling(
            **{**own, **{name: params[name] for name in SAMPLED_BY if params.get(name) is not None}},
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )
        wanted = params.get("max_tokens") or model.max_new_tokens or MAX_TOKENS
        return GenerationRequest(prompt, sampling, min(int(wanted), left))

    def _reply(
        self, model: TransformersModel, prompt: Prompt, generation: Generation, tools: Sequence[ToolSpec]
    ) -> Reply:
        written = read_reply_text(opening_of(prompt.end) + generation.text, tools)
        calls = []
        for place, call in enumerate(written.calls):
            args, raw = parse_arguments(call.arguments or "{}")
            self._calls += 1
            # Nine letters and digits, as Mistral's template requires.
            calls.append(ToolCall(f"call{self._calls:05d}", 0, place, call.tool, args, raw))
        if calls and written.reasoning:
            self._thoughts[calls[0].id] = written.reasoning
        usage = Usage(
            input_tokens=len(prompt.tokens),
            output_tokens=generation.tokens,
            # The thoughts are encoded once more to count them,
            # which may give more tokens than were generated.
            reasoning_tokens=min(generation.tokens, model.count_tokens(written.reasoning)),
            # Without a price of the user's own, the cost is unknown, which is not 0.
            cost_usd=None,
            asks=1,
            attempts=1,
        )
        price = own_price(self._recorder.prices, self.model.name, self.model.id)
        usage = usage if price is None else with_own_price(price, usage)
        return Reply(
            text=written.text,
            calls=tuple(calls),
            usage=usage,
            finish="tool_calls" if calls and generation.finish == "stop" else generation.finish,
            reasoning=written.reasoning,
            first_token_s=generation.first_token_s,
            seconds=generation.seconds,
        )


def unknown_params(model: Model) -> list[str]:
    """Give the parameters of a model's table that have no effect on a model in this process."""
    extra = model.params.get("extra_body") or {}
    params = [name for name in request_params(model) if name not in TAKEN]
    return params + [f"extra_body.{name}" for name in extra if name != TEMPLATE_KWARGS]


def _failed(cause: str, message: str) -> AttemptFailed:
    # The same model would fail again: no failure here is worth another attempt.
    return AttemptFailed(f"{cause}: {message}", cause=cause, retryable=False)


def _load_once(loading: Loading) -> None:
    """Load a model for this process; concurrent callers wait, and get the same result or error."""
    with _loading:
        if loading not in _ready:
            from pytest_agenteval.chat.local.transformers_model import load_model

            try:
                model = load_model(loading)
            except AgentEvalError as broken:
                _ready[loading] = broken
            else:
                _ready[loading] = _Ready(model, Batcher(model.generate))
        ready = _ready[loading]
    if not isinstance(ready, _Ready):
        raise ready


async def close() -> None:
    while _ready:
        _, ready = _ready.popitem()
        if isinstance(ready, _Ready):
            await in_daemon_thread(ready.batcher.close)
            ready.model.close()

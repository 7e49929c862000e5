"""Direct requests to real models in two wire formats; asks that these do not write go through litellm."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.cassettes.wire.normal_form import ReplyParts
from pytest_agenteval.cassettes.wire.reader import read_parts, whole_reply
from pytest_agenteval.cassettes.wire.traffic import Json, ModelRefused, UnreadableTraffic
from pytest_agenteval.chat.chat import (
    DEFAULT_SETTINGS,
    ChatMessage,
    ChatSettings,
    ProviderChat,
    Reply,
    Send,
    own_calls,
)
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.chat.direct.http_pool import HttpReply, NoConnection
from pytest_agenteval.chat.direct.model_request import (
    DIRECT_ADDRESSES,
    NO_KEY,
    DirectFormat,
    ModelAsk,
    address_of,
    api_key_of,
    region_of,
)
from pytest_agenteval.chat.model_prices import price_entry, with_own_price, with_table_price
from pytest_agenteval.chat.models import DIRECT_SETTINGS, REQUEST_SECONDS, key_names
from pytest_agenteval.chat.provider_failures import (
    UNUSABLE,
    AttemptFailed,
    OptionalSettings,
    cause_of_refusal,
    check_key,
    failed_attempt,
    import_off_loop,
    no_reply_message,
    one_line,
)
from pytest_agenteval.processes.threads import close_at_end
from pytest_agenteval.records.plan import NO_PRICES, Model, Prices, own_price
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.replies import INCOMPLETE, finish_of
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import NO_USAGE, ToolCall, Usage
from pytest_agenteval.text.json_values import compact_json, plain_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.chat.litellm_chat import LitellmChat

CUT_OFF = "the stream ended before the reply did"
_SETTINGS = (*DIRECT_SETTINGS, "tool_choice")
# Causes by the error type within a stream, since its status was already sent as a success.
_CAUSES_IN_STREAMS: Mapping[str, str] = {
    "authentication_error": "auth",
    "insufficient_quota": "quota",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
}

_encode = msgspec.json.Encoder(enc_hook=plain_json).encode


class DirectChat(ProviderChat):
    """Asks one real model over the loop's own connections; each ask is one request.

    A failed request raises AttemptFailed. Settings, keys, prices and refused settings are treated as by
    ``LitellmChat``, and the replies are the same: it sends what the model's direct format does not write.
    """

    def __init__(self, model: Model, prices: Prices = NO_PRICES) -> None:
        self.model, self._prices = model, prices
        self._price = own_price(prices, model.name, model.id)
        self._format = _format_of(model)
        provider, _, self._name = model.id.partition("/")
        usual, address, path = DIRECT_ADDRESSES[provider].address, address_of(model), self._format.PATH
        # An address may end with the path of its format already.
        self._url = address if address.endswith(path) else f"{address}{path}"
        own_host, host = urlsplit(usual).hostname, urlsplit(address).hostname or ""
        self._own_host = bool(own_host) and (host == own_host or host.endswith(f".{own_host}"))
        self._region, self._has_family = region_of(host), bool(usual)
        # A server of the user's own may use any names for its models, also those of other providers.
        self._abilities = (price_entry(model.id) if self._has_family else None) or NOTHING
        self._timeout_s = float(model.params.get("request_seconds", REQUEST_SECONDS))
        self._optional = OptionalSettings()
        self._echoes: dict[str, Any] = {}
        self._asks = 0
        self._litellm: LitellmChat | None = None
        close_at_end(http_pool.close)

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Import what the request needs, which would block the loop for all trials; give what sends it."""
        model_ask = self.model_ask(messages, **ask)
        if self.is_by_litellm(model_ask):
            return await self._through_litellm().prepare(messages, **ask)
        secure = self._url.startswith("https:")
        if not http_pool.is_loaded(secure):
            await import_off_loop(http_pool.load_secure if secure else http_pool.load)
        return partial(self.send, model_ask)

    async def send(self, ask: ModelAsk) -> Reply:
        """Send an ask and read the reply; a request that fails raises AttemptFailed."""
        self._asks += 1
        format, usage, answer = self._format.FORMAT, NO_USAGE, None
        try:
            answer = await self._send(ask)
            response = Response(answer.status, answer.reason, body=answer.body)
            try:
                whole = whole_reply(format, response, streamed=ask.streamed)
            except UnreadableTraffic as unread:
                whole = _with_nan(answer.body, unread)
            parts = read_parts(format, whole)
            usage = self._priced(parts)
            # Half a reply must not be graded as the model's answer.
            if parts.finish == INCOMPLETE:
                raise UnreadableTraffic(CUT_OFF)
        except (TimeoutError, OSError, UnreadableTraffic) as raised:
            failed = self._failure(raised, ask, answer.headers if answer else NOTHING)
            # What a reply took before it broke off was paid for.
            failed.usage = usage if usage.tokens else NO_USAGE
            raise failed from raised
        calls = self.calls_of(parts, whole)
        return Reply(
            text=parts.content,
            calls=calls,
            usage=usage,
            finish=finish_of(parts.finish, calls=bool(calls), refused=parts.refused),
            reasoning=parts.reasoning,
            first_token_s=answer.first_token_s,
        )

    def is_by_litellm(self, ask: ModelAsk) -> bool:
        try:
            return self._format.needs_litellm(ask)
        # It is not in OpenAI's shape, which ``_send`` reports.
        except (TypeError, ValueError, LookupError, AttributeError):
            return False

    def _through_litellm(self) -> LitellmChat:
        if self._litellm is None:
            from pytest_agenteval.chat.litellm_chat import LitellmChat

            self._litellm = LitellmChat(self.model, self._prices)
            if self._format.FORMAT == "anthropic.messages":  # thoughts go back the same way
                self._litellm.thoughts = self._echoes
        return self._litellm

    def model_ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> ModelAsk:
        model, refused = self.model, self._optional.refused
        params = {**settings.as_params(), **model.params}
        given = {name: params[name] for name in _SETTINGS if params.get(name) is not None}
        extra = given.pop("extra_body", None) or NOTHING
        if settings.extra:
            own = {name: it for name, it in settings.extra.items() if name not in _SETTINGS}
            extra = {**{name: it for name, it in own.items() if it is not None}, **extra}
        return ModelAsk(
            self._name,
            messages,
            [spec.declaration() for spec in tools],
            None if "response_format" in refused else response_schema,
            self._optional.without_refused(given) if refused else given,
            extra,
            bool(model.params.get("stream")),
            "stream_options" not in refused,
            self._echoes,
            self._abilities,
            self._own_host,
            self._has_family,
        )

    def calls_of(self, parts: ReplyParts, whole: Json) -> tuple[ToolCall, ...]:
        """Give the calls that the agent has to answer, each with an id of its own."""
        if not parts.calls:
            return ()
        written = [(it.id, it.name, it.arguments_text) for it in parts.calls if it.by == "agent"]
        calls = own_calls(written, f"call_{self._asks}")
        if calls and (echo := self._format.echo_of(whole)) is not None:
            # Thoughts are found again by the call that they led to, so it needs an id of its own: some
            # servers count calls from 0 in each turn.
            if calls[0].id in self._echoes:
                calls = (replace(calls[0], id=f"call_{self._asks}_0"), *calls[1:])
            self._echoes[calls[0].id] = echo
        return calls

    async def _send(self, ask: ModelAsk) -> HttpReply:
        format = self._format
        try:
            sent = _encoded(format.body_of(ask))
        except (TypeError, ValueError, LookupError, AttributeError) as foreign:  # not in OpenAI's shape
            # This is the agent's mistake, so it is reported as a bad request and not as a crash.
            words = one_line(f"the messages cannot be written in the format {format.FORMAT}: {foreign!r}")
            raise failed_attempt("bad_request", words) from foreign
        key, names = api_key_of(self.model), key_names(self.model)
        if key or names:
            check_key(key, names)
        headers = dict(format.headers_of(key or NO_KEY))
        if ask.own_host and self.model.id.startswith("openai/"):
            # The user's organization and project, for OpenAI's own host alone.
            from pytest_agenteval.chat.direct.openai_chat_request import account_headers

            headers |= account_headers(os.environ)
        # The limit holds for the whole request, so that a reply that trickles in for ever ends, too.
        async with asyncio.timeout(self._timeout_s):
            answer = await http_pool.post(self._url, sent, headers, streamed=ask.streamed)
        if ask.streamed and answer.status < 300 and not answer.body.strip():
            raise UnreadableTraffic(CUT_OFF)
        if 300 <= answer.status < 400:
            # The key belongs to the host that the user named.
            # Where that redirects elsewhere, the user decides.
            location = answer.headers.get("Location", "").partition("?")[0].removesuffix(format.PATH)
            elsewhere = location if "://" in location else urljoin(self._url, location)
            words = one_line(KNOWN_SECRETS.text(f"it redirects to {elsewhere}: name that as api_base"))
            raise failed_attempt("bad_request", words, answer.status)
        return answer

    def _priced(self, parts: ReplyParts) -> Usage:
        """Give what a reply took, at the user's own price, else at the table's."""
        usage = parts.usage
        if self._price is not None and usage.tokens:
            return with_own_price(self._price, usage, parts.priced_apart)
        # The table's prices do not hold for a server of the user's own, whatever its models are called.
        if usage.cost_usd or not self._has_family:
            return usage if usage.cost_usd != 0 else replace(usage, cost_usd=None)
        # The model that replied, if the provider has it, is more exact than the requested one.
        provider = self.model.id.partition("/")[0]
        name = f"{provider}/{parts.model}"
        if (price_entry(name) or NOTHING).get("litellm_provider") != provider:
            name = self.model.id if price_entry(self.model.id) is not None else parts.model
        return with_table_price(name, usage, parts.priced_apart, self._region)

    def _failure(self, raised: Exception, ask: ModelAsk, headers: Mapping[str, str]) -> AttemptFailed:
        KNOWN_SECRETS.know_variables(key_names(self.model))
        words = one_line(KNOWN_SECRETS.text(str(raised))) or type(raised).__name__
        if isinstance(raised, TimeoutError):
            failed = failed_attempt("timeout", no_reply_message(self._timeout_s))
        elif isinstance(raised, ModelRefused):
            failed = _refused_attempt(raised, headers)
        elif isinstance(raised, NoConnection):
            failed = failed_attempt("connection", words)
        else:
            failed = failed_attempt("provider", f"{UNUSABLE}: {words}")
        sent = {*ask.settings}
        sent |= {"response_format"} if ask.response_schema is not None else set()
        sent |= {"stream_options"} if ask.streamed and ask.counts_streamed else set()
        return self._optional.without_what_it_names(failed, getattr(raised, "message", ""), sent)


def _format_of(model: Model) -> DirectFormat:
    """Give the module that writes asks in the model's format; the other is not imported."""
    if model.id.startswith("anthropic/"):
        from pytest_agenteval.chat.direct import anthropic_request

        return anthropic_request
    from pytest_agenteval.chat.direct import openai_chat_request

    return openai_chat_request


def _with_nan(body: bytes, unread: UnreadableTraffic) -> Json:
    """Give a body that is JSON but for NaN or infinity, as log probabilities may hold; else raise."""
    if not isinstance(unread, ModelRefused):
        with suppress(ValueError, RecursionError):
            whole = json.loads(body)
            if isinstance(whole, dict):
                return whole
    raise unread


def _encoded(body: Mapping[str, Any]) -> bytes:
    """Write a body; lone surrogates, which no request can hold, become question marks."""
    with suppress(UnicodeError, TypeError):
        return _encode(body)
    return compact_json(body).encode("utf-8", "replace")


def _refused_attempt(refused: ModelRefused, headers: Mapping[str, Any]) -> AttemptFailed:
    words = one_line(KNOWN_SECRETS.text(refused.message)) or refused.kind or "no reason given"
    if refused.status >= 300:
        cause = cause_of_refusal(refused.status, " ".join((*refused.words, refused.message)))
        return failed_attempt(cause, words, refused.status, headers)
    causes = (_CAUSES_IN_STREAMS[word] for word in refused.words if word in _CAUSES_IN_STREAMS)
    cause = next(causes, "provider")
    failed = failed_attempt(cause, words if cause != "provider" else f"{UNUSABLE}: {words}")
    failed.puts_off = failed.puts_off or "overloaded_error" in refused.words
    return failed

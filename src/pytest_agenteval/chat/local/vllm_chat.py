"""``vllm/NAME``: a model served by a vLLM that the run starts, and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.failures import AttemptFailed
from pytest_agenteval.chat.http_chat import http_chat
from pytest_agenteval.chat.local.loading import (
    START_SECONDS,
    loading_of,
    loading_options_of,
    note_loading,
    request_params,
)
from pytest_agenteval.chat.local.model_servers import ModelServers
from pytest_agenteval.chat.model_settings import REQUEST_GRACE_S
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.prices import NO_PRICES
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool import ToolSpec

if TYPE_CHECKING:
    from pytest_agenteval.chat.direct.direct_chat import DirectChat
    from pytest_agenteval.chat.litellm_chat import LitellmChat

REQUEST_SECONDS = 600.0


class VllmChat:
    """Asks the run's server of one model, which is started for the first that asks."""

    def __init__(self, model: Model, servers: ModelServers, recorder: Recorder | None = None) -> None:
        self.model, self._recorder = model, recorder
        self._servers, self._loading = servers, loading_of(model)
        self._start_s = float(model.params.get("start_seconds", START_SECONDS))
        self._timeout_s = float(model.params.get("request_seconds", REQUEST_SECONDS))
        self._chat: DirectChat | LitellmChat | None = None

    @property
    def longest_s(self) -> float:
        """How many seconds one request can take at most."""
        return self._timeout_s + REQUEST_GRACE_S

    async def prepare(self, *, tools: bool = False) -> None:
        """Wait until the server answers; raises ProviderDown where it does not."""
        if self._chat is None:
            address = await self._servers.address(self._loading, self._start_s)
            params = {"request_seconds": self._timeout_s, **request_params(self.model), "api_base": address}
            served = replace(self.model, id=f"hosted_vllm/{self._loading.source}", params=params)
            prices = NO_PRICES if self._recorder is None else self._recorder.prices
            self._chat = http_chat(served, prices)
            note_loading(self._recorder, self.model, loading_options_of(self.model))
        await self._chat.prepare(tools=tools)

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Send one request to the server and give the reply."""
        await self.prepare(tools=bool(tools))
        assert self._chat is not None
        try:
            return await self._chat.ask(
                messages, tools=tools, response_schema=response_schema, settings=settings
            )
        except AttemptFailed as failed:
            ended = self._servers.end_of(self._loading)
            if not ended:
                raise
            raise AttemptFailed(
                f"{failed.message}; {ended}", cause="provider", retryable=False, status=failed.status
            ) from failed

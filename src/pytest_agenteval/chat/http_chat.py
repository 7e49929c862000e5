"""Who asks a model over HTTP: our own connections, or litellm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agenteval.chat.via import DIRECT, via_of
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.prices import NO_PRICES, Prices

if TYPE_CHECKING:
    from pytest_agenteval.chat.direct.direct_chat import DirectChat
    from pytest_agenteval.chat.litellm_chat import LitellmChat


def http_chat(model: Model, prices: Prices = NO_PRICES) -> DirectChat | LitellmChat:
    """Give the chat of a model that is asked over HTTP, the way that it says, else the usual one."""
    if (model.via or via_of(model)) == DIRECT:
        from pytest_agenteval.chat.direct.direct_chat import DirectChat

        return DirectChat(model, prices)
    from pytest_agenteval.chat.litellm_chat import LitellmChat

    return LitellmChat(model, prices)

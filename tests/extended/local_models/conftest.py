"""Tiny models on disk, and chats that ask them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.chat.local import hf_chat
from pytest_agenteval.chat.local.hf_chat import HfChat
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.recorder import Recorder

from .tiny_model import PLAIN_TEMPLATE, save_tiny_model

# Models as small as these are slower on several threads than on one, and much slower where others want them.
os.environ["OMP_NUM_THREADS"] = "1"

WEATHER = [{"role": "user", "content": "Weather in Oslo?"}]
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    ],
}
CALL = '<think>I look.</think><tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
TAUGHT = (
    (WEATHER, ["get_weather"], CALL),
    ([*WEATHER, CALLED, {"role": "tool", "content": '{"sky":"rain"}'}], ["get_weather"], "It rains in Oslo."),
    (WEATHER, [], "Ask me with tools."),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("local_models")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose template knows neither tools nor system messages."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "plain", template=PLAIN_TEMPLATE)


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that calls get_weather, and says what it says."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "taught", replies=TAUGHT)


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    """One loop for the asks of a test; every model is let go of at its end."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(hf_chat.close())


@pytest.fixture
def chat() -> Callable[..., HfChat]:
    """Make the chat of a model in a folder."""

    def make(folder: Path, **params: Any) -> HfChat:
        return HfChat(Model("tiny", f"hf/{folder}", params=params), Recorder(float))

    return make

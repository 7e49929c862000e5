"""Model servers of a run: one for all of its processes, and none after it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agenteval.chat.local.loading import Loading, loading_of
from pytest_agenteval.chat.local.server_keeper import process_marker
from pytest_agenteval.chat.local.vllm_chat import (
    ModelServers,
    end_servers,
    missing_for_vllm,
    serve_command,
    tool_call_parser,
)
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.plan import Model
from pytest_agenteval.text.errors import ProviderDown
from tests.stand_ins.vllm import StandIn, put_on_path

pytestmark = pytest.mark.posix

TINY = Loading("org/tiny")
LONG_S = 60.0


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A vllm on the PATH."""
    return put_on_path(tmp_path / "vllm", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run's servers, which are ended with the test."""
    yield tmp_path / "servers"
    end_servers(tmp_path / "servers")


def _gone(start: dict[str, int]) -> bool:
    return not is_running(start["pid"]) and not is_running(start["child"])


def test_two_processes_of_a_run_share_one_server(
    vllm: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that asks starts it; no key of a provider's goes along; its whole group ends with the run."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    first, second = (ModelServers(str(folder), os.getpid(), {"OPENAI_API_KEY"}) for _ in range(2))

    async def ask_both() -> list[str]:
        return list(await asyncio.gather(*(servers.address(TINY, LONG_S) for servers in (first, second))))

    one, other = asyncio.run(ask_both())
    (start,) = vllm.starts
    assert one == other
    assert one.startswith("http://127.0.0.1:")
    assert start["args"][:2] == ["serve", "org/tiny"]
    assert "sk-canary" not in str(start)
    assert not _gone(start)
    end_servers(folder)
    assert _gone(start)
    assert [path.suffix for path in folder.iterdir()] == [".log"]


def test_a_server_that_fails_is_told_with_the_end_of_its_log(vllm: StandIn, folder: Path) -> None:
    """To all that ask, and nobody starts it again."""
    vllm.plan(fail="torch.OutOfMemoryError: CUDA out of memory\nRuntimeError: Engine core failed")
    for _ in range(2):
        with pytest.raises(ProviderDown) as caught:
            asyncio.run(ModelServers(str(folder), os.getpid()).address(TINY, LONG_S))
        assert str(caught.value).splitlines() == [
            "vllm/org/tiny cannot be served: vllm serve: exit status 3",
            "  INFO loading the model",
            "  torch.OutOfMemoryError: CUDA out of memory",
            "  RuntimeError: Engine core failed",
        ]
    assert len(vllm.starts) == 1


def test_a_server_that_is_never_ready_is_waited_for_in_vain(vllm: StandIn, folder: Path) -> None:
    """For as long as the model's start_seconds say; then it is ended."""
    vllm.plan(never_ready=True)
    with pytest.raises(ProviderDown, match=r"no reply at /health within 0\.3 s"):
        asyncio.run(ModelServers(str(folder), os.getpid()).address(TINY, 0.3))
    end_servers(folder)
    assert all(map(_gone, vllm.starts))


def test_a_keeper_lives_to_see_its_server_gone(folder: Path) -> None:
    """It has the variable of the server's processes, too, and does not end itself with them."""
    folder.mkdir()
    (folder / "one.stop").touch()
    mark, _, value = process_marker(folder, "one").partition("=")
    keeper = [sys.executable, "-m", "pytest_agenteval.chat.local.server_keeper"]
    command = [*keeper, str(folder), "one", str(os.getpid()), sys.executable, "-c", "input()"]
    ended = subprocess.run(command, env={**os.environ, mark: value}, check=False)
    assert ended.returncode == 0


def _keeper(folder: Path) -> int:
    (state,) = folder.glob("*.json")
    return int(json.loads(state.read_text(encoding="utf-8"))["keeper"])


def test_a_server_whose_keeper_was_killed_ends_with_the_run(vllm: StandIn, folder: Path) -> None:
    """It is known by a variable in its environment."""
    asyncio.run(ModelServers(str(folder), os.getpid()).address(TINY, LONG_S))
    os.kill(_keeper(folder), signal.SIGKILL)
    end_servers(folder)
    (start,) = vllm.starts
    while not _gone(start):  # killed, and somebody else's to bury
        os.sched_yield()


def test_the_command_says_how_the_model_is_loaded() -> None:
    """Every setting of an alias is an argument of vLLM's own."""
    params = {
        "dtype": "bfloat16",
        "quantization": "4bit",
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.8,
        "max_model_len": 4096,
        "reasoning_parser": "qwen3",
        "serve_args": ["--enforce-eager"],
        "temperature": 0,
    }
    command = serve_command(loading_of(Model("q", "vllm/Qwen/Qwen3-4B", params=params)), 8000)
    assert " ".join(command) == (
        "vllm serve Qwen/Qwen3-4B --host 127.0.0.1 --port 8000 --served-model-name Qwen/Qwen3-4B "
        "--dtype bfloat16 --tensor-parallel-size 2 --gpu-memory-utilization 0.8 --max-model-len 4096 "
        "--quantization bitsandbytes --tool-call-parser hermes --reasoning-parser qwen3 "
        "--enable-auto-tool-choice --enforce-eager"
    )
    assert tool_call_parser(Loading("meta-llama/Llama-3.1-8B-Instruct")) == "llama3_json"
    assert tool_call_parser(Loading("x", tool_call_parser="mine")) == "mine"


def test_a_folder_is_served_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be started from anywhere."""
    monkeypatch.chdir(tmp_path)
    assert loading_of(Model("m", "vllm/./models/mine")).source == str(tmp_path / "models/mine")


def test_without_the_program_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says what to install."""
    monkeypatch.setenv("PATH", "")
    (problem,) = missing_for_vllm(TINY)
    assert "pip install vllm" in problem

"""litellm in a process of its own: imported late and quietly, whatever private names a release has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.chat.bench import ModelServer

ROOT = Path(__file__).parents[3]

ALONE = """
import asyncio, os, socket, sys, time
from pytest_agenteval.chat import litellm_chat
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.records.plan import Model
assert "litellm" not in sys.modules
real = socket.socket.connect

def guarded(self, address):
    raise SystemExit(f"connects to {address} while litellm is imported")

async def main():
    await litellm_chat.close()
    socket.socket.connect = guarded
    ticks = 0
    imports = [asyncio.create_task(LitellmChat(Model("m", "openai/x")).prepare()) for _ in range(3)]
    while not all(task.done() for task in imports):
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 20, ticks
    socket.socket.connect = real
    ours = {"LITELLM_MODE", "LITELLM_LOCAL_MODEL_COST_MAP", "SECRET_OF_DOTENV"}
    assert not ours & set(os.environ), "environment changed"
    for id, base in zip(("openai/x", "anthropic/claude-sonnet-4-5"), sys.argv[1:]):
        question = [{"role": "user", "content": "hi"}]
        for more in ({}, {"stream": True}):
            params = {"api_base": base, "input_cost_per_token": 1e-6, **more}
            chat = LitellmChat(Model("m", id, params=params))
            replies = await asyncio.gather(*(chat.ask(question) for _ in range(3)))
            assert [reply.text for reply in replies] == ["ok"] * 3
    await litellm_chat.close()

asyncio.run(main())
"""


def test_litellm_comes_late_quietly_and_goes_without_a_trace(tmp_path: Path) -> None:
    """It is imported when first needed, off the loop, without network; nothing is printed, even at exit.

    Whoever comes while it is on its way waits for it.
    """
    tmp_path.joinpath(".env").write_text("SECRET_OF_DOTENV=1")
    alone = [sys.executable, "-W", "error::ResourceWarning", "-c", ALONE]
    with ModelServer() as server:
        done = subprocess.run(
            [*alone, server.openai_base, server.anthropic_base],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(server.requests) == 12


OTHER_RELEASE = """
import asyncio, sys
import litellm
from litellm.litellm_core_utils import core_helpers, logging_worker
from pytest_agenteval.chat import litellm_chat
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.records.plan import Model

class Cache:
    def __getattr__(self, name):
        if name in ("evicted_client_closer", "flush_cache"):
            raise AttributeError(name)
        return getattr(real, name)

async def main():
    chat = LitellmChat(Model("m", "openai/x", params={"api_base": sys.argv[1]}))
    await chat.prepare()
    core_helpers._FINISH_REASON_MAP = finishes  # litellm itself has it under another name by then
    print((await chat.ask([{"role": "user", "content": "hi"}])).text)
    del logging_worker.GLOBAL_LOGGING_WORKER
    await litellm_chat.close()

real, litellm.in_memory_llm_clients_cache = litellm.in_memory_llm_clients_cache, Cache()
finishes = core_helpers.__dict__.pop("_FINISH_REASON_MAP")
asyncio.run(main())
"""


def test_a_release_of_litellm_without_its_private_names_still_replies() -> None:
    """litellm releases weekly: a private name that pytest-agenteval uses may be missing in the next one."""
    with ModelServer() as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", OTHER_RELEASE, server.openai_base],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            capture_output=True,
            text=True,
        )

    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr

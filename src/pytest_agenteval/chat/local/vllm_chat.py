"""``vllm/NAME``: a model served by a vLLM that the run starts, shares between its processes, and ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.chat.chat import ChatMessage, ProviderChat, Reply, Send
from pytest_agenteval.chat.local.loading import (
    START_SECONDS,
    Loading,
    loading_of,
    loading_options_of,
    note_loading,
    request_params,
)
from pytest_agenteval.chat.local.server_keeper import GRACE_S, process_marker
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.chat.retries import http_chat
from pytest_agenteval.processes.files import file_lock
from pytest_agenteval.processes.process_groups import GROUP, end_processes_with_variable, is_running
from pytest_agenteval.processes.threads import close_at_end, in_daemon_thread
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import ProviderDown
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.chat.direct.direct_chat import DirectChat
    from pytest_agenteval.chat.litellm_chat import LitellmChat


PROGRAM = "vllm"
HOW_TO_INSTALL_VLLM = "pip install vllm"
HOST = "127.0.0.1"

# vLLM's names of quantizations that it makes while it loads the weights.
VLLM_QUANTIZATIONS: Mapping[str, str] = {"4bit": "bitsandbytes", "8bit": "fp8"}

# vLLM's parsers of tool calls, each with a pattern of the models' names. For other models it is ``hermes``.
TOOL_CALL_PARSERS = (
    (r"qwen3.?coder|qwen3\.[5-9]", "qwen3_coder"),
    (r"gpt-?oss", "openai"),
    (r"llama-?4", "llama4_pythonic"),
    (r"llama-?3", "llama3_json"),
    (r"mistral|mixtral|ministral|magistral|devstral|codestral", "mistral"),
    (r"granite-?20b-functioncalling", "granite-20b-fc"),
    (r"granite-?[34]", "granite"),
    (r"functiongemma", "functiongemma"),
    (r"gemma-?4", "gemma4"),
    (r"gemma", "pythonic"),
    (r"phi-?4-mini", "phi4_mini_json"),
    (r"deepseek-?v3\.2", "deepseek_v32"),
    (r"deepseek-?v3\.1", "deepseek_v31"),
    (r"deepseek", "deepseek_v3"),
    (r"kimi-?k2", "kimi_k2"),
    (r"glm-?4\.[5-9]", "glm45"),
    (r"minimax-?m2", "minimax_m2"),
    (r"seed-?oss", "seed_oss"),
)


# Files that exist where there is a GPU: of NVIDIA, of AMD, and of Windows's subsystem for Linux.
GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")


def missing_for_vllm(loading: Loading) -> Iterator[str]:
    """Name what ``vllm serve`` lacks on this machine; vLLM may be installed for another Python."""
    if loading.quantization in VLLM_QUANTIZATIONS and not any(map(os.path.exists, GPU_FILES)):
        yield f"{loading.quantization} needs a GPU; leave `quantization` out"
    if shutil.which(PROGRAM) is None:
        yield f"no program {PROGRAM!r} on the PATH: {HOW_TO_INSTALL_VLLM}, or name a server with api_base"


def tool_call_parser(loading: Loading) -> str:
    name = loading.source.lower()
    known = (parser for pattern, parser in TOOL_CALL_PARSERS if re.search(pattern, name))
    return loading.tool_call_parser or next(known, "hermes")


def serve_command(loading: Loading, port: int) -> list[str]:
    options: Mapping[str, object] = {
        "--host": HOST,
        "--port": port,
        "--served-model-name": loading.source,
        "--dtype": loading.dtype,
        "--tensor-parallel-size": loading.tensor_parallel_size,
        "--gpu-memory-utilization": loading.gpu_memory_utilization,
        "--max-model-len": loading.max_model_len,
        "--quantization": VLLM_QUANTIZATIONS.get(loading.quantization, loading.quantization),
        "--tool-call-parser": tool_call_parser(loading),
        "--reasoning-parser": loading.reasoning_parser,
    }
    flags = [str(part) for flag, value in options.items() if value for part in (flag, value)]
    return [PROGRAM, "serve", loading.source, *flags, "--enable-auto-tool-choice", *loading.serve_args]


def serve_environment(loading: Loading, keys: Collection[str]) -> dict[str, str]:
    """Give the server's environment: ours without ``keys``, and with the GPU that the device names."""
    # A local server needs no provider's key.
    ours = {name: value for name, value in os.environ.items() if name not in keys}
    kind, _, number = loading.device.partition(":")
    return {**ours, "CUDA_VISIBLE_DEVICES": number} if kind == "cuda" and number else ours


LOOK_S = 0.1
HEALTH_S = 5.0
LAST_LINES = 15
LAST_BYTES = 8000


class ModelServer(NamedTuple):
    """A started server: its port, and the process id of its keeper."""

    port: int
    keeper: int

    @property
    def address(self) -> str:
        """The base URL of its OpenAI-compatible API."""
        return f"http://{HOST}:{self.port}/v1"


class ModelServers:
    """Finds or starts the servers of one run, whose processes share ``folder``.

    A server lives as long as the process ``owner``: the run's controller if it is on this machine, else this
    one. Without a folder the servers are this process's own. No server gets the environment variables
    ``keys``.
    """

    def __init__(self, folder: str = "", owner: int = 0, keys: Collection[str] = ()) -> None:
        self._folder = Path(folder) if folder else None
        self._owner = owner if owner and is_running(owner) else os.getpid()
        self._keys, self._private = keys, not folder
        self._healthy: dict[Loading, ModelServer] = {}

    async def address(self, loading: Loading, seconds: float) -> str:
        """Give the base URL of a model's server once it answers; raises ProviderDown with its log's end."""
        if loading not in self._healthy:
            self._healthy[loading] = await in_daemon_thread(self._healthy_server, loading, seconds)
        return self._healthy[loading].address

    def end_of(self, loading: Loading) -> str:
        """Give how a server ended, with the end of its log; empty while it runs."""
        ended = self._place(f"{_server_name(loading)}.ended")
        if not ended.exists():
            return ""
        return f"vllm serve: {ended.read_text(encoding='utf-8')}{self._log(loading)}"

    async def close(self) -> None:
        """End the servers if this process owns them."""
        self._healthy.clear()
        if self._folder is not None and self._owner == os.getpid():
            await in_daemon_thread(end_servers, self._folder)
            if self._private:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _healthy_server(self, loading: Loading, seconds: float) -> ModelServer:
        server = self._server(loading)
        until = time.monotonic() + seconds
        while not _is_healthy(server.port):
            ended = self.end_of(loading)
            if not ended and time.monotonic() > until:
                self._place(f"{_server_name(loading)}.stop").touch()
                ended = f"vllm serve: no reply at /health within {seconds:g} s{self._log(loading)}"
            if ended:
                raise ProviderDown(f"vllm/{loading.source} cannot be served: {ended}")
            time.sleep(LOOK_S)
        return server

    def _server(self, loading: Loading) -> ModelServer:
        """Give the run's server of a model; the first process starts it while others wait."""
        name = _server_name(loading)
        state = self._place(f"{name}.json")
        with file_lock(state):
            if state.exists():
                return ModelServer(**json.loads(state.read_text(encoding="utf-8")))
            # The system names a free port, which is closed again for vLLM.
            with socket.create_server((HOST, 0)) as listening:
                port: int = listening.getsockname()[1]
            folder = self._place("")
            mark, _, value = process_marker(folder, name).partition("=")
            # The keeper, not this worker, is the server's parent,
            # so that the server outlives a killed worker.
            keeper = [sys.executable, "-m", "pytest_agenteval.chat.local.server_keeper"]
            command = [*keeper, str(folder), name, str(self._owner), *serve_command(loading, port)]
            environment = {**serve_environment(loading, self._keys), mark: value}
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                **GROUP,
            )
            server = ModelServer(port, process.pid)
            state.write_text(json.dumps(server._asdict()), encoding="utf-8", newline="\n")
            return server

    def _place(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="agenteval-servers-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        close_at_end(self.close)
        return self._folder / name

    def _log(self, loading: Loading) -> str:
        """Give the last lines of the server's log, each on a line of its own."""
        lines: list[str] = []
        with suppress(OSError), self._place(f"{_server_name(loading)}.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
        return KNOWN_SECRETS.text("".join(f"\n  {line}" for line in lines))


def end_servers(folder: Path) -> None:
    """End every server of a run's folder, and wait until it is gone."""
    states = list(folder.glob("*.json")) if folder.is_dir() else []
    for state in states:
        state.with_suffix(".stop").touch()
    for state in states:
        keeper = ModelServer(**json.loads(state.read_text(encoding="utf-8"))).keeper
        until = time.monotonic() + 2 * GRACE_S
        while is_running(keeper) and time.monotonic() < until:
            time.sleep(LOOK_S)
        end_processes_with_variable(process_marker(folder, state.stem), 0)  # if the keeper itself was killed
        for ending in (".json", ".stop", ".ended"):
            state.with_suffix(ending).unlink(missing_ok=True)


def _server_name(loading: Loading) -> str:
    fields = {name: getattr(loading, name) for name in loading.__struct_fields__}
    return f"vllm-{json_digest(fields)[:8]}"


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=HEALTH_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


REQUEST_SECONDS = 600.0


class VllmChat(ProviderChat):
    """Asks the run's server of one model, which the first ask starts."""

    def __init__(self, model: Model, servers: ModelServers, recorder: Recorder) -> None:
        self.model, self._recorder = model, recorder
        self._servers, self._loading = servers, loading_of(model)
        self._start_s = float(model.params.get("start_seconds", START_SECONDS))
        self._timeout_s = float(model.params.get("request_seconds", REQUEST_SECONDS))
        self._chat: DirectChat | LitellmChat | None = None

    async def prepare(self, messages: Sequence[ChatMessage] = (), **ask: Any) -> Send:
        """Wait until the server answers; raises ProviderDown where it does not."""
        if self._chat is None:
            address = await self._servers.address(self._loading, self._start_s)
            params = {"request_seconds": self._timeout_s, **request_params(self.model), "api_base": address}
            served = replace(self.model, id=f"hosted_vllm/{self._loading.source}", params=params)
            self._chat = http_chat(served, self._recorder.prices)
            note_loading(self._recorder, self.model, loading_options_of(self.model))
        return partial(self._reply, await self._chat.prepare(messages, **ask))

    async def _reply(self, send: Send) -> Reply:
        try:
            return await send()
        except AttemptFailed as failed:
            ended = self._servers.end_of(self._loading)
            if not ended:
                raise
            raise AttemptFailed(
                f"{failed.message}; {ended}", cause="provider", retryable=False, status=failed.status
            ) from failed

"""The model servers of a run: each is started by the first process that asks, and shared by all."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.chat.local.loading import Loading
from pytest_agenteval.chat.local.server_keeper import GRACE_S, marked
from pytest_agenteval.chat.local.vllm_command import HOST, serve_command, serve_environment
from pytest_agenteval.processes.closers import close_at_end
from pytest_agenteval.processes.files import locked
from pytest_agenteval.processes.process_table import is_running
from pytest_agenteval.processes.processes import GROUP, end_marked
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.text.canonical import digest
from pytest_agenteval.text.errors import ProviderDown
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

LOOK_S = 0.1
HEALTH_S = 5.0
LAST_LINES = 15
LAST_BYTES = 8000


class ModelServer(NamedTuple):
    """A server that was started: where it listens, and who keeps it."""

    port: int
    keeper: int

    @property
    def address(self) -> str:
        """The base URL of its OpenAI-compatible API."""
        return f"http://{HOST}:{self.port}/v1"


class ModelServers:
    """Finds or starts the servers of one run, whose processes share ``folder``.

    A server lives as long as the process ``owner``: the run's controller where it is on this machine, else
    this one. Without a folder the servers are this process's alone. ``keys`` are variables that no server is
    given.
    """

    def __init__(self, folder: str = "", owner: int = 0, keys: Collection[str] = ()) -> None:
        self._folder = Path(folder) if folder else None
        self._owner = owner if owner and is_running(owner) else os.getpid()
        self._keys, self._private = keys, not folder
        self._healthy: dict[Loading, ModelServer] = {}

    async def address(self, loading: Loading, seconds: float) -> str:
        """Give the base URL of a model's server, once it answers; raises ProviderDown with its log's end."""
        if loading not in self._healthy:
            self._healthy[loading] = await in_daemon_thread(self._healthy_server, loading, seconds)
        return self._healthy[loading].address

    def end_of(self, loading: Loading) -> str:
        """Say how a server ended that is gone, with the end of its log; empty for one that is there."""
        ended = self._place(f"{_name(loading)}.ended")
        if not ended.exists():
            return ""
        return f"vllm serve: {ended.read_text(encoding='utf-8')}{self._log(loading)}"

    async def close(self) -> None:
        """End the servers where they are this process's own."""
        self._healthy.clear()
        if self._folder is not None and self._owner == os.getpid():
            await in_daemon_thread(end_servers, self._folder)
            if self._private:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _healthy_server(self, loading: Loading, seconds: float) -> ModelServer:
        server = self._server(loading)
        until = time.monotonic() + seconds
        while not _answers(server.port):
            ended = self.end_of(loading)
            if not ended and time.monotonic() > until:
                self._place(f"{_name(loading)}.stop").touch()
                ended = f"vllm serve: no reply at /health within {seconds:g} s{self._log(loading)}"
            if ended:
                raise ProviderDown(f"vllm/{loading.source} cannot be served: {ended}")
            time.sleep(LOOK_S)
        return server

    def _server(self, loading: Loading) -> ModelServer:
        """Give the run's server of a model; the first process that asks starts it, while others wait."""
        name = _name(loading)
        state = self._place(f"{name}.json")
        with locked(state):
            if state.exists():
                return ModelServer(**json.loads(state.read_text(encoding="utf-8")))
            server = self._start(loading, name)
            state.write_text(json.dumps(server._asdict()), encoding="utf-8", newline="\n")
            return server

    def _start(self, loading: Loading, name: str) -> ModelServer:
        folder, port = self._place(""), _free_port()
        mark, _, value = marked(folder, name).partition("=")
        environment = {**serve_environment(loading, self._keys), mark: value}
        keeper = [sys.executable, "-m", "pytest_agenteval.chat.local.server_keeper"]
        process = subprocess.Popen(
            [*keeper, str(folder), name, str(self._owner), *serve_command(loading, port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            **GROUP,
        )
        return ModelServer(port, process.pid)

    def _place(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="agenteval-servers-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        close_at_end(self.close)
        return self._folder / name

    def _log(self, loading: Loading) -> str:
        """Give the last lines of the server's log, each on a line of its own."""
        lines: list[str] = []
        with suppress(OSError), self._place(f"{_name(loading)}.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
        return KNOWN_SECRETS.text("".join(f"\n  {line}" for line in lines))


def end_servers(folder: Path) -> None:
    """End every server that was started in a run's folder, and wait until it is gone."""
    states = list(folder.glob("*.json")) if folder.is_dir() else []
    for state in states:
        state.with_suffix(".stop").touch()
    for state in states:
        keeper = ModelServer(**json.loads(state.read_text(encoding="utf-8"))).keeper
        until = time.monotonic() + 2 * GRACE_S
        while is_running(keeper) and time.monotonic() < until:
            time.sleep(LOOK_S)
        end_marked(marked(folder, state.stem), 0)  # where the keeper itself was killed
        for ending in (".json", ".stop", ".ended"):
            state.with_suffix(ending).unlink(missing_ok=True)


def _name(loading: Loading) -> str:
    fields = {name: getattr(loading, name) for name in loading.__struct_fields__}
    return f"vllm-{digest(fields)[:8]}"


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    """Whether the server says that it is ready."""
    connection = http.client.HTTPConnection(HOST, port, timeout=HEALTH_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

"""The part of Ray that is needed here: a cluster that is joined or started, and actors on it.

No other module imports Ray, and this one is imported only if the executor ``ray`` was chosen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pytest_agenteval.engine.cluster.actor import ActorLost
from pytest_agenteval.engine.cluster.transfer import make_folder
from pytest_agenteval.engine.executor import ExecutorBroken
from pytest_agenteval.processes.files import SHORT_TEMP, remove_tree
from pytest_agenteval.processes.signals import preserved_signal_handlers
from pytest_agenteval.text.errors import exception_text

# The import alone replaces ``sys.excepthook``.
with preserved_signal_handlers():
    import ray
    from ray.exceptions import RayError

# The variable with which Ray itself finds a cluster; without it, one is started on this machine.
ADDRESS = "RAY_ADDRESS"

# Bytes for the project and for large transcripts, in the memory of a cluster of our own.
OBJECTS = 256 * 1024 * 1024


# How many trials one actor may have under way.
MOST_AT_ONCE = 100_000

FOLDER = "agenteval-ray"
# Lets only this process into clusters of its own; there is one for all of them, as Ray remembers the first.
TOKEN = secrets.token_hex(32)

# Seconds in which a cluster has to accept a connection.
REACHING_S = 10.0


class RayCluster:
    """The cluster that this process has joined, or started.

    ``connect`` and ``disconnect`` block, and must be called on one thread that stays: the servers of a
    cluster of our own end with the thread that has started them.
    """

    def __init__(self) -> None:
        self.is_own = False
        self._was_joined = False
        self._folder: Path | None = None
        self._printing: Any = None
        self._variables: dict[str, str | None] = {}

    @property
    def address(self) -> str:
        """The address of the cluster that the user has set; empty if we start our own."""
        return os.environ.get(ADDRESS, "")

    def connect(self, actors: int) -> int:
        """Join the cluster, or start one with room for so many actors; return the number of its machines.

        Raises ExecutorBroken if there is none, or none that lets us in.
        """
        # A conftest has joined it: it belongs to the author, and stays.
        self._was_joined = ray.is_initialized()
        self.is_own = not (self.address or self._was_joined)
        if self.address and not self._was_joined:
            _check_reachable(self.address)
        try:
            with preserved_signal_handlers(), _silence(), self._variables_remembered():
                if not self._was_joined:
                    self._init(actors)
                    self._quiet()
        except Exception as raised:
            reason = exception_text(raised).strip().splitlines() or [""]
            where = f"the Ray cluster at {self.address}" if self.address else "a Ray cluster on this machine"
            doing = "cannot be joined" if self.address else "cannot be started"
            raise ExecutorBroken(f"{where} {doing}: {type(raised).__name__}: {reason[0]}") from None
        return len([node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")])

    def _init(self, actors: int) -> None:
        own: dict[str, Any] = {}
        if self.is_own:
            # No usage statistics are sent, unless the user has switched them on.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
                # Otherwise Ray writes a token into the user's home.
                os.environ["RAY_AUTH_TOKEN"] = TOKEN
            self._folder = make_folder(FOLDER, os.environ.get("RAY_TMPDIR", SHORT_TEMP))
            own = {
                "num_cpus": max(actors, os.cpu_count() or 1),
                "include_dashboard": False,
                "object_store_memory": OBJECTS,
                "_temp_dir": str(self._folder),
            }
        ray.init(
            address=self.address or "local",
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
            **own,
        )

    def _quiet(self) -> None:
        """Switch off what Ray reports of its machines, which it would print between pytest's own lines.

        Ray has no switch for it; the one for what actors print is another.
        """
        module = ray._private.worker
        if hasattr(module, "print_to_stdstream"):
            self._printing = module.print_to_stdstream
            module.print_to_stdstream = lambda *_, **__: None

    def share(self, value: object) -> Any:
        """Put an object into the cluster's memory, once on each machine, where all actors find it."""
        return ray.put(value)

    def start_actor(self, kind: type) -> Any:
        """Start an actor in the cluster, on another machine than the others if possible."""
        # While it is made, it takes the place of one processor. Lost actors are restarted and counted by us,
        # so Ray must not restart any.
        once = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": MOST_AT_ONCE}
        return ray.remote(kind).options(scheduling_strategy="SPREAD", **once).remote()

    async def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Call a method of an actor and return its result; raises ActorLost."""
        try:
            return await _result_of(getattr(actor, method).remote(*args).future())
        # Also if it cannot be reached for a moment: what it was carrying out begins again elsewhere.
        except RayError as raised:
            raise ActorLost(_reason(raised)) from None

    def kill(self, actor: Any) -> None:
        """End an actor at once, if it is still there."""
        with suppress(Exception):
            ray.kill(actor)

    def disconnect(self) -> None:
        """Leave the cluster; one of our own ends, and leaves nothing behind."""
        if self._was_joined:
            return
        with preserved_signal_handlers(), _silence():
            ray.shutdown()
        if self._printing is not None:
            ray._private.worker.print_to_stdstream = self._printing
        for name, value in self._variables.items():
            if value is None:
                os.environ.pop(name, None)
        if self._folder is not None:
            remove_tree(self._folder)

    @contextmanager
    def _variables_remembered(self) -> Iterator[None]:
        """Note which variables Ray sets in this process: they are removed when it ends."""
        before = set(os.environ)
        yield
        self._variables = {name: None for name in os.environ if name not in before}


async def _result_of(future: Future[Any]) -> Any:
    """Wait for the result of an actor; unlike ``wrap_future``, a waiter that stops cancels nothing."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not waiting.done():
            waiting.set_result(None)

    def end_waiting(_: object) -> None:
        # If the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(end_waiting)
    await waiting
    return future.result()


def _check_reachable(address: str) -> None:
    """Raise ExecutorBroken if nothing answers: Ray itself would try for minutes, and print messages."""
    if "://" in address:
        raise ExecutorBroken(
            f"{ADDRESS}={address}: expected HOST:PORT of the cluster's head (the port is 6379 by default), "
            "or auto; an address of Ray's client protocol does not work"
        )
    host, _, port = address.rpartition(":")
    # ``auto``, or another word that Ray understands.
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHING_S).close()
    except (OSError, OverflowError) as unreachable:
        raise ExecutorBroken(
            f"the Ray cluster at {address} cannot be joined: {exception_text(unreachable)}. "
            f"Does it run (ray status), and is {ADDRESS} the HOST:PORT of its head?"
        ) from None


@contextmanager
def _silence() -> Iterator[None]:
    """Hide what Ray announces; errors are raised anyway."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


# A phrase of Ray's long message about the end of an actor, and the same in a few words.
_REASONS = (
    ("no module named 'pytest_agenteval", "pytest-agenteval is not installed where Ray runs on its machine"),
    ("node has died", "its machine is gone"),
    ("node was terminated", "its machine is gone"),
    ("out-of-memory", "it was killed for its memory"),
    ("worker process has died", "its process has ended"),
)


def _reason(raised: BaseException) -> str:
    text = " ".join(exception_text(raised).split())
    known = [words for phrase, words in _REASONS if phrase in text.lower().replace("(oom)", "out-of-memory")]
    return known[0] if known else f"{type(raised).__name__}: {text[:200]}"

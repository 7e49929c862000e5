"""A program in a container of docker or podman, whose only network is one port of this process.

The container has no network of its own. A small program in it (``container_runner``) starts the command, and
carries the command's pipes and its connections to the port over the pipes of the engine's client: so nothing
is opened on this machine, engines on other machines work too, and the container ends with this process.
"""

from __future__ import annotations

import contextvars
import io
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_agenteval.processes import process_groups
from pytest_agenteval.processes.process_groups import (
    GROUP,
    disown_group,
    end_group,
    forget_if_killed,
    run_if_killed,
    start_owned,
    user_and_group,
)
from pytest_agenteval.text.errors import TrialBroken

ENGINES = ("docker", "podman")
LABEL = "pytest-agenteval"
HEADER = struct.Struct(">II")
CONTROL, OUTPUT, ERRORS, FIRST = 0, 1, 2, 16
CHUNK = 65536
MOST_FRAME = 1_000_000
MOST_CONNECTIONS = 256
ENGINE_S = 60.0
"""Seconds that an engine may take to answer, or to remove a container."""
STOPPING_S = 5.0
"""Seconds that an engine has to report the end of a container whose processes have ended."""
LOOK_S = 1.0
"""Seconds between two looks at how much a container has written."""
RESERVE_BYTES = 1 << 30
"""Of this much room on the disk, or of what is left at the start, half stays free."""
BLOCK = 4096
"""Bytes that a file takes at least."""
MOST_ERRORS, MOST_QUOTED = 100, 2
KILLED_STATUS = 137
HINTS = ("See '", "Run '")
"""How lines begin in which docker says how it is used."""
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
START = (
    'if command -v python3 >/dev/null; then python3 -I -S -c "$1"; '
    'elif command -v node >/dev/null; then node -e "$2"; '
    "else echo 'the image has neither python3 (3.8 or newer) nor node, one of which a box needs' >&2; fi; "
    # Not the last command: this shell stays the first process, which nothing in the container can end, and
    # which takes leave of processes whose parent has ended.
    "exit $?"
)


class ContainerFailed(TrialBroken):
    """A container that cannot be started, or that has ended before its command did."""

    cause = "agent"


class ContainerLimit(TrialBroken):
    """A command that used more memory or disk than its container has."""

    cause = "agent_crash"


def engines() -> list[str]:
    """Give the whole paths of the container engines on PATH."""
    return [path for name in ENGINES if (path := shutil.which(name))]


@dataclass(frozen=True)
class Engine:
    """A container engine that answers, and the options that it needs beyond those of every engine.

    ``user`` are the numbers by which files belong to this process's user; empty on Windows.
    """

    program: str
    user: str
    options: tuple[str, ...]


@cache
def engine() -> Engine:
    """Give the first engine that answers; raises ContainerFailed with what each replied."""
    replies = []
    for program in engines():
        name = Path(program).stem
        asks = "{{json .SecurityOptions}}" if name == "docker" else "{{.Host.Security.Rootless}}"
        status, text = _run([program, "info", "--format", asks])
        if status != 0:
            replies.append(f"{name}: {text}")
            continue
        user, options = user_and_group(), []
        if name == "docker" and "rootless" in text:
            user = "0:0"  # who is this process's user there
        elif name == "podman":
            # Else it would mount folders in memory without a bound.
            options = ["--read-only-tmpfs=false", *(["--userns", "keep-id"] if text == "true" else [])]
        return Engine(program, user, (*options, *(["--user", user] if user else [])))
    reason = "; ".join(replies) or "neither is on PATH"
    raise ContainerFailed(f"no container engine answers ({reason}): start docker or podman")


@cache
def image_id(image: str) -> str:
    """Give the id of an image that is on this machine; raises ContainerFailed where it is not."""
    program = engine().program
    status, text = _run([program, "image", "inspect", "--format", "{{.Id}}", image])
    if status != 0:
        hint = f"`{Path(program).stem} pull {image}` or `{Path(program).stem} build` makes it"
        raise ContainerFailed(f"the image {image!r} is not on this machine ({text}): {hint}")
    return text


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Run an engine's client; give its status, and its output or the last line of its errors."""
    try:
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **GROUP)
        output, errors = client.communicate(timeout=ENGINE_S)
    except (OSError, subprocess.TimeoutExpired) as failed:
        return 1, str(failed)
    text = (errors if client.returncode else output).decode("utf-8", "replace").strip()
    return client.returncode, text.rpartition("\n")[2]


@dataclass(frozen=True)
class Mount:
    """A file or a folder of this machine, and where it lies in the container."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """What a container is made of: ``connect`` opens a connection to ``port`` of this machine."""

    image: str
    folder: str
    mounts: tuple[Mount, ...]
    port: int
    connect: Callable[[], socket.socket]
    memory: str = "2g"
    processes: int = 256
    disk: str = "1g"

    @property
    def disk_bytes(self) -> int:
        return int(self.disk[:-1]) * UNITS[self.disk[-1].lower()]

    def arguments(self, name: str) -> list[str]:
        """Give what follows the engine's program to start the container; its command comes by its input."""
        size = self.disk_bytes
        # One host name for all, as an agent may send it to a model whose recorded reply is to be replayed.
        # Without a log, as an engine would write all of the container's output to the disk.
        options = f"""
            run --rm --interactive --pull never --name {name} --hostname agenteval --label {LABEL}
            --network none --cap-drop ALL --security-opt no-new-privileges --log-driver none
            --read-only --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size={size}
            --memory {self.memory} --memory-swap {self.memory} --pids-limit {self.processes}
            --ulimit fsize={size}:{size} --ulimit nofile=4096:4096 --ulimit core=0:0
            --workdir {self.folder} --entrypoint sh
        """.split()
        options += engine().options
        for mount in self.mounts:
            # With ``z``, SELinux lets containers use it; elsewhere it means nothing.
            mode = "z" if mount.writable else "ro,z"
            options += ["--volume", f"{mount.source.absolute()}:{mount.target}:{mode}"]
        return [*options, self.image, "-c", START, "agenteval", *_runner_sources()]


@cache
def _runner_sources() -> tuple[str, ...]:
    runner = Path(process_groups.__file__).with_name("container_runner.py")
    return tuple(file.read_text(encoding="utf-8") for file in (runner, runner.with_suffix(".js")))


class Container:
    """One run of a command in a container, with the face that ``subprocess.Popen`` has for a program.

    ``failed`` says why there is no exit status, or which limit of the container ended the command.
    """

    def __init__(
        self, spec: ContainerSpec, command: Sequence[str], environ: Mapping[str, str], grace_s: float
    ) -> None:
        self.returncode: int | None = None
        self.failed: TrialBroken | None = None
        self._spec, self._grace_s = spec, grace_s
        self._started, self._done, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._writing = threading.Lock()
        self._connections: dict[int, socket.socket] = {}
        self._newest = FIRST - 1
        self._errors: list[str] = []
        name = f"agenteval-{secrets.token_hex(8)}"
        self._removal = [engine().program, "rm", "--force", name]
        run_if_killed(self._removal)
        self._client: Any = start_owned([engine().program, *spec.arguments(name)])
        (given, self.stdin), (self.stdout, output), (self.stderr, errors) = _pipe(), _pipe(), _pipe()
        self._outputs = {OUTPUT: output, ERRORS: errors}
        for work in (self._read_errors, self._carry, self._watch_disk):
            _start_thread(work)
        order = {"command": list(command), "folder": spec.folder, "environ": dict(environ)}
        with suppress(OSError):  # the engine has refused, and says why
            self._send(CONTROL, json.dumps({**order, "port": spec.port, "grace": grace_s}).encode())
        _start_thread(self._pump, OUTPUT, given, given.read1)

    def wait_for_start(self) -> None:
        """Wait until the command has been started, or will not be."""
        self._started.wait(ENGINE_S)

    def wait(self) -> int | None:
        """Wait until the command has ended, and give its status; None where it has none."""
        self._done.wait()
        return self.returncode

    def end(self) -> None:
        """End all processes of the container and remove it; what they have written can still be read.

        They are first requested to end, and killed after ``grace_s`` seconds.
        """
        # A container that reads nothing more holds up whoever writes to it, and is removed at once.
        if self._writing.acquire(timeout=self._grace_s):
            with suppress(OSError):
                self._client.stdin.close()
            self._writing.release()
            with suppress(subprocess.TimeoutExpired):
                self._client.wait(self._grace_s + STOPPING_S)
        try:
            if self._client.poll() != 0:
                _run(self._removal)
        finally:
            end_group(self._client, 0)
            disown_group(self._client)
            forget_if_killed(self._removal)
            self._ended.set()

    def _send(self, number: int, data: bytes = b"") -> None:
        with self._writing:
            self._client.stdin.write(HEADER.pack(number, len(data)) + data)
            self._client.stdin.flush()

    def _pump(self, number: int, source: Any, read: Callable[[int], bytes]) -> None:
        """Send what can be read of a source to the container, and its end."""
        with suppress(OSError, ValueError):
            with source:
                while data := read(CHUNK):
                    self._send(number, data)
            self._connections.pop(number, None)
            self._send(number)

    def _carry(self) -> None:
        """Take the container's frames as long as it runs."""
        reason = ""
        try:
            with self._client.stdout as stream:
                while len(header := stream.read(HEADER.size)) == HEADER.size:
                    number, length = HEADER.unpack(header)
                    self._take(number, stream.read(min(length, MOST_FRAME)))
        # A command has the runner's user, and may write anything to where the frames come from.
        except Exception:
            reason = "its output was not that of agenteval's runner"
        if not self._done.is_set() and self.failed is None:
            self.failed = ContainerFailed(self._early_end(reason))
        self._started.set()
        self._done.set()
        for output in self._outputs.values():
            output.close()
        for connection in tuple(self._connections.values()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _take(self, number: int, data: bytes) -> None:
        if number >= FIRST:
            self._take_of_connection(number, data)
        elif number != CONTROL:
            with suppress(OSError, ValueError):  # nobody reads it any more
                self._outputs[number].write(data) if data else self._outputs[number].close()
        else:
            report = json.loads(data)
            self._started.set()
            if refusal := report.get("refused"):
                self.failed = ContainerFailed(f"{self._spec.image} cannot start the command: {refusal}")
                self._done.set()
            elif "status" in report and not self._done.is_set():
                self.returncode = int(report["status"])
                if self.returncode and report["memory_kills"]:
                    self._note_limit("memory", self._spec.memory)
                self._done.set()

    def _take_of_connection(self, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        with suppress(OSError, ValueError):
            if connection is None and number > self._newest and len(self._connections) < MOST_CONNECTIONS:
                self._newest = number
                connection = self._connections[number] = self._spec.connect()
                _start_thread(self._pump, number, connection, connection.recv)
            if connection is None:
                self._send(number)
            elif data:
                connection.sendall(data)
            else:
                connection.shutdown(socket.SHUT_WR)

    def _read_errors(self) -> None:
        with suppress(OSError, ValueError), self._client.stderr as stream:
            for line in stream:
                if len(self._errors) < MOST_ERRORS:
                    self._errors.append(line.decode("utf-8", "replace").strip())

    def _early_end(self, reason: str) -> str:
        """Say why the command's own end was not reported."""
        with suppress(subprocess.TimeoutExpired):
            self._client.wait(LOOK_S)
        status = self._client.returncode
        errors = [line for line in self._errors if line and not line.startswith(HINTS)]
        reason = reason or " ".join(errors[-MOST_QUOTED:]) or f"status {status}"
        if status == KILLED_STATUS:
            reason += f"; out of memory (`memory: {self._spec.memory}`), or killed from inside"
        return f"the container of {self._spec.image} ended before its command: {reason}"

    def _note_limit(self, key: str, size: str) -> None:
        self.failed = ContainerLimit(f"the command reached a limit of its container: `{key}: {size}`")

    def _watch_disk(self) -> None:
        """End the container once its folders hold too much, or the disk has nearly no room left."""
        folders = [mount.source for mount in self._spec.mounts if mount.writable]
        reserve = min(shutil.disk_usage(folders[0]).free, RESERVE_BYTES) // 2
        pause = LOOK_S
        while not self._ended.wait(pause) and not self._done.is_set():
            began = time.monotonic()
            written = sum(map(_tree_size, folders))
            if written > self._spec.disk_bytes or shutil.disk_usage(folders[0]).free < reserve:
                self._note_limit("disk", self._spec.disk)
                _run(self._removal)
                return
            # At most a twentieth of the time is for looking.
            pause = max(LOOK_S, 20 * (time.monotonic() - began))


def _pipe() -> tuple[io.BufferedReader, io.FileIO]:
    reads, writes = os.pipe()
    # What is read by lines needs a buffer, and takes the same from it where it is read as it comes.
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb", buffering=0)


def _start_thread(work: Callable[..., object], *args: Any) -> None:
    # In no trial's context: what it does is ours.
    thread = threading.Thread(target=work, args=args, name="agenteval-container", daemon=True)
    contextvars.Context().run(thread.start)


def _tree_size(root: Path) -> int:
    size = 0
    for folder, folders, names in os.walk(root):
        for name in (*names, *folders):
            with suppress(OSError):
                size += max(BLOCK, os.lstat(os.path.join(folder, name)).st_size)
    return size

"""Starts a command within a container, and carries its pipes and its connections over its own two pipes.

Its source is given to the Python of an image, 3.8 or newer, so it imports the standard library only; for
images without Python, ``container_runner.js`` does the same. It reads and writes frames: a number, a length,
and so many bytes, of which none means the end. Number 0 carries JSON: how to start the command, and how it
ended; 1 and 2 its outputs, 1 also its input; from 16 on, each number is a connection to the port.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import time

HEADER = struct.Struct(">II")
CONTROL, OUTPUT, ERRORS, FIRST = 0, 1, 2, 16
CHUNK = 65536
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

poll = selectors.DefaultSelector()


def send(number: int, data: bytes = b"") -> None:
    left = memoryview(HEADER.pack(number, len(data)) + data)
    while left:
        left = left[os.write(1, left) :]


class End:
    """One pipe of the command, or one connection: what is read is sent, and what comes is written."""

    def __init__(self, number: int, file, reads: bool = True) -> None:  # type: ignore[no-untyped-def]  # any
        self.number, self.file, self.reads = number, file, reads
        self.pending, self.closing, self.watched = bytearray(), False, 0
        os.set_blocking(file.fileno(), False)
        self.watch()

    def watch(self) -> None:
        wanted = READ * self.reads | WRITE * bool(self.pending or self.closing)
        if wanted != self.watched:
            if self.watched:
                poll.unregister(self.file)
            if wanted:
                poll.register(self.file, wanted, self)
            self.watched = wanted

    def take(self, data: bytes) -> None:
        self.pending += data
        self.closing = self.closing or not data
        self.watch()

    def act(self, events: int) -> None:
        if events & READ and self.reads:
            try:
                data = os.read(self.file.fileno(), CHUNK)
                self.reads = bool(data)
                send(self.number, data)
            except BlockingIOError:
                pass
            except ConnectionError:
                self.closing = True
        if events & WRITE or self.closing:
            try:
                while self.pending:
                    del self.pending[: os.write(self.file.fileno(), self.pending[:CHUNK])]
            except BlockingIOError:
                pass
            except OSError:
                self.pending.clear()
                self.closing = True
        if self.closing and not self.pending:
            self.close()
        else:
            self.watch()

    def close(self) -> None:
        if self.reads:
            send(self.number)
        if self.watched:
            poll.unregister(self.file)
        # The command's input and its output have the same number, and only its input is among these.
        if ends.get(self.number) is self:
            del ends[self.number]
        self.file.close()


ends = {}  # type: dict[int, End]


class Runner:
    """The command, the port, and the frames that come in."""

    def __init__(self) -> None:
        self.rest, self.is_open, self.connections = b"", True, FIRST
        self.command = None  # type: subprocess.Popen[bytes] | None
        self.readers = []  # type: list[End]
        self.reported = False
        self.grace = 0.0
        poll.register(0, READ, self)

    def act(self, events: int) -> None:
        read = os.read(0, CHUNK)
        if not read:
            self.is_open = False
            poll.unregister(0)
        self.rest += read
        while len(self.rest) >= HEADER.size:
            number, length = HEADER.unpack_from(self.rest)
            if len(self.rest) < HEADER.size + length:
                break
            data = self.rest[HEADER.size : HEADER.size + length]
            self.rest = self.rest[HEADER.size + length :]
            if number == CONTROL:
                self.start(json.loads(data))
            elif number in ends:
                ends[number].take(data)

    def start(self, order: dict) -> None:  # type: ignore[type-arg]  # which older Pythons do not know
        self.grace = order["grace"]
        port = socket.create_server(("127.0.0.1", order["port"]), backlog=256)
        self.port = port
        poll.register(port, READ, self.accept)
        proxies = ("http_proxy", "https_proxy", "no_proxy")  # which engines set as their own settings say
        environ = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
        try:
            self.command = command = subprocess.Popen(
                order["command"],
                cwd=order["folder"],
                env={**environ, **order["environ"]},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as refused:
            send(CONTROL, json.dumps({"refused": str(refused)}).encode())
            return
        send(CONTROL, b'{"started": true}')
        ends[OUTPUT] = End(OUTPUT, command.stdin, reads=False)
        self.readers = [End(OUTPUT, command.stdout), End(ERRORS, command.stderr)]

    def accept(self, events: int) -> None:
        try:
            connection, _ = self.port.accept()
        except OSError:  # no file is left to open
            time.sleep(0.01)
            return
        ends[self.connections] = End(self.connections, connection)
        self.connections += 1

    def turn(self, seconds: float) -> None:
        for key, events in poll.select(seconds):
            getattr(key.data, "act", key.data)(events)
        if self.command is not None and not self.reported and self.command.poll() is not None:
            self.reported = True
            report = {"status": self.command.returncode, "memory_kills": memory_kills()}
            send(CONTROL, json.dumps(report).encode())

    def run(self) -> None:
        while self.is_open:
            self.turn(0.02 if self.command is not None and not self.reported else 1.0)
        end = time.monotonic() + self.grace
        signal_others(signal.SIGTERM)
        while signal_others(0) and time.monotonic() < end:
            self.turn(0.02)
        # What was written before it was killed is read; the shell that waits for this process ends the rest.
        signal_others(signal.SIGKILL)
        end = time.monotonic() + 1
        while any(each.reads for each in self.readers) and time.monotonic() < end:
            self.turn(0.02)


def signal_others(number: int) -> bool:
    """Signal all processes of the container but this one and the first; whether there are any."""
    try:
        os.kill(-1, number)
    except OSError:
        return False
    return True


def memory_kills() -> int:
    """Count the processes that were killed for the container's memory; in both versions of control groups."""
    for name in ("memory.events", "memory/memory.oom_control"):
        try:
            with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
                return int(dict(line.split() for line in file)["oom_kill"])
        except (OSError, KeyError, ValueError):
            continue
    return 0


if __name__ == "__main__":
    # Handlers, since what is ignored would be ignored by the command too.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    Runner().run()

"""Starts a command within a container, and carries its pipes and its connections over its own two pipes.

It is given to an image's Python, 3.8 or newer, as its source; to other images, ``container_runner.js``, which
does the same. It reads and writes frames: a number, a length, and so many bytes, of which none means the end.
Number 0 carries JSON: how to start the command, and how it ended. 1 and 2 carry its outputs, 1 also its
input. From 16 on, each number is a connection to the port.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import struct
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any

HEADER = struct.Struct(">II")
CONTROL, OUTPUT, ERRORS, FIRST = 0, 1, 2, 16
CHUNK = 65536
POLL_S = 0.02

writers = {}  # type: dict[int, Any]
numbers = itertools.count(FIRST)


def send(number: int, data: bytes = b"") -> None:
    left = memoryview(HEADER.pack(number, len(data)) + data)
    while left:
        left = left[os.write(1, left) :]


def report(**values: Any) -> None:
    send(CONTROL, json.dumps(values).encode())


async def receive(reader: Any) -> tuple[int, bytes]:
    number, length = HEADER.unpack(await reader.readexactly(HEADER.size))
    return number, await reader.readexactly(length)


async def carry(number: int, reader: Any) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            send(number, data)
    send(number)


async def accept(reader: Any, writer: Any) -> None:
    number = next(numbers)
    writers[number] = writer
    await carry(number, reader)


async def start(order: dict[str, Any]) -> Process:
    await asyncio.start_server(accept, "127.0.0.1", order["port"], backlog=256)
    # An engine may have set variables of proxies, as its own settings say.
    image = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    command = await asyncio.create_subprocess_exec(
        *order["command"],
        cwd=order["folder"],
        env={**image, **order["environ"]},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    report(started=True)
    writers[OUTPUT] = command.stdin
    return command


async def report_end(command: Process) -> None:
    # Not ``wait``, which in some versions waits for the command's children too.
    while command.returncode is None:
        await asyncio.sleep(POLL_S)
    report(status=command.returncode, memory_kills=memory_kills())


async def main() -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    order = json.loads((await receive(reader))[1])
    try:
        command = await start(order)
    except (OSError, ValueError) as refused:
        report(refused=str(refused))
        return
    outputs = [(OUTPUT, command.stdout), (ERRORS, command.stderr)]
    work = [asyncio.ensure_future(carry(*output)) for output in outputs]
    ending = asyncio.ensure_future(report_end(command))
    with suppress(asyncio.IncompleteReadError):
        while True:
            number, data = await receive(reader)
            if data and number in writers:
                writers[number].write(data)
            elif number in writers:
                writers.pop(number).close()
    end = time.monotonic() + order["grace"]
    signal_others(signal.SIGTERM)
    while signal_others(0) and time.monotonic() < end:
        await asyncio.sleep(POLL_S)
    signal_others(signal.SIGKILL)
    # What they have written can be read; the shell that waits for this process ends whatever is left.
    await asyncio.wait([*work, ending], timeout=1)


def signal_others(number: int) -> bool:
    """Signal all processes of the container but this one and the first; whether there are any."""
    try:
        os.kill(-1, number)
    except OSError:
        return False
    return True


def memory_kills() -> int:
    """Count the processes that were killed for the container's memory, by either form of control groups."""
    for name in ("memory.events", "memory/memory.oom_control"):
        place = f"/sys/fs/cgroup/{name}"
        with suppress(OSError, LookupError, ValueError), open(place, encoding="ascii") as file:
            return int(dict(line.split() for line in file)["oom_kill"])
    return 0


# Outside a container, all processes of the user would be ended.
if __name__ == "__main__" and os.getppid() == 1:
    # Handlers, since what is ignored would be ignored by the command too.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: None)
    asyncio.run(main())

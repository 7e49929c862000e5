"""Stands in for docker where no container can be started: notes its arguments, and speaks as one does.

The name of an image says how it behaves. No command is run: it answers what a good agent would.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

HEADER = struct.Struct(">II")


def send(number: int, data: bytes = b"") -> None:
    """Send a frame."""
    os.write(1, HEADER.pack(number, len(data)) + data)


def frame() -> tuple[int, bytes]:
    """Read a frame; its number is -1 at the end of the input."""
    head = sys.stdin.buffer.read(HEADER.size)
    number, length = HEADER.unpack(head) if head else (-1, 0)
    return number, sys.stdin.buffer.read(length)


def model_text(address: str, first: int) -> str:
    """Ask the model by a connection that is carried in frames, in two parts."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    place = urlsplit(address)
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
    send(first, f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
    send(first, body)
    received = b""
    while (each := frame()) != (first, b""):
        received += each[1] if each[0] == first else b""
    return str(json.loads(received.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"])


def behave(image: str) -> int:
    """Be the container of an image; give the exit status of docker."""
    if image == "refused":
        print(
            "docker: Error response from daemon: no such runtime.\n\nSee 'docker run --help'.",
            file=sys.stderr,
        )
        return 125
    order = json.loads(frame()[1])
    Path(f"{os.environ['STAND_IN']}.order").write_text(json.dumps(order), encoding="utf-8")
    if image == "killed":
        return 137
    send(0, b'{"started": true}')
    if image == "garbage":
        send(0, b"[]")
    elif image == "missing":
        send(0, b'{"refused": "no such program"}')
    elif image == "memory":
        send(0, b'{"status": -9, "memory_kills": 1}')
    else:
        text = model_text(order["environ"]["OPENAI_BASE_URL"], 16)
        send(1, json.dumps({"type": "answer", "text": text}).encode() + b"\n")
        send(2, b"a line of its log\n")
        send(0, b'{"status": 0, "memory_kills": 0}')
    while frame()[0] >= 0:
        pass
    if image == "hangs":
        time.sleep(600)
    return 0


def main(verb: str, *args: str) -> int:
    """Do what docker would."""
    with open(os.environ["STAND_IN"], "a", encoding="utf-8") as log:
        print(json.dumps([verb, *args]), file=log)
    if verb == "info":
        print('["name=seccomp"]')
    elif verb == "image":
        if args[-1] == "absent":
            print("no such image", file=sys.stderr)
            return 1
        print("sha256:1234")
    elif verb == "run":
        return behave(args[args.index("-c") - 1])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

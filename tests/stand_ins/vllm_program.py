"""As much of ``vllm serve`` as a run sees: its arguments, its health, its wire, its child, its log.

``STAND_IN`` in its environment is a folder: each start leaves ``start-PID.json`` there. What is in its
``plan.json`` says how it behaves: ``fail`` is what it prints before it exits with 3, ``never_ready`` that its
health never comes, ``crash_after`` how many replies it gives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(os.environ["STAND_IN"])
PLAN = json.loads((FOLDER / "plan.json").read_text()) if (FOLDER / "plan.json").exists() else {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asks = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        self._send(503 if PLAN.get("never_ready") else 200, b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Handler.lock:
            Handler.asks += 1
            (FOLDER / f"ask-{os.getpid()}-{Handler.asks}.json").write_text(json.dumps(body))
            if Handler.asks > PLAN.get("crash_after", 10**6):
                print("CUDA error: an illegal memory access was encountered", flush=True)
                os._exit(9)
        message = {"role": "assistant", "content": "Hello, Mina!"}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        }
        self._send(200, json.dumps(reply).encode())

    def _send(self, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    """Leave word of the start, and serve."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    start = {"pid": os.getpid(), "child": child.pid, "args": sys.argv[1:], "env": dict(os.environ)}
    (FOLDER / f"start-{os.getpid()}.json").write_text(json.dumps(start))
    print("INFO loading the model", flush=True)
    if PLAN.get("fail"):
        child.kill()
        print(PLAN["fail"], flush=True)
        sys.exit(3)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


main()

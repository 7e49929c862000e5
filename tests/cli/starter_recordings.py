"""The recordings that ``agenteval init`` writes: ``python -m tests.cli.starter_recordings`` makes them anew.

A server plays the model, suites are recorded as anybody's are, and what says who recorded them is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

import pytest_agenteval
from pytest_agenteval.cli.init import STARTERS

TEMPLATES = Path(pytest_agenteval.__file__).parent / "cli" / "templates"
KEPT = {"content-type"}


def call(name: str, **args: str) -> dict[str, Any]:
    """Give a reply that asks for a tool."""
    function = {"name": name, "arguments": json.dumps(args)}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def say(text: str) -> dict[str, Any]:
    """Give a reply in words."""
    return {"content": text}


REPLIES: Mapping[str, Sequence[dict[str, Any]]] = {
    "Where is my order 1042?": [
        call("find_order", number="1042"),
        say("Thank you for asking! Your order 1042 is on its way, and arrives on Friday."),
    ],
    "I want my money back for order 1043.": [
        call("find_order", number="1043"),
        say("Send order 1043 back until 2 December, and you have your money a week later."),
    ],
    "Can I come on Sunday at noon?": [say("Yes: on Sunday we are open from 10 to 18.")],
    "Can I come on Monday at noon?": [say("No, on Mondays we are closed.")],
    "Put oat milk on shopping.md.": [
        call("read_note", path="shopping.md"),
        call("write_note", path="shopping.md", text="# Shopping\n\n- rye bread\n- apples\n- oat milk\n"),
        say("Oat milk is on the list."),
    ],
    "Add to standup.md: Joon works on the parser.": [
        call("write_note", path="standup.md", text="# Stand-up\n\n- Joon: the parser\n"),
        say("Joon is in the notes of the stand-up."),
    ],
}
"""What the model says to each question, reply by reply."""


class Model(BaseHTTPRequestHandler):
    """Plays an OpenAI-shaped model."""

    def do_POST(self) -> None:
        """Give the next reply of a conversation."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = asked["messages"]
        (question,) = (each["content"] for each in messages if each["role"] == "user")
        reply = REPLIES[question][sum(each["role"] == "assistant" for each in messages)]
        given, written = len(json.dumps(messages)) // 4, len(json.dumps(reply)) // 4
        finish = "tool_calls" if "tool_calls" in reply else "stop"
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": asked["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", **reply}, "finish_reason": finish}],
            "usage": {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written},
        }
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def record(kind: str, base: str) -> None:
    """Write a kind's suite, record it, and take its recordings for templates."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "OPENAI_BASE_URL": f"{base}/v1"}
        for words in (
            ("pytest_agenteval.cli.main", "init", "--agent", kind),
            ("pytest", "evals", "--agent-record-chat=all", "-p", "no:cacheprovider"),
        ):
            start = f"import sys; from {words[0]} import main; sys.exit(main(sys.argv[1:]))"
            subprocess.run([sys.executable, "-c", start, *words[1:]], cwd=folder, env=environ, check=True)
        suite = Path(folder, "cassettes", STARTERS[kind].suite)
        for file in suite.rglob("*.yaml"):
            template = TEMPLATES / kind / "cassettes" / file.relative_to(suite)
            template.parent.mkdir(parents=True, exist_ok=True)
            template.write_text(without_recorder(file, base), encoding="utf-8", newline="\n")


def without_recorder(file: Path, base: str) -> str:
    """Give a recording as if the model itself had been asked, without headers that say by whom."""
    cassette = yaml.safe_load(file.read_text(encoding="utf-8"))
    for interaction in cassette["interactions"]:
        request, response = interaction["request"], interaction["response"]
        request["uri"] = request["uri"].replace(base, "https://api.openai.com")
        for part in (request, response):
            part["headers"] = {name: value for name, value in part["headers"].items() if name.lower() in KEPT}
    return yaml.safe_dump(cassette, sort_keys=False, allow_unicode=True, width=1000)


def main() -> None:
    """Record all kinds that ask a model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for kind, starter in STARTERS.items():
        if "--agent-model=oracle" not in starter.options:
            record(kind, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()


if __name__ == "__main__":
    main()

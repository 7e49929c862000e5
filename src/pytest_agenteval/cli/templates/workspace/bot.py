"""A stand-in for your agent: a model that may read and write notes. Nothing in here knows of evals."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

SYSTEM = "You keep somebody's notes. Read a note before you change it, and keep what it says."
TEXT = {"type": "string"}
READ = {"type": "object", "properties": {"path": TEXT}, "required": ["path"]}
WRITE = {"type": "object", "properties": {"path": TEXT, "text": TEXT}, "required": ["path", "text"]}
TOOLS = [
    {"type": "function", "function": {"name": "read_note", "parameters": READ}},
    {"type": "function", "function": {"name": "write_note", "parameters": WRITE}},
]


def answer(question: str, workspace: Path) -> str:
    """Do what is asked with the notes of a folder."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return str(reply["content"])
        for call in reply["tool_calls"]:
            result = use(workspace, **json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def use(workspace: Path, path: str, text: str | None = None) -> str:
    """Write a note, or read it where there is no text."""
    note = workspace / path
    if text is None:
        return note.read_text(encoding="utf-8") if note.is_file() else "there is no such note"
    note.write_text(text, encoding="utf-8", newline="\n")
    return "written"


def ask(messages: list[Any]) -> Any:
    """Ask an OpenAI-shaped model, wherever it is served, for its next message."""
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    key = os.environ.get("OPENAI_API_KEY", "")  # recorded replies are replayed without one
    body = json.dumps({"model": "gpt-5-mini", "messages": messages, "tools": TOOLS}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    with urlopen(Request(f"{base}/chat/completions", body, headers)) as response:
        return json.load(response)["choices"][0]["message"]

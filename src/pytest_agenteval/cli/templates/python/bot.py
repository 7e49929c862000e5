"""A stand-in for your agent: a model that may look up orders. Nothing in here knows of evals."""

import json
import os
from typing import Any
from urllib.request import Request, urlopen

ORDERS = {
    "1042": "on its way, arrives on Friday",
    "1043": "delivered on 2 November, may be sent back until 2 December",
}
NUMBER = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
TOOL = {"type": "function", "function": {"name": "find_order", "parameters": NUMBER}}


def answer(question: str) -> str:
    """Answer a customer."""
    messages = [
        {"role": "system", "content": "You help customers of a shop. Thank them for asking."},
        {"role": "user", "content": question},
    ]
    while True:
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return str(reply["content"])
        for call in reply["tool_calls"]:
            order = find_order(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": order})


def find_order(number: str) -> str:
    """Tell what has become of an order."""
    return ORDERS.get(number, "no such order")


def ask(messages: list[Any]) -> Any:
    """Ask an OpenAI-shaped model, wherever it is served, for its next message."""
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    key = os.environ.get("OPENAI_API_KEY", "")  # recorded replies are replayed without one
    body = json.dumps({"model": "gpt-5-mini", "messages": messages, "tools": [TOOL]}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    with urlopen(Request(f"{base}/chat/completions", body, headers)) as response:
        return json.load(response)["choices"][0]["message"]

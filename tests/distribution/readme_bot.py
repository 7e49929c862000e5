"""The agent of README's example: an ordinary loop around a model with one tool."""

import json
from pathlib import Path

from openai import OpenAI

ORDERS = {"1043": "was paid back on 2 December", "1044": "leaves on 5 December"}
TOOL = {"name": "find_order", "parameters": {"type": "object", "properties": {"order": {"type": "string"}}}}
PROMPT = Path("prompts/system.md")


def find_order(order: str) -> str:
    """Look an order up."""
    return ORDERS.get(order, "leaves on 9 December")


def answer(question: str) -> str:
    """Answer a customer."""
    client = OpenAI()
    messages = [{"role": "system", "content": PROMPT.read_text()}, {"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(
            model="gpt-5-mini", messages=messages, tools=[{"type": "function", "function": TOOL}]
        )
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            found = find_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})

"""Cohere's own client, whose format is its own: plain."""

import json
import os

import cohere
from weather import CHAT_TOOL, get_weather, opening

HOW = {"model": "command-a-03-2025", "tools": [CHAT_TOOL]}


def plain(question: str) -> str:
    client = cohere.ClientV2(api_key="loopback", base_url=os.environ["WEATHER_API"])
    messages = opening(question)
    while True:
        message = client.chat(messages=messages, **HOW).message
        if not message.tool_calls:
            return message.content[0].text
        messages.append(message)
        for call in message.tool_calls:
            text = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

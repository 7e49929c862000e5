"""Ollama's own client: plain, asynchronous and streamed."""

from ollama import AsyncClient, Client
from weather import CHAT_TOOL, get_weather, opening

HOW = {"model": "qwen3", "tools": [CHAT_TOOL]}


def results(calls):
    for call in calls:
        text = get_weather(**call.function.arguments)
        yield {"role": "tool", "tool_name": call.function.name, "content": text}


def plain(question: str) -> str:
    client, messages = Client(), opening(question)
    while True:
        message = client.chat(messages=messages, **HOW).message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message.tool_calls)]


async def plain_async(question: str) -> str:
    client, messages = AsyncClient(), opening(question)
    while True:
        message = (await client.chat(messages=messages, **HOW)).message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message.tool_calls)]


def streamed(question: str) -> str:
    client, messages = Client(), opening(question)
    while True:
        text, calls = "", []
        for chunk in client.chat(messages=messages, stream=True, **HOW):
            text += chunk.message.content or ""
            calls += chunk.message.tool_calls or ()
        if not calls:
            return text
        messages += [{"role": "assistant", "content": text, "tool_calls": calls}, *results(calls)]

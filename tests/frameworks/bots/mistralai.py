"""Mistral's own client: plain, async; with typed output."""

import json
import os

from weather import CHAT_TOOL, SYSTEM, Report, get_weather

try:
    from mistralai.client import Mistral
except ImportError:  # version 1
    from mistralai import Mistral

HOW = {"model": "mistral-small-latest", "tools": [CHAT_TOOL]}


def opening(question):
    client = Mistral(api_key="loopback", server_url=os.environ["WEATHER_API"])
    return client.chat, [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def results(calls):
    for call in calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": text}


def looped(send, messages):
    while True:
        message = send(messages=messages, **HOW).choices[0].message
        if not message.tool_calls:
            return message
        messages += [message, *results(message.tool_calls)]


def plain(question: str) -> str:
    chat, messages = opening(question)
    return looped(chat.complete, messages).content


async def plain_async(question: str) -> str:
    chat, messages = opening(question)
    while True:
        message = (await chat.complete_async(messages=messages, **HOW)).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message.tool_calls)]


def structured(question: str) -> str:
    chat, messages = opening(question)

    def send(**how):
        return chat.parse(response_format=Report, **how)

    return str(looped(send, messages).parsed)

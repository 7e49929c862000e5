"""Mistral's own client: plain, async; with typed output."""

import json
import os
from functools import partial

from weather import CHAT_TOOL, Report, get_weather, opening

try:
    from mistralai.client import Mistral
except ImportError:  # version 1
    from mistralai import Mistral

HOW = {"model": "mistral-small-latest", "tools": [CHAT_TOOL]}


def new_chat():
    return Mistral(api_key="loopback", server_url=os.environ["WEATHER_API"]).chat


def results(calls):
    for call in calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "name": "get_weather", "content": text}


def run_loop(send, question):
    messages = opening(question)
    while True:
        message = send(messages=messages, **HOW).choices[0].message
        if not message.tool_calls:
            return message
        messages += [message, *results(message.tool_calls)]


def plain(question: str) -> str:
    return run_loop(new_chat().complete, question).content


async def plain_async(question: str) -> str:
    chat, messages = new_chat(), opening(question)
    while True:
        message = (await chat.complete_async(messages=messages, **HOW)).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message.tool_calls)]


def structured(question: str) -> str:
    return str(run_loop(partial(new_chat().parse, response_format=Report), question).parsed)

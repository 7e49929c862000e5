"""OpenAI's own client: chat completions and responses, each plain, asynchronous and streamed."""

import json

from openai import AsyncOpenAI, OpenAI
from weather import CHAT_TOOL, RESPONSES_TOOL, SYSTEM, get_weather, opening

CHAT = {"model": "gpt-5-mini", "tools": [CHAT_TOOL]}
RESPONSES = {"model": "gpt-5-mini", "tools": [RESPONSES_TOOL], "instructions": SYSTEM}


def results(message):
    for call in message.tool_calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "content": text}


def chat(question: str) -> str:
    client, messages = OpenAI(), opening(question)
    while True:
        message = client.chat.completions.create(messages=messages, **CHAT).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message)]


async def chat_async(question: str) -> str:
    messages = opening(question)
    async with AsyncOpenAI() as client:
        while True:
            message = (await client.chat.completions.create(messages=messages, **CHAT)).choices[0].message
            if not message.tool_calls:
                return message.content
            messages += [message, *results(message)]


def chat_streamed(question: str) -> str:
    client, messages = OpenAI(), opening(question)
    while True:
        with client.chat.completions.stream(
            messages=messages, stream_options={"include_usage": True}, **CHAT
        ) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content
        told = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in told["tool_calls"]:
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        messages += [told, *results(message)]


async def chat_streamed_async(question: str) -> str:
    messages = opening(question)
    async with AsyncOpenAI() as client:
        while True:
            text, calls = "", {}
            async for chunk in await client.chat.completions.create(messages=messages, stream=True, **CHAT):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for piece in choice.delta.tool_calls or ():
                        call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                        call["id"] += piece.id or ""
                        call["name"] += piece.function.name or ""
                        call["arguments"] += piece.function.arguments or ""
            if not calls:
                return text
            asked = [{"id": call.pop("id"), "type": "function", "function": call} for call in calls.values()]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
            for call in asked:
                weather = get_weather(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": weather})


def outputs(response):
    for item in response.output:
        if item.type == "function_call":
            text = get_weather(**json.loads(item.arguments))
            yield {"type": "function_call_output", "call_id": item.call_id, "output": text}


def responses(question: str) -> str:
    client, items = OpenAI(), [{"role": "user", "content": question}]
    while True:
        response = client.responses.create(input=items, **RESPONSES)
        told = list(outputs(response))
        if not told:
            return response.output_text
        items += [*response.output, *told]


def responses_by_id(question: str) -> str:
    """Send only what is new, and let the server remember the rest."""
    client, items, previous = OpenAI(), [{"role": "user", "content": question}], None
    while True:
        response = client.responses.create(input=items, previous_response_id=previous, **RESPONSES)
        items, previous = list(outputs(response)), response.id
        if not items:
            return response.output_text


async def responses_async(question: str) -> str:
    items = [{"role": "user", "content": question}]
    async with AsyncOpenAI() as client:
        while True:
            response = await client.responses.create(input=items, **RESPONSES)
            told = list(outputs(response))
            if not told:
                return response.output_text
            items += [*response.output, *told]


def responses_streamed(question: str) -> str:
    client, items = OpenAI(), [{"role": "user", "content": question}]
    while True:
        for event in client.responses.create(input=items, stream=True, **RESPONSES):
            if event.type == "response.completed":
                response = event.response
        told = list(outputs(response))
        if not told:
            return response.output_text
        items += [*response.output, *told]

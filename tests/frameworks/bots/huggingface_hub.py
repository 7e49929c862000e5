"""Hugging Face's inference client: plain, async, streamed; with typed output."""

import json
import os

from huggingface_hub import AsyncInferenceClient, InferenceClient
from weather import CHAT_TOOL, SYSTEM, Report, get_weather

HOW = {"model": "openai/gpt-oss-20b", "tools": [CHAT_TOOL]}
WHERE = {"api_key": "loopback", "base_url": os.environ["WEATHER_API"]}
SCHEMA = {"name": "Report", "schema": Report.model_json_schema(), "strict": True}


def opening(question):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def told(calls):
    """Give the assistant's message and the results."""
    asked = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in calls
    ]
    yield {"role": "assistant", "content": "", "tool_calls": asked}
    for call in calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "content": text}


def plain(question: str, **more) -> str:
    client, messages = InferenceClient(**WHERE), opening(question)
    while True:
        message = client.chat.completions.create(messages=messages, **HOW, **more).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += told(message.tool_calls)


async def plain_async(question: str) -> str:
    client, messages = AsyncInferenceClient(**WHERE), opening(question)
    while True:
        message = (await client.chat.completions.create(messages=messages, **HOW)).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += told(message.tool_calls)


def streamed(question: str) -> str:
    client, messages = InferenceClient(**WHERE), opening(question)
    while True:
        text, calls = "", []
        for chunk in client.chat.completions.create(messages=messages, stream=True, **HOW):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for piece in choice.delta.tool_calls or ():
                    if piece.id:
                        calls.append(piece)
                    else:
                        calls[-1].function.arguments += piece.function.arguments or ""
        if not calls:
            return text
        messages += told(calls)


def structured(question: str) -> str:
    form = {"type": "json_schema", "json_schema": SCHEMA}
    return str(Report.model_validate_json(plain(question, response_format=form)))

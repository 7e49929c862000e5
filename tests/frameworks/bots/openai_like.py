"""Clients in the form of OpenAI's: plain, async, streamed; with typed output. Each gives its own classes."""

import json
import os

from weather import CHAT_TOOL, SYSTEM, Report, get_weather

WHERE = {"api_key": "loopback", "base_url": os.environ["WEATHER_API"]}
SCHEMA = {"name": "Report", "schema": Report.model_json_schema(), "strict": True}


def opening(question):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def call_messages(calls):
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


def plain(make, model: str, question: str, **more) -> str:
    client, messages = make(**WHERE), opening(question)
    while True:
        message = (
            client.chat.completions.create(model=model, tools=[CHAT_TOOL], messages=messages, **more)
            .choices[0]
            .message
        )
        if not message.tool_calls:
            return message.content
        messages += call_messages(message.tool_calls)


async def plain_async(make, model: str, question: str) -> str:
    client, messages = make(**WHERE), opening(question)
    while True:
        reply = await client.chat.completions.create(model=model, tools=[CHAT_TOOL], messages=messages)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages += call_messages(message.tool_calls)


def streamed(make, model: str, question: str) -> str:
    client, messages = make(**WHERE), opening(question)
    while True:
        text, calls = "", []
        sent = {"model": model, "tools": [CHAT_TOOL], "messages": messages}
        for chunk in client.chat.completions.create(stream=True, **sent):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for piece in choice.delta.tool_calls or ():
                    if piece.id:
                        calls.append(piece)
                    else:
                        calls[-1].function.arguments += piece.function.arguments or ""
        if not calls:
            return text
        messages += call_messages(calls)


def structured(make, model: str, question: str) -> str:
    form = {"type": "json_schema", "json_schema": SCHEMA}
    return str(Report.model_validate_json(plain(make, model, question, response_format=form)))

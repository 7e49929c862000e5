"""Clients in the form of OpenAI's, as a suite names them: plain, async, streamed; with typed output."""

import json
import os
from functools import partial
from importlib import import_module

# Otherwise the first trial with huggingface_hub fetches a list from the hub, and no other trial records that.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

from weather import CHAT_TOOL, Report, get_weather, opening

CLIENTS = {
    "groq": ("Groq", "AsyncGroq", "llama-3.3-70b-versatile"),
    "together": ("Together", "AsyncTogether", "openai/gpt-oss-20b"),
    "huggingface_hub": ("InferenceClient", "AsyncInferenceClient", "openai/gpt-oss-20b"),
}
"""For each library: its client, its asynchronous client, and a model of its provider."""
SCHEMA = {"name": "Report", "schema": Report.model_json_schema(), "strict": True}


def completions(library: str, is_async: bool = False):
    """Give the function of a new client that asks for a chat completion."""
    *classes, model = CLIENTS[library]
    make = getattr(import_module(library), classes[is_async])
    client = make(api_key="loopback", base_url=os.environ["WEATHER_API"])
    return partial(client.chat.completions.create, model=model, tools=[CHAT_TOOL])


def call_messages(calls):
    """Give the assistant's message and the results."""
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in calls
    ]
    yield {"role": "assistant", "content": "", "tool_calls": tool_calls}
    for call in calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "content": text}


def plain(question: str, library: str) -> str:
    return run_loop(completions(library), question)


def structured(question: str, library: str) -> str:
    form = {"type": "json_schema", "json_schema": SCHEMA}
    text = run_loop(partial(completions(library), response_format=form), question)
    return str(Report.model_validate_json(text))


def run_loop(send, question):
    messages = opening(question)
    while True:
        message = send(messages=messages).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += call_messages(message.tool_calls)


async def plain_async(question: str, library: str) -> str:
    send, messages = completions(library, is_async=True), opening(question)
    while True:
        message = (await send(messages=messages)).choices[0].message
        if not message.tool_calls:
            return message.content
        messages += call_messages(message.tool_calls)


def streamed(question: str, library: str) -> str:
    send, messages = completions(library), opening(question)
    while True:
        text, calls = "", []
        for chunk in send(messages=messages, stream=True):
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

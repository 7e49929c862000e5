"""litellm, which speaks the wire of whoever the model is from."""

import json

import litellm
from weather import CHAT_TOOL, get_weather, opening


def results(message):
    for call in message.tool_calls:
        text = get_weather(**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "content": text}


def _run(question, model, **more):
    messages = opening(question)
    while True:
        reply = litellm.completion(model, messages, tools=[CHAT_TOOL], **more)
        if more:
            reply = litellm.stream_chunk_builder(list(reply))
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message)]


def chat(question: str) -> str:
    return _run(question, "openai/gpt-5-mini")


def streamed(question: str) -> str:
    return _run(question, "openai/gpt-5-mini", stream=True, stream_options={"include_usage": True})


def anthropic(question: str) -> str:
    return _run(question, "anthropic/claude-haiku-4-5")


async def chat_async(question: str) -> str:
    messages = opening(question)
    while True:
        reply = await litellm.acompletion("openai/gpt-5-mini", messages, tools=[CHAT_TOOL])
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages += [message, *results(message)]

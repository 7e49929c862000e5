"""Anthropic's own client: messages, plain, asynchronous and streamed."""

from anthropic import Anthropic, AsyncAnthropic
from weather import PARAMETERS, SYSTEM, get_weather

TOOL = {"name": "get_weather", "description": "Tell the weather.", "input_schema": PARAMETERS}
HOW = {"model": "claude-haiku-4-5", "max_tokens": 500, "system": SYSTEM, "tools": [TOOL]}


def results(message):
    for block in message.content:
        if block.type == "tool_use":
            text = get_weather(**block.input)
            yield {"type": "tool_result", "tool_use_id": block.id, "content": text}


def further(messages, message):
    """Give the conversation with the results of the message's calls; None where it has no calls."""
    told = list(results(message))
    if not told:
        return None
    return [*messages, {"role": "assistant", "content": message.content}, {"role": "user", "content": told}]


def plain(question: str) -> str:
    client, messages = Anthropic(), [{"role": "user", "content": question}]
    while messages:
        message = client.messages.create(messages=messages, **HOW)
        messages = further(messages, message)
    return message.content[0].text


async def plain_async(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    async with AsyncAnthropic() as client:
        while messages:
            message = await client.messages.create(messages=messages, **HOW)
            messages = further(messages, message)
    return message.content[0].text


def streamed(question: str) -> str:
    client, messages = Anthropic(), [{"role": "user", "content": question}]
    while messages:
        with client.messages.stream(messages=messages, **HOW) as stream:
            for _ in stream.text_stream:
                pass
            message = stream.get_final_message()
        messages = further(messages, message)
    return message.content[0].text

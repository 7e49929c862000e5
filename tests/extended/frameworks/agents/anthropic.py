from anthropic import Anthropic

from weather import get_weather

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HOW = {"model": "claude-haiku-4-5", "max_tokens": 500, "system": "You tell the weather."}


def converse(client, question):
    messages = [{"role": "user", "content": question}]
    tools = [{"name": "get_weather", "input_schema": CITY}]
    while True:
        reply = client.messages.create(messages=messages, tools=tools, **HOW)
        messages.append({"role": "assistant", "content": reply.content})
        uses = [block for block in reply.content if block.type == "tool_use"]
        if not uses:
            return reply
        results = [{"tool_use_id": use.id, "content": get_weather(**use.input)} for use in uses]
        messages.append({"role": "user", "content": [{"type": "tool_result", **each} for each in results]})

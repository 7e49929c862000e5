import json

from openai import OpenAI

from weather import get_weather

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


def converse(client, question):
    messages = [{"role": "system", "content": "You tell the weather."}, {"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=[TOOL])
        messages.append(reply.choices[0].message)
        if not messages[-1].tool_calls:
            return messages
        for call in messages[-1].tool_calls:
            weather = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})

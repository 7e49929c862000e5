"""Instructor: the arguments of a call as a type, which ends the agent; the last words as one."""

import json

import instructor
from openai import OpenAI
from pydantic import create_model
from weather import SYSTEM, Report, get_weather, told

Asked = create_model("get_weather", city=(str, ...))


def asked(question):
    client = instructor.from_openai(OpenAI())
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    create = client.chat.completions.create_with_completion
    call, raw = create(model="gpt-4o-mini", messages=messages, response_model=Asked)
    return client, messages, get_weather(call.city), raw.choices[0].message


def terminal(question: str) -> str:
    return told(asked(question)[2])


def structured(question: str) -> str:
    client, messages, weather, message = asked(question)
    call = message.tool_calls[0]
    messages.append(json.loads(message.model_dump_json(include={"role", "content", "tool_calls"})))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})
    return str(client.chat.completions.create(model="gpt-4o-mini", messages=messages, response_model=Report))

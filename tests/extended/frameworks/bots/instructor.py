"""Instructor: the arguments of a call as a type, which ends the agent; the last words as one."""

import json

import instructor
from openai import OpenAI
from pydantic import create_model
from weather import Report, get_weather, opening, sentence

WeatherCall = create_model("get_weather", city=(str, ...))


def first_call(question):
    """Give the client, the messages so far, the tool's result and the reply that called the tool."""
    client, messages = instructor.from_openai(OpenAI()), opening(question)
    create = client.chat.completions.create_with_completion
    call, raw = create(model="gpt-4o-mini", messages=messages, response_model=WeatherCall)
    return client, messages, get_weather(call.city), raw.choices[0].message


def terminal(question: str) -> str:
    return sentence(first_call(question)[2])


def structured(question: str) -> str:
    client, messages, weather, message = first_call(question)
    call = message.tool_calls[0]
    messages.append(json.loads(message.model_dump_json(include={"role", "content", "tool_calls"})))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": weather})
    return str(client.chat.completions.create(model="gpt-4o-mini", messages=messages, response_model=Report))

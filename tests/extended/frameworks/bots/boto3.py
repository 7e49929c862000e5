"""AWS's own client of Bedrock: Converse, plain and streamed."""

import json

import boto3
from weather import PARAMETERS, SYSTEM, get_weather

SPEC = {"name": "get_weather", "description": "Tell the weather.", "inputSchema": {"json": PARAMETERS}}
HOW = {
    "modelId": "amazon.nova-lite-v1:0",
    "system": [{"text": SYSTEM}],
    "toolConfig": {"tools": [{"toolSpec": SPEC}]},
}


def results(message):
    for block in message["content"]:
        if use := block.get("toolUse"):
            text = get_weather(**use["input"])
            yield {"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": text}]}}


def _run(question, ask):
    messages = [{"role": "user", "content": [{"text": question}]}]
    while True:
        message = ask(messages)
        told = list(results(message))
        if not told:
            return message["content"][0]["text"]
        messages += [message, {"role": "user", "content": told}]


def converse(question: str) -> str:
    client = boto3.client("bedrock-runtime", region_name="us-east-1")
    return _run(question, lambda messages: client.converse(messages=messages, **HOW)["output"]["message"])


def streamed(question: str) -> str:
    client = boto3.client("bedrock-runtime", region_name="us-east-1")
    return _run(question, lambda messages: joined(client.converse_stream(messages=messages, **HOW)["stream"]))


def joined(stream):
    """Put the message together of which the stream tells."""
    text, use, arguments = "", None, ""
    for event in stream:
        use = event.get("contentBlockStart", {}).get("start", {}).get("toolUse", use)
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        text += delta.get("text", "")
        arguments += delta.get("toolUse", {}).get("input", "")
    content = [{"text": text}] if text else []
    if use:
        content.append({"toolUse": {**use, "input": json.loads(arguments)}})
    return {"role": "assistant", "content": content}

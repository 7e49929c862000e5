import boto3

from weather import get_weather

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = {"tools": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": CITY}}}]}
HOW = {"modelId": "amazon.nova-lite-v1:0", "system": [{"text": "You tell the weather."}], "toolConfig": TOOLS}


def converse(client, question):
    messages = [{"role": "user", "content": [{"text": question}]}]
    while True:
        messages.append(client.converse(messages=messages, **HOW)["output"]["message"])
        uses = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
        if not uses:
            return messages
        results = [(use["toolUseId"], [{"text": get_weather(**use["input"])}]) for use in uses]
        content = [{"toolResult": {"toolUseId": id, "content": text}} for id, text in results]
        messages.append({"role": "user", "content": content})

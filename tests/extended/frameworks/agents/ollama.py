from ollama import chat

from weather import get_weather


def converse(question):
    messages = [{"role": "system", "content": "You tell the weather."}, {"role": "user", "content": question}]
    while True:
        messages.append(chat("qwen3", messages, tools=[get_weather]).message)
        if not messages[-1].tool_calls:
            return messages
        for call in messages[-1].tool_calls:
            weather = get_weather(**call.function.arguments)
            messages.append({"role": "tool", "tool_name": "get_weather", "content": weather})

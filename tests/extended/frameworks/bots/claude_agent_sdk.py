"""Claude's Agent SDK: it starts Claude's CLI, which asks the model; the tool runs in this process."""

import os

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from weather import SYSTEM, get_weather


@tool("get_weather", "Tell the weather in a city.", {"city": str})
async def weather(args):
    return {"content": [{"type": "text", "text": get_weather(**args)}]}


async def run(question: str, model_url: str = "") -> str:
    options = ClaudeAgentOptions(
        model="claude-haiku-4-5",
        system_prompt=SYSTEM,
        tools=[],  # else the CLI keeps the tools of servers back until its model looks for them
        mcp_servers={"weather": create_sdk_mcp_server("weather", tools=[weather])},
        allowed_tools=["mcp__weather__get_weather"],
        env={"ANTHROPIC_BASE_URL": model_url or os.environ["ANTHROPIC_BASE_URL"]},
    )
    said = ""
    async for message in query(prompt=question, options=options):
        if isinstance(message, ResultMessage):
            said = message.result
    return said

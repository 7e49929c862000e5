from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from weather import get_weather


@tool("get_weather", "Tell the weather in a city.", {"city": str})
async def weather(args):
    return {"content": [{"type": "text", "text": get_weather(**args)}]}


async def result(question, **more):
    server = create_sdk_mcp_server("weather", tools=[weather])
    tools = {"mcp_servers": {"weather": server}, "allowed_tools": ["mcp__weather__get_weather"]}
    options = ClaudeAgentOptions(tools=[], system_prompt="You tell the weather.", **tools, **more)
    results = [
        each async for each in query(prompt=question, options=options) if isinstance(each, ResultMessage)
    ]
    return results[-1].result

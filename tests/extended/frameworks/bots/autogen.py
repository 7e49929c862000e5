"""AutoGen: an assistant of AgentChat, whole and streamed; ended by its tool's result; with typed output."""

from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from weather import SYSTEM, Report, get_weather, sentence


def agent(strict=False, **more):
    client = OpenAIChatCompletionClient(model="gpt-4o-mini")
    weather = FunctionTool(get_weather, "Tell the weather.", strict=strict)
    return AssistantAgent("weather", client, tools=[weather], system_message=SYSTEM, **more)


async def run(question: str) -> str:
    return (await agent(max_tool_iterations=50).run(task=question)).messages[-1].content


async def streamed(question: str) -> str:
    async for each in agent(max_tool_iterations=50, model_client_stream=True).run_stream(task=question):
        last = each
    return last.messages[-1].content


async def terminal(question: str) -> str:
    return sentence((await agent().run(task=question)).messages[-1].content)


async def structured(question: str) -> str:
    typed = agent(strict=True, max_tool_iterations=50, output_content_type=Report)
    return str((await typed.run(task=question)).messages[-1].content)

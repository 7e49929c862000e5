"""LlamaIndex's FunctionAgent, streamed (as it is unless told otherwise) and not."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from weather import SYSTEM, get_weather


def agent(**more):
    return FunctionAgent(tools=[get_weather], llm=OpenAI("gpt-4o-mini"), system_prompt=SYSTEM, **more)


async def run(question: str) -> str:
    return str(await agent(streaming=False).run(question))


async def streamed(question: str) -> str:
    return str(await agent().run(question))

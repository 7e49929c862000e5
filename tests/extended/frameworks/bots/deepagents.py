"""Deep Agents, of LangChain: sync, async; with typed output."""

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI
from weather import SYSTEM, Report, get_weather


def agent(**more):
    return create_deep_agent(ChatOpenAI(model="gpt-4o-mini"), [get_weather], system_prompt=SYSTEM, **more)


def input_of(question):
    return {"messages": [("user", question)]}


def sync(question: str) -> str:
    return agent().invoke(input_of(question))["messages"][-1].content


async def run(question: str) -> str:
    return (await agent().ainvoke(input_of(question)))["messages"][-1].content


def structured(question: str) -> str:
    return str(agent(response_format=Report).invoke(input_of(question))["structured_response"])

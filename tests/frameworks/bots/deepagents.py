"""Deep Agents, of LangChain: sync, async; with typed output."""

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI
from weather import SYSTEM, Report, get_weather


def agent(**more):
    return create_deep_agent(ChatOpenAI(model="gpt-4o-mini"), [get_weather], system_prompt=SYSTEM, **more)


def asked(question):
    return {"messages": [("user", question)]}


def sync(question: str) -> str:
    return agent().invoke(asked(question))["messages"][-1].content


async def run(question: str) -> str:
    return (await agent().ainvoke(asked(question)))["messages"][-1].content


def structured(question: str) -> str:
    return str(agent(response_format=Report).invoke(asked(question))["structured_response"])

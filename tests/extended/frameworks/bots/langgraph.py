"""LangChain's agent, which is a graph of LangGraph: sync, async, streamed."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from weather import SYSTEM, get_weather

graph = create_agent(ChatOpenAI(model="gpt-5-mini"), [get_weather], system_prompt=SYSTEM)


def asked(question):
    return {"messages": [("user", question)]}


def sync(question: str) -> str:
    return graph.invoke(asked(question))["messages"][-1].content


async def run(question: str) -> str:
    return (await graph.ainvoke(asked(question)))["messages"][-1].content


async def streamed(question: str) -> str:
    pieces = []
    async for chunk, told in graph.astream(asked(question), stream_mode="messages"):
        if chunk.type == "AIMessageChunk" and told["langgraph_node"] == "model":
            pieces.append(chunk.text if isinstance(chunk.text, str) else chunk.text())
    return "".join(pieces)

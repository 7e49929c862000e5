"""CrewAI: a crew of one agent, sync and async; with a tool that ends the task; of typed output."""

import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from weather import SYSTEM, Report, get_weather, sentence


def crew(ends: bool = False, **more):
    weather = tool("get_weather", result_as_answer=ends)(get_weather)
    model = LLM(model="openai/gpt-4o-mini")
    agent = Agent(role="Reporter", goal=SYSTEM, backstory="You are brief.", tools=[weather], llm=model)
    task = Task(description="{question}", expected_output="The weather.", agent=agent, **more)
    return Crew(agents=[agent], tasks=[task])


def kickoff(question: str) -> str:
    return crew().kickoff(inputs={"question": question}).raw


async def kickoff_async(question: str) -> str:
    return (await crew().kickoff_async(inputs={"question": question})).raw


def terminal(question: str) -> str:
    return sentence(crew(ends=True).kickoff(inputs={"question": question}).raw)


def structured(question: str) -> str:
    return str(crew(output_pydantic=Report).kickoff(inputs={"question": question}).pydantic)

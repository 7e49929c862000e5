"""smolagents: its agent that calls tools, plain and streamed."""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool
from weather import get_weather

weather = tool(get_weather)


def plain(question: str) -> str:
    return ToolCallingAgent(tools=[weather], model=OpenAIServerModel("gpt-5-mini"), verbosity_level=0).run(
        question
    )


def streamed(question: str) -> str:
    model = OpenAIServerModel("gpt-5-mini")
    return ToolCallingAgent(tools=[weather], model=model, verbosity_level=0, stream_outputs=True).run(
        question
    )

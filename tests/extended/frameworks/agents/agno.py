from agno.agent import Agent
from agno.models.openai import OpenAIChat

from weather import get_weather


def agent():
    return Agent(model=OpenAIChat("gpt-5-mini"), instructions="You tell the weather.", tools=[get_weather])

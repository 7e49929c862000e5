from pydantic_ai import Agent

from weather import get_weather

agent = Agent("openai-chat:gpt-5-mini", instructions="You tell the weather.", tools=[get_weather])

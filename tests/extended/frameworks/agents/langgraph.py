from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from weather import get_weather

graph = create_agent(ChatOpenAI(model="gpt-5-mini"), [get_weather], system_prompt="You tell the weather.")

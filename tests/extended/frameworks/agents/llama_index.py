from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

from weather import get_weather

agent = FunctionAgent(tools=[get_weather], llm=OpenAI("gpt-4o-mini"), system_prompt="You tell the weather.")

from agents import Agent, Runner, function_tool, set_tracing_disabled

from weather import get_weather

set_tracing_disabled(True)  # traces of evals would go to OpenAI
agent = Agent(
    "weather", instructions="You tell the weather.", tools=[function_tool(get_weather)], model="gpt-5-mini"
)

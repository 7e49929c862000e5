from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types

from weather import get_weather

agent = Agent(
    name="weather", model="gemini-2.5-flash", instruction="You tell the weather.", tools=[get_weather]
)


async def replies(question):
    runner = InMemoryRunner(agent=agent, app_name="weather")
    session = await runner.session_service.create_session(app_name="weather", user_id="someone")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    asked = {"user_id": "someone", "session_id": session.id, "new_message": message}
    return [event.content.parts[0].text async for event in runner.run_async(**asked) if event.content]

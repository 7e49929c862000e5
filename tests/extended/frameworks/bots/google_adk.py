"""Google's Agent Development Kit: over Gemini's wire, plain and streamed."""

from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types
from weather import SYSTEM, get_weather


async def _run(question, model, config=None):
    agent = Agent(name="weather", model=model, instruction=SYSTEM, tools=[get_weather])
    runner = InMemoryRunner(agent=agent, app_name="weather")
    session = await runner.session_service.create_session(app_name="weather", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    said = ""
    asked = {"user_id": "u", "session_id": session.id, "new_message": message}
    async for event in runner.run_async(**asked, **({"run_config": config} if config else {})):
        if event.is_final_response() and event.content:
            said = event.content.parts[0].text or said
    return said


async def gemini(question: str) -> str:
    return await _run(question, "gemini-2.5-flash")


async def streamed(question: str) -> str:
    return await _run(question, "gemini-2.5-flash", RunConfig(streaming_mode=StreamingMode.SSE))


async def litellm(question: str) -> str:
    from google.adk.models.lite_llm import LiteLlm

    return await _run(question, LiteLlm("openai/gpt-5-mini"))

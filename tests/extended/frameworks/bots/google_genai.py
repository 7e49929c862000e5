"""Google's own client: it calls the function by itself; plain, asynchronous and streamed."""

from google import genai
from google.genai import types
from weather import SYSTEM, get_weather

HOW = types.GenerateContentConfig(system_instruction=SYSTEM, tools=[get_weather])
MODEL = "gemini-2.5-flash"


def plain(question: str) -> str:
    client = genai.Client()
    return client.models.generate_content(model=MODEL, contents=question, config=HOW).text


async def plain_async(question: str) -> str:
    client = genai.Client()
    return (await client.aio.models.generate_content(model=MODEL, contents=question, config=HOW)).text


def streamed(question: str) -> str:
    client = genai.Client()
    chunks = client.models.generate_content_stream(model=MODEL, contents=question, config=HOW)
    return "".join(chunk.text or "" for chunk in chunks)


async def streamed_async(question: str) -> str:
    client = genai.Client()
    chunks = await client.aio.models.generate_content_stream(model=MODEL, contents=question, config=HOW)
    return "".join([chunk.text or "" async for chunk in chunks])

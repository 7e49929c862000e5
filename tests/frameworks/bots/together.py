"""Together's own client: plain, async, streamed; with typed output."""

import openai_like
from together import AsyncTogether, Together

MODEL = "openai/gpt-oss-20b"


def plain(question: str) -> str:
    return openai_like.plain(Together, MODEL, question)


async def plain_async(question: str) -> str:
    return await openai_like.plain_async(AsyncTogether, MODEL, question)


def streamed(question: str) -> str:
    return openai_like.streamed(Together, MODEL, question)


def structured(question: str) -> str:
    return openai_like.structured(Together, MODEL, question)

"""Groq's own client: plain, async, streamed; with typed output."""

import openai_like
from groq import AsyncGroq, Groq

MODEL = "llama-3.3-70b-versatile"


def plain(question: str) -> str:
    return openai_like.plain(Groq, MODEL, question)


async def plain_async(question: str) -> str:
    return await openai_like.plain_async(AsyncGroq, MODEL, question)


def streamed(question: str) -> str:
    return openai_like.streamed(Groq, MODEL, question)


def structured(question: str) -> str:
    return openai_like.structured(Groq, MODEL, question)

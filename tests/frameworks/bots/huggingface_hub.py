"""Hugging Face's inference client: plain, async, streamed; with typed output."""

import os

# Otherwise the first trial of a process also fetches a list from the hub, and no other trial records that.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import openai_like
from huggingface_hub import AsyncInferenceClient, InferenceClient

MODEL = "openai/gpt-oss-20b"


def plain(question: str) -> str:
    return openai_like.plain(InferenceClient, MODEL, question)


async def plain_async(question: str) -> str:
    return await openai_like.plain_async(AsyncInferenceClient, MODEL, question)


def streamed(question: str) -> str:
    return openai_like.streamed(InferenceClient, MODEL, question)


def structured(question: str) -> str:
    return openai_like.structured(InferenceClient, MODEL, question)

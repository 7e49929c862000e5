"""deepeval: ``evaluate()`` of answers that are there; a model is asked before, by a loop of one's own."""

import asyncio

from workload import ANSWER, AT_ONCE, TARGET, given, question, told

kind, count, address = given()

from deepeval import evaluate  # noqa: E402
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig  # noqa: E402
from deepeval.metrics import PatternMatchMetric  # noqa: E402
from deepeval.test_case import LLMTestCase  # noqa: E402


async def answers() -> list[str]:
    """Ask a model with openai's client, so many at once."""
    from openai import AsyncOpenAI

    client, room = AsyncOpenAI(base_url=address, api_key="none", max_retries=0), asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> str:
        messages = [{"role": "user", "content": question(number)}]
        async with room:
            reply = await client.chat.completions.create(model="loop", messages=messages)
        return reply.choices[0].message.content

    return await asyncio.gather(*map(one, range(count)))


found = [ANSWER] * count if kind == "offline" else asyncio.run(answers())
result = evaluate(
    [LLMTestCase(input=question(number), actual_output=text) for number, text in enumerate(found)],
    [PatternMatchMetric(pattern=f".*{TARGET}.*")],
    async_config=AsyncConfig(max_concurrent=AT_ONCE),
    display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
    cache_config=CacheConfig(write_cache=False),
)
told(sum(each.success for each in result.test_results), count)

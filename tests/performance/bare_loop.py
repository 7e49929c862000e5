"""The floor: the same requests through litellm in a bare loop, with nothing around them."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path

from pytest_agenteval.store.run_reader import load_run


def span(folder: Path) -> float:
    """Give the seconds from the first trial's start to the last one's end, as the run's journal has them."""
    entries = load_run(folder).entries
    starts = [datetime.fromisoformat(entry.started_at).timestamp() for entry in entries]
    ends = [start + entry.seconds for start, entry in zip(starts, entries, strict=True)]
    return max(ends) - min(starts)


async def main(base: str, count: int = 500, at_once: int = 64) -> None:
    """Ask so many questions, so many at once."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    room = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with room:
            await litellm.acompletion(
                model="openai/loop",
                messages=[{"role": "user", "content": f"What is {number} and one more?"}],
                api_base=base,
                api_key="none",
                max_retries=0,
            )

    await asyncio.gather(*(one(number) for number in range(count)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""The floor: questions to a model in a bare loop, by aiohttp or through litellm, with nothing around them."""

import asyncio
import json
import os
from typing import Any

from workload import AT_ONCE, TARGET, TOOL, given, question, told


class Aiohttp:
    """One session, as many connections as questions at once."""

    async def __aenter__(self) -> "Aiohttp":
        import aiohttp

        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE))
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._session.close()

    async def ask(self, address: str, messages: list[Any], tools: dict[str, Any]) -> dict[str, Any]:
        """Give the message of a reply."""
        body = {"model": "loop", "messages": messages, **tools}
        async with self._session.post(f"{address}/chat/completions", json=body) as reply:
            return (await reply.json())["choices"][0]["message"]


class Litellm:
    """Its own client, without retries."""

    async def __aenter__(self) -> "Litellm":
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network
        import litellm

        self._litellm = litellm
        return self

    async def __aexit__(self, *raised: object) -> None:
        pass

    async def ask(self, address: str, messages: list[Any], tools: dict[str, Any]) -> dict[str, Any]:
        """Give the message of a reply."""
        reply = await self._litellm.acompletion(
            model="openai/loop", messages=messages, api_base=address, api_key="none", max_retries=0, **tools
        )
        return reply.choices[0].message.model_dump(exclude_none=True)


async def conversation(client: Any, address: str, text: str, tools: dict[str, Any]) -> bool:
    """Ask until no tool is called any more."""
    messages: list[Any] = [{"role": "user", "content": text}]
    while True:
        message = await client.ask(address, messages, tools)
        messages.append({name: value for name, value in message.items() if value is not None})
        if not message.get("tool_calls"):
            return TARGET in message["content"]
        for call in message["tool_calls"]:
            args = json.loads(call["function"]["arguments"])
            total = str(args["a"] + args["b"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": total})


async def main() -> None:
    """Ask all, so many at once."""
    kind, count, address = given()
    room = asyncio.Semaphore(AT_ONCE)
    tools = {"tools": [TOOL]} if kind == "tools" else {}
    async with {"aiohttp": Aiohttp, "litellm": Litellm}[os.environ["CLIENT"]]() as client:

        async def one(number: int) -> bool:
            async with room:
                return await conversation(client, address, question(number), tools)

        told(sum(await asyncio.gather(*map(one, range(count)))), count)


asyncio.run(main())

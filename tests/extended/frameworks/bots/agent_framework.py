"""Microsoft's Agent Framework: over responses, whole and streamed, and over chat completions; ended by a
middleware of its calls; with typed output."""

from agent_framework import Agent, FunctionMiddleware, MiddlewareTermination
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from weather import SYSTEM, Report, get_weather, sentence


def agent(client=OpenAIChatCompletionClient, **more):
    return Agent(client=client(model="gpt-4o-mini"), instructions=SYSTEM, tools=[get_weather], **more)


async def responses(question: str) -> str:
    return (await agent(OpenAIChatClient).run(question)).text


async def streamed(question: str) -> str:
    stream = agent(OpenAIChatClient).run(question, stream=True)
    async for _ in stream:
        pass
    return (await stream.get_final_response()).text


async def chat(question: str) -> str:
    return (await agent().run(question)).text


class Ending(FunctionMiddleware):
    """Ends the agent with the tool's result."""

    async def process(self, context, call_next):
        await call_next()
        raise MiddlewareTermination(result=context.result)


async def terminal(question: str) -> str:
    response = await agent(middleware=[Ending()]).run(question)
    return sentence(str(response.messages[-1].contents[-1].result))


async def structured(question: str) -> str:
    return str((await agent().run(question, options={"response_format": Report})).value)

"""Semantic Kernel's agent: whole and streamed; ended by a filter of its calls; with typed output."""

from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.functions import KernelArguments, kernel_function
from weather import SYSTEM, Report, get_weather, sentence

AUTO = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=50)


class Weather:
    """The tool, as a plugin has it."""

    @kernel_function(name="get_weather")
    def weather(self, city: str) -> str:
        """Tell the weather in a city."""
        return get_weather(city)


def agent(kernel=None, **settings):
    model = OpenAIChatCompletion("gpt-4o-mini", async_client=AsyncOpenAI())
    arguments = KernelArguments(OpenAIChatPromptExecutionSettings(**settings))
    more = {"plugins": [Weather()], "function_choice_behavior": AUTO, "arguments": arguments}
    if kernel is not None:
        more["kernel"] = kernel
    return ChatCompletionAgent(service=model, name="weather", instructions=SYSTEM, **more)


async def run(question: str) -> str:
    return str((await agent().get_response(messages=question)).content)


async def streamed(question: str) -> str:
    settings = {"stream_options": {"include_usage": True}}
    pieces = [str(each.content) async for each in agent(**settings).invoke_stream(messages=question)]
    return "".join(pieces)


async def ends(context, next):
    await next(context)
    context.terminate = True


async def terminal(question: str) -> str:
    kernel = Kernel()
    kernel.add_filter("auto_function_invocation", ends)
    last = (await agent(kernel).get_response(messages=question)).content
    return sentence(str(last.items[-1].result))


async def structured(question: str) -> str:
    response = await agent(response_format=Report).get_response(messages=question)
    return str(Report.model_validate_json(str(response.content)))

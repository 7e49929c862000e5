"""pydantic-evals: ``Dataset.evaluate_sync``; offline of a function, else of an agent of pydantic-ai."""

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains
from workload import ANSWER, AT_ONCE, TARGET, given, question, told

kind, count, address = given()

if kind == "offline":

    async def answer(asked: str) -> str:
        """Answer from nowhere."""
        return ANSWER

else:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("loop", provider=OpenAIProvider(base_url=address, api_key="none")))

    async def answer(asked: str) -> str:
        """Ask the agent."""
        return (await agent.run(asked)).output

    if kind == "tools":

        @agent.tool_plain
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b


cases = [
    Case(name=f"case{number}", inputs=question(number), expected_output=TARGET) for number in range(count)
]
dataset = Dataset(name="loop", cases=cases, evaluators=[Contains(value=TARGET)])
report = dataset.evaluate_sync(answer, max_concurrency=AT_ONCE, progress=False)
told(sum(all(found.value for found in case.assertions.values()) for case in report.cases), count)

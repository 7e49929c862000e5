"""DSPy: ReAct, whose calls are texts that the agent returns: sync and async."""

import dspy
from weather import get_weather

model = dspy.LM("openai/gpt-4o-mini", cache=False)
agent = dspy.ReAct("question -> answer", tools=[get_weather])


def with_calls(prediction):
    """Give the answer and the calls: no reply has these but in its text."""
    steps, n = prediction.trajectory, 0
    messages = []
    while f"tool_name_{n}" in steps:
        function = {"name": steps[f"tool_name_{n}"], "arguments": steps[f"tool_args_{n}"]}
        call = {"id": f"step_{n}", "function": function}
        messages.append({"role": "assistant", "content": steps[f"thought_{n}"], "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"step_{n}", "content": str(steps[f"observation_{n}"])}
        )
        n += 1
    return {"answer": prediction.answer, "messages": messages}


def react(question: str):
    with dspy.context(lm=model):
        return with_calls(agent(question=question))


async def react_async(question: str):
    with dspy.context(lm=model):
        return with_calls(await agent.acall(question=question))

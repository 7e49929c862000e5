"""inspect_ai: ``eval()`` of a task, with its log as it is by default."""

import os

from workload import ANSWER, AT_ONCE, TARGET, given, question

kind, count, address = given()
os.environ.update(LOOP_API_KEY="none", LOOP_BASE_URL=address)

from inspect_ai import Task, eval  # noqa: E402
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.scorer import includes  # noqa: E402
from inspect_ai.solver import generate, use_tools  # noqa: E402
from inspect_ai.tool import tool  # noqa: E402


@tool
def add():
    """Give the tool of the tool loop."""

    async def execute(a: int, b: int):
        """Add two numbers.

        Args:
            a: First number.
            b: Second number.
        """
        return a + b

    return execute


def scripted(input, tools, tool_choice, config):
    """Answer offline; the usage is given, for else tokens are counted by a table from the network."""
    output = ModelOutput.from_content(model="mockllm", content=ANSWER)
    output.usage = ModelUsage(input_tokens=12, output_tokens=5, total_tokens=17)
    return output


offline = kind == "offline"
samples = [Sample(input=question(number), target=TARGET, id=number + 1) for number in range(count)]
(log,) = eval(
    Task(
        dataset=MemoryDataset(samples),
        solver=[use_tools(add()), generate()] if kind == "tools" else generate(),
        scorer=includes(),
    ),
    model=get_model("mockllm/model", custom_outputs=scripted) if offline else "openai-api/loop/loop",
    display="none",
    log_dir="logs",
    max_samples=AT_ONCE,
    max_connections=AT_ONCE,
)
assert log.status == "success", log.status
assert log.results.scores[0].metrics["accuracy"].value == 1.0

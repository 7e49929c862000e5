"""What the project registers: a grader that crashes, judges, a model that obeys its prompt."""

import json
import os

from pytest_agenteval import Reply, Usage


class Crashes:
    """A grader that is broken."""

    version = "1"

    def grade(self, evidence):
        """Fail, as a mistake in it would."""
        raise RuntimeError("no scale there")


class Judge:
    """Gives a letter the score that stands in it."""

    def __init__(self, plan, turned):
        self._worth, self._turned = float(plan.task.input["reply"].split()[1]), turned

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        """Reply as judges do."""
        score = 4 * (1 - self._worth if self._turned else self._worth)
        return Reply(
            json.dumps({"order": score, "rationale": "as it is"}), usage=Usage(100, 20, cost_usd=0.001)
        )


class Obedient:
    """Says thank you where its prompt says so."""

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        """Reply in one line."""
        polite = "Thank everybody." in str(messages[0]["content"])
        return Reply("Thank you, Mina!" if polite else "Mina!", usage=Usage(50, 5, cost_usd=0.0))


def greet(task_input, ctx):
    """Answer as a function of one's own."""
    return "Hello, Mina!"


def pytest_agenteval_register(registry):
    """Give them their names."""
    registry.grader("crashes", Crashes)
    registry.agent("greeter", greet)
    registry.model("perfect", lambda model, plan: Judge(plan, False))
    registry.model("inverted", lambda model, plan: Judge(plan, True))
    registry.model("obedient", lambda model, plan: Obedient())


def pytest_runtest_call(item):
    """Be interrupted as by Ctrl-C, where the environment says so."""
    if os.environ.get("INTERRUPTED") and "misses" in item.name:
        raise KeyboardInterrupt

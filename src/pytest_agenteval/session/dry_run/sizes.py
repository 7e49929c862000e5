"""What a trial may take that was never tried, by the size of its task: a guess with a wide range."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pytest_agenteval.agents.agent import templates_of, tools_of
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import Plan, PlannedTask, Variant
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.dry_run.ranges import Range
from pytest_agenteval.text.canonical import compact

PLAIN_LETTERS = 4
"""Letters of ASCII that are a token; of other scripts each counts as one."""
READ = (0.8, 1.3)
"""By how much the count of what is sent is off."""
REPLY, RESULT = (20, 500), (20, 1000)
"""Tokens of a reply, and of what a tool gives back."""
LEAST_ASKS, MOST_ASKS = 2, 12
"""Replies of an agent that has tools; one without has one for each of the user's turns."""
MADE_TOOLS = 1500.0
"""Tokens of the declarations of tools that an agent makes anew for each trial."""
RUBRIC, VERDICT = (300, 2000), (30, 400)
"""Tokens that a judge is sent beside the task, and that it replies."""


class Guess(NamedTuple):
    """Tokens that models are sent, and that they reply."""

    sent: Range
    replied: Range

    @property
    def tokens(self) -> Range:
        """Both together."""
        return self.sent + self.replied


class TaskSizes:
    """Guesses by the size of tasks; each suite's tools are looked at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._context = registry, WorkerContext(registry)
        # With the task: while it lives nothing else has the ids that the key is made of.
        self._agents: dict[object, tuple[PlannedTask, tuple[float, float] | None]] = {}

    def agent(self, plan: Plan) -> Guess | None:
        """Guess what an agent of ours takes; None for one whose prompts nobody here knows."""
        task = plan.task
        if task.form or self._registry.is_own_agent(task.agent):
            return None
        measured = self._of_agent(task, plan.variant)
        if measured is None:
            return None
        prompts, tools = measured
        turns = max(1, sum(turn.get("role") == "user" for turn in task.input.get("turns") or ()))
        base = tokens_of(compact(task.input)) + prompts + tools
        asks = (turns, turns)
        if tools:
            most = min(MOST_ASKS * turns, task.limits.steps or MOST_ASKS * turns)
            asks = (min(LEAST_ASKS * turns, most), most)
        return _capped(_conversation(base, asks, with_results=bool(tools)), task)

    def judges(self, plan: Plan) -> Guess | None:
        """Guess what the judges of a trial take together; None where none is asked."""
        factories = (self._registry.grader_factory(grader.name) for grader in plan.task.graders)
        asked = len(plan.conditions.judges) * sum(map(asks_judges, factories))
        if not asked:
            return None
        size = tokens_of(compact(plan.task.input))
        sent = Range(size * READ[0] + RUBRIC[0], size * READ[1] + RUBRIC[1] + REPLY[1])
        return Guess(sent.times(asked), Range(*map(float, VERDICT)).times(asked))

    def _of_agent(self, task: PlannedTask, variant: Variant) -> tuple[float, float] | None:
        """Give the tokens of an agent's prompts and of its tools; None where they cannot be told here."""
        key = task.agent, task.tools, id(task.prompts), id(variant.prompts)
        if key not in self._agents:
            try:
                self._agents[key] = task, self._measured(task, variant)
            except Exception:  # a suite's own code, which its trials will tell
                self._agents[key] = task, None
        return self._agents[key][1]

    def _measured(self, task: PlannedTask, variant: Variant) -> tuple[float, float]:
        agent = self._context.make_agent_instance(task, variant).agent
        prompts = {**(templates_of(agent) or {}), **task.prompts, **variant.prompts}
        offered = self._context.tools(task)
        names: Iterable[str] = tools_of(agent) or self._context.suite_tools(task)
        declared = [compact(offered[name].spec.declaration()) for name in names if name in offered]
        made = MADE_TOOLS if hasattr(agent, "make_tools") else 0.0
        return sum(map(tokens_of, prompts.values())), sum(map(tokens_of, declared)) + made


def tokens_of(text: str) -> float:
    """Guess how many tokens a text is."""
    plain = sum(letter.isascii() for letter in text)
    return plain / PLAIN_LETTERS + (len(text) - plain)


def _conversation(base: float, asks: tuple[int, int], *, with_results: bool) -> Guess:
    """Add up what is sent: each request holds all that was said before it."""
    sent, replied = [], []
    for end, number in enumerate(asks):
        added = REPLY[end] + (RESULT[end] if with_results else 0)
        sent.append(number * base * READ[end] + added * number * (number - 1) / 2)
        replied.append(float(number * REPLY[end]))
    return Guess(Range(*sent), Range(*replied))


def _capped(guess: Guess, task: PlannedTask) -> Guess:
    """Let no guess be above the tokens that the trial may take."""
    limit = task.limits.tokens
    if limit is None or guess.tokens.high <= limit:
        return guess
    share = limit / guess.tokens.high
    sent, replied = guess.sent, guess.replied
    return Guess(
        Range(min(sent.low, sent.high * share), sent.high * share),
        Range(min(replied.low, replied.high * share), replied.high * share),
    )

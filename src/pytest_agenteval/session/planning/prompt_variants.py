"""Which prompts an agent has, and which prompt files of variants no agent would read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.agents.agent import prompt_names_of, templates_of
from pytest_agenteval.records.plan import PlannedTask, Variant
from pytest_agenteval.records.prompts import included_prompts
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.setting_problems import ConfigProblem
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.errors import UsageMistake, nearest


def prompt_names(agent: Any) -> frozenset[str] | None:
    """Give the names of the prompts that an agent, or its class, says it has; None where it says nothing."""
    own, more = templates_of(agent), prompt_names_of(agent)
    if own is None and more is None:
        return None
    return frozenset((*(own or ()), *(more or ())))


def unread_prompts(texts: Mapping[str, str], names: Collection[str], own: Mapping[str, str]) -> list[str]:
    """Give the prompts of these texts that are none of the names, nor included by any other prompt."""
    used = {name for text in (*own.values(), *texts.values()) for name in included_prompts(text)}
    return [name for name in texts if name not in names and name not in used]


def find_unread_prompts(agent: Any, prompts: Mapping[str, str]) -> list[ConfigProblem]:
    """Say which prompts of task and suite an agent never asks for, as far as its class tells."""
    names = prompt_names(agent)
    if names is None:
        return []
    expected = f"one of {', '.join(sorted(names))}" if names else "nothing: the agent has no prompts"
    return [
        ConfigProblem(
            ("prompts", name),
            expected,
            f"{name!r}, which the agent never asks for",
            nearest(name, names) or getattr(agent, "prompt_hint", ""),
        )
        for name in unread_prompts(prompts, names, templates_of(agent) or {})
    ]


def prompts_of_all(variants: Sequence[Variant]) -> Collection[str]:
    """Name the prompts that every variant has."""
    return sorted(set.intersection(*(set(variant.prompts) for variant in variants))) if variants else ()


def check_prompts(registry: Registry, variants: Sequence[Variant], tasks: Iterable[PlannedTask]) -> None:
    """Raise UsageMistake for each file of a variant that no agent of these tasks asks for."""
    prompts = _PromptsOfAgents(registry)
    for task in tasks:
        prompts.add(task)
    if not prompts.by_agent or prompts.reads_any:  # nothing is selected; or only its trials can tell
        return
    wrong = [line for variant in variants for line in prompts.unread_of(variant)]
    if wrong:
        raise UsageMistake("\n".join([*wrong, *(prompts.line(agent) for agent in prompts.by_agent)]))


class _PromptsOfAgents:
    """The prompts of every agent that is to act, with those that suites and tasks name.

    ``reads_any`` says that one of them may ask for prompts that nothing names.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.by_agent: dict[str, set[str]] = {}
        self.reads_any = False
        self._hints: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, task: PlannedTask) -> None:
        """Take note of the task's agent, looked at once for each set of settings and prompts."""
        key = (task.agent, canonical(task.settings) if task.settings else "", id(task.prompts))
        if key in self._seen:
            return
        self._seen.add(key)
        agent = self._agent(task)
        self.reads_any = self.reads_any or getattr(agent, "reads_any_prompt", False)
        self._hints[task.agent] = getattr(agent, "prompt_hint", _CLASS_HINT)
        own = templates_of(agent) or {}
        self.by_agent.setdefault(task.agent, set()).update(prompt_names(agent) or (), task.prompts)
        self._own.update({f"{task.agent}:{name}": text for name, text in {**own, **task.prompts}.items()})

    def unread_of(self, variant: Variant) -> list[str]:
        """Say which of a variant's files nobody asks for."""
        every = {name for names in self.by_agent.values() for name in names}
        return [
            "; ".join(part for part in (_unread_line(variant.name, name), nearest(name, every)) if part)
            for name in unread_prompts(variant.prompts, every, self._own)
        ]

    def line(self, agent: str) -> str:
        """Say which prompts an agent has or, where it has none, how it gets some."""
        if names := self.by_agent[agent]:
            return f"  prompts of the agent {agent}: {', '.join(sorted(names))}"
        return f"  the agent {agent} has no prompts; {self._hints[agent]}"

    def _agent(self, task: PlannedTask) -> Any:
        factory: Callable[..., Any] = self._registry.agent_factory(task.agent)
        if prompt_names(factory) is not None or getattr(factory, "reads_any_prompt", False):
            return factory
        try:
            return factory(**task.settings)  # a function that makes it: only what it makes can tell
        except Exception:  # its trials tell what is wrong with it
            return factory


def _unread_line(variant: str, name: str) -> str:
    return f"--agent-prompt {variant}: nobody reads its prompt {name!r}"


_CLASS_HINT = "its class names those that it asks for: templates = {name: text}, or prompt_names"

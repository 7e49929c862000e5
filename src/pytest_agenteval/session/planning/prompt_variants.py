"""Which prompts an agent has, and which prompt files of variants no agent would read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pytest_agenteval.agents.agent import prompt_names_of, templates_of
from pytest_agenteval.records.plan import PlannedTask, Variant
from pytest_agenteval.records.prompts import included_prompts
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.setting_problems import ConfigProblem
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import canonical_json

_CLASS_HINT = "its class names those that it asks for: templates = {name: text}, or prompt_names"


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
    """Say which prompts of task and suite an agent never reads, where its class lists those that it reads."""
    names = prompt_names(agent)
    if names is None:
        return []
    expected = f"one of {', '.join(sorted(names))}" if names else "nothing: the agent has no prompts"
    return [
        ConfigProblem(
            ("prompts", name),
            expected,
            f"{name!r}, which the agent never asks for",
            did_you_mean(name, names) or getattr(agent, "prompt_hint", ""),
        )
        for name in unread_prompts(prompts, names, templates_of(agent) or {})
    ]


def prompts_of_all(variants: Sequence[Variant]) -> Collection[str]:
    """Name the prompts that every variant has."""
    return sorted(set.intersection(*(set(variant.prompts) for variant in variants))) if variants else ()


def check_prompts(registry: Registry, variants: Sequence[Variant], tasks: Iterable[PlannedTask]) -> None:
    """Raise UsageMistake for each file of a variant that no agent of these tasks asks for."""
    by_agent: dict[str, set[str]] = {}
    hints: dict[str, str] = {}
    texts: dict[str, str] = {}
    looked_at: set[tuple[str, str, int]] = set()
    for task in tasks:
        key = (task.agent, canonical_json(task.settings) if task.settings else "", id(task.prompts))
        if key in looked_at:
            continue
        looked_at.add(key)
        agent = _agent_with_prompts(registry, task)
        if getattr(agent, "reads_any_prompt", False):  # only its trials show which
            return
        hints[task.agent] = getattr(agent, "prompt_hint", _CLASS_HINT)
        own = {**(templates_of(agent) or {}), **task.prompts}
        texts |= {f"{task.agent}:{name}": text for name, text in own.items()}
        by_agent.setdefault(task.agent, set()).update(prompt_names(agent) or (), task.prompts)
    if not by_agent:  # nothing is selected
        return
    every = {name for names in by_agent.values() for name in names}
    wrong = []
    for variant in variants:
        for name in unread_prompts(variant.prompts, every, texts):
            line = f"--agent-prompt {variant.name}: nobody reads its prompt {name!r}"
            wrong.append("; ".join(filter(None, (line, did_you_mean(name, every)))))
    if wrong:
        agents = [
            f"  prompts of the agent {agent}: {', '.join(sorted(names))}"
            if names
            else f"  the agent {agent} has no prompts; {hints[agent]}"
            for agent, names in by_agent.items()
        ]
        raise UsageMistake("\n".join([*wrong, *agents]))


def _agent_with_prompts(registry: Registry, task: PlannedTask) -> Any:
    factory: Callable[..., Any] = registry.agent_factory(task.agent)
    if prompt_names(factory) is not None or getattr(factory, "reads_any_prompt", False):
        return factory
    try:
        return factory(**task.settings)  # a function that makes it: only what it makes lists them
    except Exception:  # its trials show what is wrong with it
        return factory

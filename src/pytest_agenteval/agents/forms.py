"""The forms of the key `agent` in suite.yaml that stand for an agent of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pytest_agenteval.agents.agent import Agent, InputProblem, agent_trait
from pytest_agenteval.records.record import NOTHING

KINDS = ("call", "command", "cli", "http")
"""The keys of which a form has one."""


KEYS_OF_KINDS: Mapping[str, Collection[str]] = {
    "call": ("loop", "otel", "args", "via"),
    "command": ("via", "output", "env", "env_pass", "proxy", "image", "files", "memory", "processes", "disk"),
    "http": ("as", "headers", "body", "answer", "state", "calls", "usage", "request_seconds"),
}
"""The keys that only one kind of form has; in a form of another kind nothing would read them."""

KEYS_OF_CLI = frozenset({*KEYS_OF_KINDS["command"], "args"} - {"output"})
"""A ready-made agent is a command, of which it is known what it prints; ``args`` are more arguments."""


def agent_factory_of(form: Mapping[str, Any], implementation: Any = None) -> Callable[..., Agent]:
    """Give the factory of the agent that a form says; it is called with the settings of suite and task.

    ``implementation`` is what ``call`` names. Raises UsageMistake where it is nothing that acts.
    """
    # Each kind is imported where it is used: the other two load an HTTP server or a client's wire formats.
    if form.get("call"):
        from pytest_agenteval.agents.callable_agent import CallableFactory

        args = form.get("args", NOTHING)
        return CallableFactory(form["call"], implementation, form.get("loop", "own"), args)
    if form.get("command") or form.get("cli"):
        from pytest_agenteval.agents.command_agent import CommandFactory
        from pytest_agenteval.agents.ready_made import command_form_of

        return CommandFactory(command_form_of(form) if form.get("cli") else form)
    from pytest_agenteval.agents.http_agent import HttpFactory

    return HttpFactory(form)


def is_bridged(form: Mapping[str, Any], factory: object) -> bool:
    """Whether the model that a run names answers the requests that an agent sends to a model of its own.

    By default it does where the agent is not given the name of that model. An endpoint's requests are not
    seen.
    """
    if form.get("via"):
        return bool(form["via"] == "bridge")
    return bool(form.get("command") or form.get("cli")) or (
        bool(form.get("call")) and agent_trait(factory, "takes_model") is False
    )


def form_problems(form: Mapping[str, Any]) -> Sequence[InputProblem]:
    """Say what is wrong with a form, at keys of suite.yaml."""
    kinds = [key for key in KINDS if form.get(key)]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none of them"
        return [(("agent",), f"a map with one of {', '.join(KINDS)}", found)]
    own = KEYS_OF_KINDS.get(kinds[0], KEYS_OF_CLI)
    idle: list[InputProblem] = []
    for other, keys in KEYS_OF_KINDS.items():
        for key in keys:
            if key not in own and form.get(key):
                # These stand in suite.yaml itself, beside ``agent``.
                place = (key,) if key in ("env", "env_pass", "proxy") else ("agent", key)
                expected = f"no such key: only an agent by `{other}` has it"
                idle.append((place, expected, f"an agent by `{kinds[0]}`"))
    if isinstance(form.get("args"), Mapping) and kinds == ["cli"]:
        idle.append((("agent", "args"), "a list of arguments", "a map"))
    elif form.get("args") and kinds == ["call"] and not isinstance(form["args"], Mapping):
        idle.append((("agent", "args"), "a map from parameters to their values", "a list"))
    if idle:
        return idle
    if kinds == ["command"]:
        from pytest_agenteval.agents.command_form import command_problems

        return command_problems(form)
    if kinds == ["cli"]:
        from pytest_agenteval.agents.command_form import container_problems, variable_problems
        from pytest_agenteval.agents.ready_made import ready_made_problems

        return [*ready_made_problems(form), *container_problems(form), *variable_problems(form)]
    if kinds == ["http"]:
        from pytest_agenteval.agents.http_agent import endpoint_problems

        return endpoint_problems(form)
    return ()

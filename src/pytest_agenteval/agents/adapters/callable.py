"""A Python function, object or class of the user's as an agent: its parameters are filled by name."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from pytest_agenteval.agents.agent import Agent, AgentContext
from pytest_agenteval.agents.conversation import (
    Wrong,
    is_user_turn,
    last_user_turn,
    misspelt_words,
    seed_conversation,
    turn_text,
)
from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.records.plan import OWN_MODEL, Model

Parameters = Mapping[str, inspect.Parameter]
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

FILLED: Mapping[str, Callable[[Mapping[str, Any], AgentContext], Any]] = {
    "question": lambda task_input, ctx: turn_text(task_input),
    "content": lambda task_input, ctx: turn_text(task_input),
    "messages": lambda task_input, ctx: [{"role": "user", "content": turn_text(task_input)}],
    "task_input": lambda task_input, ctx: task_input,
    "workspace": lambda task_input, ctx: ctx.path,
    "turns": lambda task_input, ctx: user_messages(task_input),
    "chat": lambda task_input, ctx: ctx.chat,
    "tools": lambda task_input, ctx: ctx.tools,
    "ctx": lambda task_input, ctx: ctx,
    "model": lambda task_input, ctx: None if ctx.model.id == OWN_MODEL else ctx.model.id,
    "model_url": lambda task_input, ctx: model_url(ctx.model),
    "mcp_url": lambda task_input, ctx: mcp_url(ctx),
}
"""What a parameter of this name is given in each trial; any other is one of the suite's settings."""

WHOLE_TASK = frozenset({"turns", "task_input", "ctx"})
"""Parameters of a function that takes all turns of the user at once, or asks for them."""


def model_url(model: Model) -> str:
    """Give the address at which clients of any provider ask the trial's model, as long as the trial lasts.

    For what asks from another process, such as a program that the agent starts: it needs no key there.
    """
    # They stand on the standard library's HTTP server, which few agents need.
    from pytest_agenteval.agents.adapters.model_upstreams import model_upstreams, wire_of_path
    from pytest_agenteval.cassettes.http.loopback import open_address

    scope = current()
    assert scope is not None, "an agent runs within its trial's scope"
    address = open_address(scope, model_upstreams(model, os.environ), named_by=wire_of_path)
    scope.at_close(address.cut)
    return address.any_url


def mcp_url(ctx: AgentContext) -> str:
    """Give the address at which clients of MCP find the trial's tools, as long as the trial lasts."""
    from pytest_agenteval.cassettes.http.loopback import open_address
    from pytest_agenteval.tools.mcp.offered_tools import OfferedTools

    scope = current()
    assert scope is not None, "an agent runs within its trial's scope"
    address = open_address(scope, ())
    scope.at_close(address.cut)
    return address.mount("tools", OfferedTools(ctx.tools, ctx.transcript))


def user_messages(task_input: Mapping[str, Any]) -> list[str]:
    """Give everything that the user says in a task, in order."""
    turns = task_input.get("turns")
    if not turns:
        return [turn_text(task_input)]
    return [turn_text(turn) for turn in turns if is_user_turn(turn)]


class CallableFactory:
    """Makes an agent of a function, or of an object or class that can act.

    Its signature is that of the settings that the function takes; ``filled`` are the names of parameters that
    need none, and ``fills`` those of them that this function has. ``makes`` is the class that is made first,
    if any, with the settings that ``made_with`` gives. Raises UsageMistake for what cannot act.
    """

    filled: Collection[str] = tuple(FILLED)

    def __init__(self, name: str, target: Any, loop: str = "own") -> None:
        self.name, self._target, self._loop = name, target, loop
        self.makes: type | None = target if isinstance(target, type) else None
        acting = _acting(target)
        if acting is None:
            raise UsageMistake(f"{name} is {target!r}, which is no function, and has no run")
        self._acting = acting
        self._parameters = _parameters(acting, bound=self.makes is None or _is_bound(self.makes))
        self._own = _parameters(target) if self.makes is not None else {}
        self.fills = tuple(key for key in self._parameters if key in FILLED)
        rest = [parameter for key, parameter in self._parameters.items() if key not in FILLED]
        self.__signature__ = _signature([*self._own.values(), *rest])

    @property
    def takes_model(self) -> bool:
        """Whether the model that a run names reaches the function."""
        return self.asks_through_context or not {"model", "model_url"}.isdisjoint(self._parameters)

    @property
    def asks_through_context(self) -> bool:
        """Whether the function may ask the run's model through us, and not only one of its own."""
        return not {"chat", "ctx"}.isdisjoint(self._parameters)

    def input_problems(self, task_input: Mapping[str, Any]) -> list[Wrong]:
        """Say what seems to be misspelt in a task's input, of which the function is given the words alone."""
        reads_all = not {"task_input", "ctx"}.isdisjoint(self._parameters)
        reads_words = not {"question", "content", "messages"}.isdisjoint(self._parameters)
        return misspelt_words(task_input) if reads_words and not reads_all else []

    def made_with(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Give the settings that the class is made with: those that it names, or else nobody does."""
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in self._own.values())
        others = () if takes_any else settings.keys() - _names_of(self._own)
        acting = _names_of(self._parameters) - _names_of(self._own)
        return {key: value for key, value in settings.items() if key not in others and key not in acting}

    def __call__(self, **settings: Any) -> Agent:
        """Make the agent; a class is made with the settings that its constructor takes."""
        if self.makes is None:
            return CallableAgent(self._acting, self._parameters, settings, self._target, self._loop)
        own = self.made_with(settings)
        acting = _acting(self.makes(**own))
        assert acting is not None, "objects of a class that acts do so too"
        rest = {key: value for key, value in settings.items() if key not in own}
        return CallableAgent(acting, self._parameters, rest, self.makes, self._loop)


class CallableAgent:
    """An agent that is a function of the user's; it runs in a thread of its own.

    ``implementation`` is what the user wrote, which the digest of the agent's code is made of.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Parameters,
        settings: Mapping[str, Any],
        implementation: object,
        loop: str,
    ) -> None:
        self._function, self._parameters, self._settings = function, parameters, settings
        self.implementation, self.loop = implementation, loop
        self._placed = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY]

    def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
        """Call the function with what it takes; give what it returns, be it something to be awaited.

        In a conversation it is called for each turn of the user, unless it takes all of them at once. What it
        returns at last is the answer.
        """
        if not getattr(ctx.turns, "several", False) or not WHOLE_TASK.isdisjoint(self._parameters):
            return self._call(task_input, ctx, {})
        conversation = self._converse(task_input, ctx)
        waits = inspect.iscoroutinefunction(self._function)
        return conversation if waits else asyncio.run(conversation)

    def _call(self, task_input: Mapping[str, Any], ctx: AgentContext, turn: Mapping[str, Any]) -> Any:
        arguments = {name: FILLED[name](task_input, ctx) for name in self._parameters if name in FILLED}
        arguments |= {name: value for name, value in turn.items() if name in self._parameters}
        by_place = [arguments.pop(name) for name in self._placed if name in arguments]
        return self._function(*by_place, **arguments, **self._settings)

    async def _converse(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
        messages: list[dict[str, Any]] = []
        seeded = last_user_turn(task_input)
        turns = task_input.get("turns") or ()
        for _ in range(seed_conversation(turns[:seeded], messages, ctx.transcript) if seeded else 0):
            await ctx.turns()
        returned: Any = None
        while (text := await ctx.turns(_text_of(returned))) is not None:
            messages.append({"role": "user", "content": text})
            turn = {"question": text, "content": text, "messages": list(messages)}
            returned = self._call(task_input, ctx, turn)
            returned = await returned if inspect.isawaitable(returned) else returned
            messages.append({"role": "assistant", "content": _text_of(returned)})
        return returned


def _text_of(returned: Any) -> str:
    """Give what a function said: the text of the answer that it returned, whichever form that has."""
    if isinstance(returned, Mapping):
        returned = returned.get("answer")
    text = getattr(returned, "text", returned)
    return text if isinstance(text, str) else ""


def _acting(thing: Any) -> Callable[..., Any] | None:
    """Give what acts of a function, an object or a class: its ``run``, or what is called."""
    run = getattr(thing, "run", None)
    if callable(run):
        return cast(Callable[..., Any], run)
    if isinstance(thing, type):  # which can itself be called in any case
        return next((vars(kind)["__call__"] for kind in thing.__mro__ if "__call__" in vars(kind)), None)
    return thing if callable(thing) else None


def _is_bound(kind: type) -> bool:
    """Whether a class has a ``run`` that is given no object of it."""
    return isinstance(inspect.getattr_static(kind, "run", None), staticmethod | classmethod)


def _parameters(function: Any, *, bound: bool = True) -> Parameters:
    """Give the parameters by name, without ``self`` where a function of a class is looked at."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # a hint that cannot be evaluated stays a text
        signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return {parameter.name: parameter for parameter in (parameters if bound else parameters[1:])}


def _names_of(parameters: Parameters) -> set[str]:
    return {name for name, parameter in parameters.items() if parameter.kind in _NAMED_KINDS}


def _signature(parameters: Collection[inspect.Parameter]) -> inspect.Signature:
    kinds = {parameter.kind for parameter in parameters}
    named = {p.name: p for p in parameters if p.kind in _NAMED_KINDS}
    by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in named.values()]
    any_name = inspect.Parameter.VAR_KEYWORD in kinds
    rest = [inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)] if any_name else []
    return inspect.Signature([*by_name, *rest])

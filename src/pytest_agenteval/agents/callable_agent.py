"""A function, class or object of the user's own, as an agent."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, cast

from pytest_agenteval.agents.agent import Agent, AgentContext, InputProblem
from pytest_agenteval.agents.loop import (
    Wrong,
    misspelt_words,
    seed_conversation,
    turn_text,
    user_messages,
)
from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.records.factories import are_names, is_map_of_texts
from pytest_agenteval.records.plan import OWN_MODEL
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.text.errors import UsageMistake, did_you_mean

Parameters = Mapping[str, inspect.Parameter]
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

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
    "model_url": lambda task_input, ctx: model_url(),
    "mcp_url": lambda task_input, ctx: mcp_url(ctx),
}
"""What a parameter of this name is given in each trial; any other is one of the suite's settings."""

INPUTS = frozenset({"question", "content", "messages", "task_input", "turns", "ctx"})
"""Those parameters by which a function gets the user's message."""


def model_url() -> str:
    """Give an address at which clients of any provider reach the trial's model, until the trial ends.

    It is for other processes, such as a program that the agent starts. They need no key there.
    """
    # They stand on the standard library's HTTP server, which few agents need.
    from pytest_agenteval.agents.model_upstreams import model_upstreams, wire_of_path
    from pytest_agenteval.cassettes.http.loopback import open_address

    scope = current()
    assert scope is not None, "an agent runs within its trial's scope"
    address = open_address(scope, model_upstreams(os.environ), named_by=wire_of_path)
    scope.at_close(address.cut)
    return address.any_url


def mcp_url(ctx: AgentContext) -> str:
    """Give the address at which clients of MCP find the trial's tools, as long as the trial lasts."""
    from pytest_agenteval.cassettes.http.loopback import open_address
    from pytest_agenteval.tools.offered_tools import OfferedTools

    scope = current()
    assert scope is not None, "an agent runs within its trial's scope"
    address = open_address(scope, ())
    scope.at_close(address.cut)
    return address.mount("tools", OfferedTools(ctx.tools, ctx.transcript))


class CallableFactory:
    """Makes an agent of a function, or of an object or class that can act.

    Its signature is that of the settings that the function takes; ``filled`` are the names of parameters that
    need none, and ``fills`` those of this function that the trial fills. ``args`` names such a source for
    parameters that are called otherwise. ``makes`` is the class that is made first, if any, with the settings
    that ``made_with`` gives. ``templates`` and ``prompt_names`` are what the user's own code says of its
    prompts; a function without ``ctx`` has those that its parameters name. Raises UsageMistake for what
    cannot act.
    """

    filled: Collection[str] = tuple(FILLED)

    def __init__(self, name: str, target: Any, loop: str = "own", args: Mapping[str, str] = NOTHING) -> None:
        self.name, self._target, self._loop, self._args = name, target, loop, args
        self.makes: type | None = target if isinstance(target, type) else None
        acting = _acting(target)
        if acting is None:
            raise UsageMistake(f"{name} is {target!r}, which is no function, and has no run")
        self._acting = acting
        run = None if self.makes is None else inspect.getattr_static(self.makes, "run", None)
        bound = self.makes is None or isinstance(run, staticmethod | classmethod)
        self._parameters = _parameters(acting, bound=bound)
        self._own = _parameters(target) if self.makes is not None else {}
        self._sources = {key: args.get(key, key) for key in self._parameters}
        self._sources = {key: source for key, source in self._sources.items() if source in FILLED}
        self._keys = frozenset(self._sources.values())
        self.fills = tuple(self._sources)
        rest = [parameter for key, parameter in self._parameters.items() if key not in self._sources]
        # Settings are given by name; any name is taken where the function or the class takes any.
        all_parameters = [*self._own.values(), *rest]
        named = {each.name: each for each in all_parameters if each.kind in _NAMED_KINDS}
        by_name = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in named.values()]
        any_name = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in all_parameters)
        free = [inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)] if any_name else []
        self.__signature__ = inspect.Signature([*by_name, *free])
        self.templates, self.prompt_names = self._prompts()

    @property
    def takes_model(self) -> bool:
        """Whether the function itself asks the model that a run names: by its name, or through us."""
        # What is sent to ``model_url`` is answered by that model, whatever name it holds.
        return self.asks_through_context or ("model" in self._keys and "model_url" not in self._keys)

    @property
    def asks_through_context(self) -> bool:
        """Whether the function may ask the run's model through us, and not only one of its own."""
        return not {"chat", "ctx"}.isdisjoint(self._keys)

    @property
    def reads_any_prompt(self) -> bool:
        """Whether the function may ask for prompts that nothing names."""
        return self.templates is None and self.prompt_names is None

    reads_own_prompts = True
    """A prompt that the code reads from a file or a constant can be replaced in the requests to models."""

    prompt_hint = (
        "name the file with the text that its code sends to the model, in suite.yaml:\n"
        "    prompts: {system: ../../prompts/system.md}\n"
        "  or give the function a parameter `system_prompt`"
    )

    def _prompts(self) -> tuple[Mapping[str, str] | None, Collection[str] | None]:
        # Read statically: other libraries use these names too, and a property of theirs is not to be run.
        templates = inspect.getattr_static(self._target, "templates", None)
        names = inspect.getattr_static(self._target, "prompt_names", None)
        templates = templates if is_map_of_texts(templates) else None
        names = names if are_names(names) else None
        # With ``ctx`` the function may read any prompt, and nothing says which.
        if "ctx" in self._keys and templates is None and names is None:
            return None, None
        keys = (*self._text_parameters(self._parameters), *self._text_parameters(self._own))
        by_parameter = [name for key in keys for name in _prompts_of_parameter(key)]
        return templates, (*(names or ()), *by_parameter)

    def _text_parameters(self, parameters: Parameters) -> list[str]:
        """Name the parameters that may be given a prompt: with no default, or one that is None or a text."""
        own = {key: each for key, each in parameters.items() if key not in self._sources}
        named = {key: each.default for key, each in own.items() if each.kind in _NAMED_KINDS}
        may_be_text = (None, inspect.Parameter.empty)
        return [key for key, it in named.items() if it in may_be_text or isinstance(it, str)]

    def input_problems(self, task_input: Mapping[str, Any]) -> list[Wrong]:
        """Say what seems to be misspelt in a task's input, of which the function is given the words alone."""
        # A function that reads the whole input may have keys of its own there: none of them is a mistake.
        reads_all = not {"task_input", "ctx"}.isdisjoint(self._keys)
        takes_words = not {"question", "content", "messages"}.isdisjoint(self._keys)
        reads_words = INPUTS.isdisjoint(self._keys) or takes_words
        return misspelt_words(task_input) if reads_words and not reads_all else []

    def parameter_problems(self, settings: Mapping[str, Any], prompts: Collection[str]) -> list[InputProblem]:
        """Say which parameters nothing fills, and what is wrong with ``args``; keys are those of a suite.

        ``prompts`` are the names of those that suite and task give.
        """
        wrong: list[InputProblem] = []
        for key, source in self._args.items():
            if key not in self._parameters:
                named = f"a parameter of {self.name}: {', '.join(self._parameters) or 'it has none'}"
                wrong.append((("agent", "args", key), named, repr(key), did_you_mean(key, self._parameters)))
            elif source not in FILLED:
                expected = f"one of {', '.join(FILLED)}"
                wrong.append((("agent", "args", key), expected, repr(source), did_you_mean(source, FILLED)))
        lacking = self._unfilled_own(settings, prompts)
        if not wrong and not self.content_parameter(settings, prompts):
            lacking = self._unfilled(settings, prompts) + lacking
        if lacking:
            expected = f"parameters that are filled by their names: {', '.join(FILLED)}"
            # Where a parameter is named like a prompt, the hint is of prompt files, which need no setting.
            like_prompts = [key for key in lacking if key == "system" or key.endswith("_prompt")]
            if like_prompts:
                first = like_prompts[0]
                hint = (
                    f"`prompts: {{{_prompts_of_parameter(first)[0]}: FILE}}` in suite.yaml gives "
                    f"{first} a text, --agent-prompt NAME=FILE too; or give it a default"
                )
            else:
                hint = (
                    "give each a value: "
                    f"`agent: {{call: {self.name}, args: {{{lacking[0]}: content}}}}`; "
                    f"any other needs a default, or a value: `settings: {{{lacking[-1]}: ...}}`"
                )
            wrong.append((("agent",), expected, f"{self.name}({', '.join(lacking)})", hint))
        if not self._parameters and not self._own:
            expected = "a function with a parameter for the user's message, as in answer(question)"
            wrong.append((("agent",), expected, f"{self.name}(), which takes nothing", ""))
        return wrong

    def _unfilled_own(self, settings: Mapping[str, Any], prompts: Collection[str]) -> list[str]:
        """Name the required parameters of the constructor that neither a setting nor a prompt fills."""
        filled = {**settings, **self.made_with_prompts(dict.fromkeys(prompts, ""))}
        named = {key: each for key, each in self._own.items() if each.kind in _NAMED_KINDS}
        return [key for key, each in named.items() if each.default is each.empty and key not in filled]

    def made_with_prompts(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Give each parameter of the constructor that is named like a prompt the text of that prompt."""
        keys = set(self._text_parameters(self._own)) - _names_of(self._parameters)
        named = ((key, name) for key in keys for name in _prompts_of_parameter(key))
        return {key: texts[name] for key, name in named if name in texts}

    def requires_any(
        self, more: Collection[str], settings: Mapping[str, Any], prompts: Collection[str]
    ) -> bool:
        """Whether required parameters are filled where there are ``more`` prompts, and not without them."""
        every = {*prompts, *more}
        return any(
            of(settings, every) != of(settings, prompts) for of in (self._unfilled, self._unfilled_own)
        )

    def _unfilled(self, settings: Mapping[str, Any], prompts: Collection[str]) -> list[str]:
        """Name the required parameters that neither the trial nor a setting nor a prompt fills."""
        known = {*prompts, *(self.templates or ())}
        needed = (*_NAMED_KINDS, inspect.Parameter.POSITIONAL_ONLY)
        required = [
            key
            for key, each in self._parameters.items()
            if each.kind in needed and each.default is each.empty
        ]
        unset = [key for key in required if key not in self._sources and key not in settings]
        return [key for key in unset if known.isdisjoint(_prompts_of_parameter(key))]

    def content_parameter(self, settings: Mapping[str, Any], prompts: Collection[str]) -> str:
        """Name the one parameter that can only be what the task asks, whatever it is called; else nothing.

        Of a function that a decorator hides (``*args``) that is the first argument.
        """
        if not INPUTS.isdisjoint(self._keys):
            return ""
        unfilled = self._unfilled(settings, prompts)
        # Of several unfilled parameters nobody can tell which is meant: the refusal shows how to say it.
        hidden = [key for key, parameter in self._parameters.items() if parameter.kind in _ANY_KINDS]
        if not unfilled and len(hidden) == len(self._parameters):
            unfilled = [key for key in hidden if self._parameters[key].kind is _ANY_KINDS[0]]
        return unfilled[0] if len(unfilled) == 1 else ""

    def made_with(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Give the settings that the class is made with: those that its constructor names.

        A constructor with ``**kwargs`` is given those too that the function does not name.
        """
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in self._own.values())
        others = () if takes_any else settings.keys() - _names_of(self._own)
        acting = _names_of(self._parameters) - _names_of(self._own)
        return {key: value for key, value in settings.items() if key not in others and key not in acting}

    def __call__(self, **settings: Any) -> Agent:
        """Make the agent; a class is made with the settings that its constructor takes."""
        acting, own = self._acting, {}
        if self.makes is not None:
            own = self.made_with(settings)
            made = _acting(self.makes(**own))
            assert made is not None, "objects of a class that acts do so too"
            acting = made
        rest = {key: value for key, value in settings.items() if key not in own}
        content = partial(self.content_parameter, settings)
        agent = CallableAgent(
            acting, self._parameters, self._sources, content, rest, self._target, self._loop
        )
        agent.templates, agent.prompt_names = self.templates, self.prompt_names
        agent.made_with = frozenset(own)
        return agent


class CallableAgent:
    """An agent that is a function of the user's; it runs in a thread of its own.

    ``sources`` say for parameters which of ``FILLED`` each is given, ``content`` names of the prompts that
    there are the one that is given the task's words whatever it is called. ``implementation`` is what the
    user wrote, which the digest of the agent's code is made of; ``made_with`` are the parameters that a
    class was made with.
    """

    made_with: Collection[str] = ()
    templates: Mapping[str, str] | None = None
    prompt_names: Collection[str] | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Parameters,
        sources: Mapping[str, str],
        content: Callable[[Collection[str]], str],
        settings: Mapping[str, Any],
        implementation: object,
        loop: str,
    ) -> None:
        self._function, self._settings = function, settings
        self._sources, self._content = sources, content
        self.implementation, self.loop = implementation, loop
        placed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
        self._placed = [p.name for p in parameters.values() if p.kind in placed]
        self._named = _names_of(parameters) - sources.keys()

    def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
        """Call the function with what it takes; give what it returns, be it something to be awaited.

        In a conversation it is called for each turn of the user, unless it takes all of them at once. What it
        returns at last is the answer.
        """
        # The constructor was given these prompts before any trial: each trial counts as having read them.
        for key in self.made_with:
            for name in ctx.prompts.texts.keys() & _prompts_of_parameter(key):
                ctx.prompts.record_read(name)
        # These take all turns of the user at once, or fetch them one by one through ``ctx``.
        takes_all = not {"turns", "task_input", "ctx"}.isdisjoint(self._sources.values())
        if takes_all or not getattr(ctx.turns, "several", False):
            return self._call(task_input, ctx, {})
        conversation = self._converse(task_input, ctx)
        # A plain function runs in a thread of its own, which has no loop yet.
        waits = inspect.iscoroutinefunction(self._function)
        return conversation if waits else asyncio.run(conversation)

    def _call(self, task_input: Mapping[str, Any], ctx: AgentContext, turn: Mapping[str, Any]) -> Any:
        arguments, texts = dict(self._settings), ctx.prompts.texts
        # Parameters that are named like a prompt are given its text, as it stands in its file.
        if texts:
            named = ((key, name) for key in self._named for name in _prompts_of_parameter(key))
            arguments |= {key: texts[name] for key, name in named if name in texts}
        content = self._content(texts)
        for name, source in {**self._sources, **({content: "content"} if content else {})}.items():
            arguments[name] = turn[source] if source in turn else FILLED[source](task_input, ctx)
        # Positional-only parameters, and ``*args``, cannot be given by name.
        by_place = [arguments.pop(name) for name in self._placed if name in arguments]
        return self._function(*by_place, **arguments)

    def handed_prompts(self, names: Collection[str]) -> Collection[str]:
        """Name the prompts that function or class are given as parameters, whether they use them or not."""
        keys = (*self._named, *self.made_with)
        return {name for key in keys for name in _prompts_of_parameter(key) if name in names}

    async def _converse(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
        messages: list[dict[str, Any]] = []
        await seed_conversation(task_input, messages, ctx)
        returned: Any = None
        while (text := await ctx.turns(_text_of(returned))) is not None:
            messages.append({"role": "user", "content": text})
            turn = {"question": text, "content": text, "messages": list(messages)}
            returned = self._call(task_input, ctx, turn)
            returned = await returned if inspect.isawaitable(returned) else returned
            messages.append({"role": "assistant", "content": _text_of(returned)})
        return returned


def _text_of(returned: Any) -> str:
    """Give the text of the answer that a function returned, whichever form that has."""
    if isinstance(returned, Mapping):
        returned = returned.get("answer")
    text = getattr(returned, "text", returned)
    return text if isinstance(text, str) else ""


def _prompts_of_parameter(name: str) -> tuple[str, ...]:
    """Name the prompts that a parameter of this name stands for: ``system_prompt`` is ``system`` too."""
    return tuple(dict.fromkeys((name.removesuffix("_prompt"), name)))


def _acting(thing: Any) -> Callable[..., Any] | None:
    """Give what acts of a function, an object or a class: its ``run``, or what is called."""
    run = getattr(thing, "run", None)
    if callable(run):
        return cast(Callable[..., Any], run)
    # Any class can be called, to make an object. What acts is the ``__call__`` of its objects.
    if isinstance(thing, type):
        return next((vars(kind)["__call__"] for kind in thing.__mro__ if "__call__" in vars(kind)), None)
    return thing if callable(thing) else None


def _parameters(function: Any, *, bound: bool = True) -> Parameters:
    """Give the parameters by name, without ``self`` where a function of a class is looked at."""
    try:
        signature = inspect.signature(function, eval_str=True)
    # A type hint that cannot be evaluated, such as a name that only type checkers import, stays a text.
    except Exception:
        signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return {parameter.name: parameter for parameter in (parameters if bound else parameters[1:])}


def _names_of(parameters: Parameters) -> set[str]:
    return {name for name, parameter in parameters.items() if parameter.kind in _NAMED_KINDS}

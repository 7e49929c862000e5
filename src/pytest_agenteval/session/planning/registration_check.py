"""Names, settings and prompts of tasks, compared with the agents and graders that are registered."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import AGENT_TRAITS, checks_input, prompt_names_of, templates_of, tools_of
from pytest_agenteval.agents.forms import form_problems
from pytest_agenteval.graders.grader import GRADER_TRAITS, files_of, tools_setting_of
from pytest_agenteval.records.factories import AGENT, GRADER, construction_fault, misfit_traits
from pytest_agenteval.records.prompts import included_prompts
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.registry.lazy_names import NotImported, UnknownName
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.setting_problems import (
    ConfigProblem,
    find_config_problems,
    one_of,
    problem_of_refusal,
    setting_names,
    unfilled_parameters,
    wrong_agent_settings,
)
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.task_spec import GraderSpec
from pytest_agenteval.tasks.validation import belongs_in_hint
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import canonical_json

MOST_REMEMBERED = 4096
"""Configurations that are remembered: most tasks of a suite have the same few."""
_GRADING_FUNCTION = "a function that grades has one parameter, and its name is evidence"
_BESIDE_CONFIG = "a grader's own settings stand in `config: {...}`"


class RegistrationCheck:
    """Compares names and settings with what is registered; equal ones are looked at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._accepted: set[Hashable] = set()

    def agent(
        self,
        name: str,
        settings: Mapping[str, Any],
        task_input: Mapping[str, Any],
        tools: tuple[str, ...] = (),
        prompts: tuple[str, ...] = (),
    ) -> list[ConfigProblem]:
        """Say what keeps this agent from being made of these settings and given this input."""
        # ``tools`` are the names of those that the suite brings along, ``prompts`` of those that it gives.
        try:
            factory: Any = self._registry.agent_factory(name)
        except UnknownName as unknown:
            return [_unknown_name(unknown).below("agent")]
        except NotImported as lost:
            return [ConfigProblem(("agent",), lost.expected, lost.found, lost.hint)]
        key = ("agent", name, canonical_json(settings) if settings else "", tools, prompts)
        wrong: tuple[ConfigProblem, ...] = ()
        if key not in self._accepted:
            # The agent itself comes first: a broken class cannot say which settings it takes.
            if unfit := _unfit_agent(factory, settings):
                return unfit
            wrong = wrong_agent_settings(name, factory, settings)
            if not wrong and (unfilled := unfilled_parameters(factory, settings, prompts)):
                return unfilled
            wrong = tuple(mismatch.below("settings") for mismatch in wrong)
            wrong = wrong or self._unknown_tools(factory, settings, tools)
            if not wrong:
                self._accept(key)
        return [*wrong, *_input_problems(factory, task_input)]

    def form(self, name: str, form: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
        """Register the agent that a suite defines by a form; say what keeps it from being one."""
        if problems := form_problems(form):
            return tuple(ConfigProblem(*problem) for problem in problems)
        try:
            self._registry.agent_form(name, form)
        except UsageMistake as taken:
            return (ConfigProblem(("agent",), "an agent of a name of its own", str(taken)),)
        return ()

    def grader(self, spec: GraderSpec) -> tuple[ConfigProblem, ...]:
        """Say what keeps this grader, or any of a group's, from being made."""
        members = self._registry.group(spec.name)
        if members:
            specs = [replace(spec, name=member) for member, _ in members]
            return tuple(dict.fromkeys(problem for each in specs for problem in self.grader(each)))
        key = ("grader", spec.name, canonical_json(spec.config) if spec.config else "")
        wrong = () if key in self._accepted else self._grader(spec)
        if not wrong:
            self._accept(key)
        return wrong

    def takes(self, name: str, setting: str) -> bool:
        """Whether a grader has this setting; of one that is no dataclass this is not known."""
        factory = self._registry.grader_factory(name)
        return is_dataclass(factory) and setting in {field.name for field in fields(factory) if field.init}

    def settings_of_grader(self, name: str) -> Collection[str]:
        """Give the names of a grader's settings, as far as they are known."""
        factory = self._grader_factory(name)
        return setting_names(factory) if factory is not None else ()

    def settings_of_agent(self, name: str) -> Collection[str]:
        """Give the names of an agent's settings, as far as they are known."""
        try:
            return setting_names(self._registry.agent_factory(name))
        except (UnknownName, NotImported):
            return ()

    def files_of(self, name: str) -> Mapping[str, str]:
        """Give the settings of a grader that may name a file, each with the ending of such a name."""
        factory = self._grader_factory(name)
        return files_of(factory) if factory is not None else NOTHING

    def tool_names(self, spec: GraderSpec) -> str | Sequence[str] | None:
        """Give the tools that a grader's settings name, if any."""
        factory = self._grader_factory(spec.name)
        return spec.config.get(tools_setting_of(factory)) if factory is not None else None

    def misnamed_tools(
        self, spec: GraderSpec, agent: str, tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        """Say which unknown tools a grader names whose names are close to a known one."""
        # Other names may be meant: a tool that does not even exist is one way of not being called.
        names = self.tool_names(spec)
        if not names:
            return ()
        try:
            setting = tools_setting_of(self._registry.grader_factory(spec.name))
            own = tools_of(self._registry.agent_factory(agent))
        except (UnknownName, NotImported):  # which is reported already
            return ()
        # A class lists its tools; where they are a field, the settings do, and these are the suite's.
        offered = {*self._registry.tools, *tools, *(own if isinstance(own, list | tuple) else ())}
        listed = [((), names)] if isinstance(names, str) else [((at,), name) for at, name in enumerate(names)]
        return tuple(
            ConfigProblem(
                ("config", setting, *at), one_of(offered, name), repr(name), did_you_mean(name, offered)
            )
            for at, name in listed
            if name not in offered and _is_nearly(name, offered)
        )

    def _grader_factory(self, name: str) -> Any | None:
        """Give what makes a grader; None for an unknown name, and for a group."""
        try:
            return None if self._registry.group(name) else self._registry.grader_factory(name)
        except (UnknownName, NotImported):
            return None

    def _accept(self, key: Hashable) -> None:
        # Only what fits is remembered: what is unknown now may be offered by a conftest further down.
        if len(self._accepted) > MOST_REMEMBERED:
            self._accepted.clear()
        self._accepted.add(key)

    def _unknown_tools(
        self, factory: Any, settings: Mapping[str, Any], tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        own = tools_of(factory)
        # A class says its tools; where they are a field, the settings do, and else these are the suite's.
        at: KeyPath = ("settings", "tools") if "tools" in settings else ("agent",)
        names = settings.get("tools", own if isinstance(own, list | tuple) else ()) if own is not None else ()
        offered = {*self._registry.tools, *tools} if names else ()
        return tuple(
            ConfigProblem(
                (*at, *([index] if at != ("agent",) else [])),
                one_of(offered, name),
                f"{name!r}, no registered tool",
                did_you_mean(name, offered),
            )
            for index, name in enumerate(names)
            if name not in offered
        )

    def _grader(self, spec: GraderSpec) -> tuple[ConfigProblem, ...]:
        try:
            factory = self._registry.grader_factory(spec.name)
        except UnknownName as unknown:
            return (_unknown_name(unknown).below("name"),)
        except NotImported as lost:
            return (ConfigProblem(("name",), lost.expected, lost.found),)
        wrong = find_config_problems(spec.name, factory, spec.config)
        if not wrong:
            try:
                grader = factory(**spec.config)
            except Exception as refused:  # the grader itself says what it expects of its settings
                refusal = problem_of_refusal(spec.name, refused)
            else:
                return _unfit_grader(grader)
            is_function = not refusal.hint and inspect.isfunction(factory)
            if is_function and construction_fault(GRADER, factory, spec.config):
                # A function that grades was taken for one that makes a grader.
                refusal = refusal._replace(hint=_GRADING_FUNCTION)
            wrong = (refusal,)
        return tuple(mismatch.below("config") for mismatch in wrong)


def _unfit_agent(factory: Any, settings: Mapping[str, Any]) -> list[ConfigProblem]:
    """Say what keeps an agent from being made of this, or is wrong with what it says of itself."""
    if refusal := construction_fault(AGENT, factory, settings):
        return [ConfigProblem(("agent",), AGENT.how, refusal)]
    misfits = misfit_traits(factory, AGENT_TRAITS)
    return [ConfigProblem(("agent",), f"an agent's {expected}", found) for expected, found in misfits]


def _unfit_grader(grader: Any) -> tuple[ConfigProblem, ...]:
    """Say what keeps a grader from grading, or is wrong with what it says of itself."""
    if not callable(getattr(grader, GRADER.method, None)):
        return (ConfigProblem(("name",), GRADER.how, repr(grader)),)
    misfits = misfit_traits(grader, GRADER_TRAITS)
    return tuple(ConfigProblem(("name",), f"a grader's {expected}", found) for expected, found in misfits)


def _input_problems(factory: Any, task_input: Mapping[str, Any]) -> list[ConfigProblem]:
    if not checks_input(factory):
        return []
    problems: Any = factory.input_problems(task_input)
    rows = problems if isinstance(problems, list | tuple) else [problems]
    if not all(isinstance(row, list | tuple) and len(row) in (3, 4) for row in rows):
        expected = "an agent's input_problems: to give a list of (key path, expected, found[, hint])"
        return [ConfigProblem(("agent",), expected, repr(problems))]
    return [ConfigProblem(*row).below("input") for row in rows]


def _is_nearly(name: str, names: Iterable[str]) -> bool:
    """Whether a name is another one but for a slip: nearer than ``nearest`` asks for."""
    from difflib import get_close_matches

    return bool(get_close_matches(name.casefold(), [other.casefold() for other in names], cutoff=0.8))


def _unknown_name(unknown: UnknownName) -> ConfigProblem:
    return ConfigProblem((), one_of(unknown.known, unknown.name), repr(unknown.name), unknown.hint)


def add_placement_hints(
    problems: tuple[Problem, ...], registered: RegistrationCheck, agent: str
) -> Iterator[Problem]:
    """Give problems of task and suite files; with a hint where an unknown key is a setting."""
    # ``agent`` is whose settings are meant where a file names none.
    for problem in problems:
        hint = ""
        if problem.path and problem.found.startswith("unknown key "):
            hint = _placement_hint(problem, registered, agent)
        yield dataclasses.replace(problem, hint=hint) if hint else problem


def _placement_hint(problem: Problem, registered: RegistrationCheck, agent: str) -> str:
    *above, key = problem.path
    try:
        owner: Any = read_document(Path(problem.file)).value
        for step in above:
            owner = owner[step]
    except (ProblemsFound, LookupError, TypeError):  # changed since it was read
        owner = {}
    owner = owner if isinstance(owner, dict) else {}
    if len(above) > 1 and above[-2] == "graders":
        is_setting = key in registered.settings_of_grader(str(owner.get("name")))
        return belongs_in_hint("config", key) if is_setting else problem.hint or _BESIDE_CONFIG
    if not all(isinstance(step, int) for step in above):
        return ""
    # A task, a task of a list, or a suite.
    if key in ("content", "base_fixture", "fixture_dir") and "graders" in owner:
        return belongs_in_hint("input", key)
    is_setting = key in registered.settings_of_agent(str(owner.get("agent") or agent))
    return belongs_in_hint("settings", key) if is_setting else ""


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

"""Names and settings of tasks, compared with the agents and graders that are registered."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from pytest_agenteval.agents.adapters.forms import form_problems
from pytest_agenteval.agents.agent import AGENT_TRAITS, checks_input, tools_of
from pytest_agenteval.graders.grader import GRADER_TRAITS, files_of, tools_setting_of
from pytest_agenteval.records.factories import AGENT, GRADER, construction_fault, misfit_traits
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
from pytest_agenteval.tasks.validation_errors import belongs_in_hint
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, UsageMistake, nearest

MOST_REMEMBERED = 4096
"""Configurations whose answer is remembered: most tasks of a suite have the same few."""


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
        """Say what keeps this agent from being made of these settings and given this input.

        ``tools`` are the names of those that the suite brings along, ``prompts`` of those that it gives.
        """
        try:
            factory: Any = self._registry.agent_factory(name)
        except UnknownName as unknown:
            return [_unknown_name(unknown).below("agent")]
        except NotImported as lost:
            return [ConfigProblem(("agent",), lost.expected, lost.found, lost.hint)]
        key = ("agent", name, canonical(settings) if settings else "", tools, prompts)
        wrong: tuple[ConfigProblem, ...] = ()
        if key not in self._accepted:
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
        """Offer the agent that a suite says by a form; say what keeps it from being one."""
        problems = form_problems(form)
        if problems:
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
            specs = (replace(spec, name=member) for member, _ in members)
            return tuple(
                dict.fromkeys(mismatch for member_spec in specs for mismatch in self.grader(member_spec))
            )
        key = ("grader", spec.name, canonical(spec.config) if spec.config else "")
        wrong = () if key in self._accepted else self._grader(spec)
        if not wrong:
            self._accept(key)
        return wrong

    def takes(self, name: str, setting: str) -> bool:
        """Whether a grader has this setting; of one that is no dataclass nobody can tell."""
        factory = self._registry.grader_factory(name)
        return is_dataclass(factory) and setting in {field.name for field in fields(factory) if field.init}

    def settings_of_grader(self, name: str) -> Collection[str]:
        """Give the names of a grader's settings, as far as they are known."""
        try:
            return (
                setting_names(self._registry.grader_factory(name)) if not self._registry.group(name) else ()
            )
        except (UnknownName, NotImported):
            return ()

    def settings_of_agent(self, name: str) -> Collection[str]:
        """Give the names of an agent's settings, as far as they are known."""
        try:
            return setting_names(self._registry.agent_factory(name))
        except (UnknownName, NotImported):
            return ()

    def files_of(self, name: str) -> Mapping[str, str]:
        """Give the settings of a grader that may name a file, each with the ending of such a name."""
        if self._registry.group(name):
            return NOTHING
        try:
            return files_of(self._registry.grader_factory(name))
        except (UnknownName, NotImported):
            return NOTHING

    def tool_names(self, spec: GraderSpec) -> str | Sequence[str] | None:
        """Give what a grader names of tools, if anything; of a group nobody can tell."""
        try:
            return spec.config.get(tools_setting_of(self._registry.grader_factory(spec.name)))
        except (UnknownName, NotImported):
            return None

    def misnamed_tools(
        self, spec: GraderSpec, agent: str, tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        """Say which tools a grader names that nobody offers and that are nearly one of those offered.

        Others may be meant: that a tool is not even there is a way of not calling it.
        """
        names = self.tool_names(spec)
        if not names:
            return ()
        try:
            setting = tools_setting_of(self._registry.grader_factory(spec.name))
            own = tools_of(self._registry.agent_factory(agent))
        except (UnknownName, NotImported):  # which is told
            return ()
        # A class says its tools; where they are a field, the settings do, and these are the suite's.
        offered = {*self._registry.tools, *tools, *(own if isinstance(own, list | tuple) else ())}
        return tuple(
            ConfigProblem(("config", setting, *at), one_of(offered, name), repr(name), nearest(name, offered))
            for at, name in _tool_places(names)
            if name not in offered and _is_nearly(name, offered)
        )

    def _accept(self, key: Hashable) -> None:
        # Only what fits is kept: what is unknown now may be offered by a conftest further down.
        if len(self._accepted) > MOST_REMEMBERED:
            self._accepted.clear()
        self._accepted.add(key)

    def _unknown_tools(
        self, factory: Any, settings: Mapping[str, Any], tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        """Say which tools are named that nobody offers."""
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
                nearest(name, offered),
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
            except Exception as refused:  # the grader says what it wants of its settings
                wrong = (self._with_hint(problem_of_refusal(spec.name, refused), factory, spec.config),)
            else:
                return _unfit_grader(grader)
        return tuple(mismatch.below("config") for mismatch in wrong)

    @staticmethod
    def _with_hint(mismatch: ConfigProblem, factory: Any, config: Mapping[str, Any]) -> ConfigProblem:
        """Say how a function that grades is known, where one was taken for a function that makes a grader."""
        if (
            mismatch.hint
            or not inspect.isfunction(factory)
            or not construction_fault(GRADER, factory, config)
        ):
            return mismatch
        return mismatch._replace(hint="a function that grades has one parameter, and its name is evidence")


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
    """Say what an agent's class says is wrong with a task's input."""
    if not checks_input(factory):
        return []
    problems: Any = factory.input_problems(task_input)
    rows = problems if isinstance(problems, list | tuple) else [problems]
    if not all(isinstance(row, list | tuple) and len(row) in (3, 4) for row in rows):
        expected = "an agent's input_problems: to give a list of (key path, expected, found[, hint])"
        return [ConfigProblem(("agent",), expected, repr(problems))]
    return [ConfigProblem(*row).below("input") for row in rows]


def _tool_places(names: str | Sequence[str]) -> list[tuple[tuple[int, ...], str]]:
    return [((), names)] if isinstance(names, str) else [((at,), name) for at, name in enumerate(names)]


def _is_nearly(name: str, names: Iterable[str]) -> bool:
    """Whether a name is another one but for a slip: nearer than ``nearest`` asks for."""
    from difflib import get_close_matches

    return bool(get_close_matches(name.casefold(), [other.casefold() for other in names], cutoff=0.8))


def _unknown_name(unknown: UnknownName) -> ConfigProblem:
    return ConfigProblem((), one_of(unknown.known, unknown.name), repr(unknown.name), unknown.hint)


_BESIDE_CONFIG = "a grader's own settings stand in `config: {...}`"

_OF_INPUT = ("content", "base_fixture", "fixture_dir")


class KnowsSettings(Protocol):
    """Knows the settings of graders and agents by their names; of an unknown name, none."""

    def settings_of_grader(self, name: str) -> Collection[str]:
        """Give the names of a grader's settings."""
        ...

    def settings_of_agent(self, name: str) -> Collection[str]:
        """Give the names of an agent's settings."""
        ...


def add_placement_hints(
    problems: tuple[Problem, ...], registered: KnowsSettings, agent: str
) -> Iterator[Problem]:
    """Give problems of task and suite files; an unknown key that is a setting is told where it stands.

    ``agent`` is whose settings are meant where a file names none.
    """
    for problem in problems:
        if problem.path and problem.found.startswith("unknown key "):
            hint = _hint(problem, registered, agent)
            yield dataclasses.replace(problem, hint=hint) if hint else problem
        else:
            yield problem


def _hint(problem: Problem, registered: KnowsSettings, agent: str) -> str:
    *above, key = problem.path
    owner = _map_at(problem, above)
    if len(above) > 1 and above[-2] == "graders":
        is_setting = key in registered.settings_of_grader(str(owner.get("name")))
        return belongs_in_hint("config", key) if is_setting else problem.hint or _BESIDE_CONFIG
    if all(isinstance(step, int) for step in above):  # a task, a task of a list, or a suite
        if key in _OF_INPUT and "graders" in owner:
            return belongs_in_hint("input", key)
        is_setting = key in registered.settings_of_agent(str(owner.get("agent") or agent))
        return belongs_in_hint("settings", key) if is_setting else ""
    return ""


def _map_at(problem: Problem, path: list[str | int]) -> Mapping[str, Any]:
    try:
        value: Any = read_document(Path(problem.file)).value
        for step in path:
            value = value[step]
    except (ProblemsFound, LookupError, TypeError):  # changed since it was read
        return {}
    return value if isinstance(value, dict) else {}

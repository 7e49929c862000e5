"""Names, settings and prompts of tasks, compared with the agents and graders that are registered."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import convert
from msgspec.structs import replace

from pytest_agenteval.agents.agent import AGENT_TRAITS, agent_trait
from pytest_agenteval.agents.forms import form_problems
from pytest_agenteval.graders.grader import GRADER_TRAITS, trait_of
from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.records.factories import (
    AGENT,
    GRADER,
    InstanceFactory,
    accepted_settings,
    construction_fault,
    misfit_traits,
)
from pytest_agenteval.records.prompts import included_prompts
from pytest_agenteval.registry.lazy_names import NotImported, UnknownName
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.documents import read_document
from pytest_agenteval.tasks.task_spec import GraderSpec
from pytest_agenteval.tasks.validation import belongs_in_hint, quotes_hint, value_text
from pytest_agenteval.text.errors import (
    KeyPath,
    Problem,
    ProblemsFound,
    UsageMistake,
    did_you_mean,
    nearest_names,
)
from pytest_agenteval.text.json_values import canonical_json


class ConfigProblem(NamedTuple):
    """One thing that does not fit, at a key of the task."""

    path: KeyPath
    expected: str
    found: str
    hint: str = ""

    def below(self, *steps: str | int) -> ConfigProblem:
        """Give the same problem of a key that lies below ``steps``."""
        return self._replace(path=(*steps, *self.path))


# Types for which msgspec accepts no value that pydantic would refuse. pydantic's import takes 0.1 s, so it
# only looks where a class says more, and where something is wrong, which it explains.
_VALUES = frozenset({Any, NoneType, bool, int, float, str, list, tuple, dict})
_HOLDERS = frozenset({Union, UnionType, list, tuple, dict, Mapping, Sequence})


def _is_plain(hint: Any) -> bool:
    """Whether a type consists of such types; ``Annotated`` never does: only pydantic may understand it."""
    origin = get_origin(hint)
    if origin in _HOLDERS:
        return all(arg is ... or _is_plain(arg) for arg in get_args(hint))
    return origin is Literal or hint in _VALUES


@cache
def _plain_hints(factory: type) -> dict[str, Any] | None:
    """Give the plain type hints of a dataclass; None where it gives pydantic more than hints."""

    def is_of_pydantic(value: object) -> bool:
        return type(value).__module__.partition(".")[0] == "pydantic"

    if any(setting.metadata or is_of_pydantic(setting.default) for setting in fields(factory)):
        return None
    entries = (entry for kind in factory.__mro__ for entry in vars(kind).items())
    if any("_pydantic_" in name or is_of_pydantic(value) for name, value in entries):
        return None
    hints = get_type_hints(factory, include_extras=True)
    return {name: hint for name, hint in hints.items() if _is_plain(hint)}


def plainly_takes(factory: type, settings: Mapping[str, Any]) -> bool:
    """Whether msgspec accepts each value for its type, and the class can be made of the values."""
    try:
        hints = _plain_hints(factory)
        if hints is None:
            return False
        factory(**{name: convert(value, hints[name]) for name, value in settings.items()})
    except Exception:  # pydantic explains it
        return False
    return True


def _type_problems(name: str, kind: Any, value: Any) -> list[ConfigProblem]:
    """Give what pydantic finds wrong with a value of a file; nothing where it cannot read the type."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # Validated as JSON: strict mode then takes a list for a tuple, but no text for a number.
        TypeAdapter(kind).validate_json(canonical_json(value), strict=True)
    except ValidationError as error:
        return [_from_pydantic(name, each, value) for each in error.errors(include_url=False)]
    except Exception:  # the class itself has to say what it expects
        return []
    return []


_PLAIN_WORDS: Mapping[str, str] = {
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid array": "a list",
    "a valid list": "a list",
    "a valid tuple": "a list",
    "a valid dictionary": "a map",
    "an object": "a map",
}


def _from_pydantic(name: str, detail: Any, settings: Any) -> ConfigProblem:
    path: KeyPath = ()
    for step in detail["loc"]:  # pydantic adds the names of branches of unions, which stand in no file
        try:
            settings = settings[step]
        except (KeyError, IndexError, TypeError):
            break
        path = (*path, step)
    if detail["type"] in ("value_error", "assertion_error"):
        refused = problem_of_refusal(name, detail["ctx"]["error"])
        return refused if refused.path else refused._replace(path=path)
    if detail["type"].startswith("missing"):
        return _missing_setting(detail["loc"][-1])
    expected = detail["msg"].lower().removeprefix("input should be ")
    # Authors know these kinds of values by other names than Python and JSON Schema.
    expected = _PLAIN_WORDS.get(expected, expected)
    return ConfigProblem(
        path, expected, value_text(detail["input"]), quotes_hint(detail["type"], detail["input"])
    )


def find_config_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the unknown, missing and wrongly typed settings of a dataclass; nothing for other factories."""
    if not is_dataclass(factory) or not isinstance(factory, type):
        return ()
    # A grader states its version itself, even where that is a field: no file sets it.
    names = {field.name for field in fields(factory) if field.init} - {"version"}
    unknown = [_unknown_key(key, names) for key in settings if key not in names]
    if unknown or plainly_takes(factory, settings):
        return tuple(unknown)
    # Several branches of a union report the same value; the first report is enough.
    by_path: dict[KeyPath, ConfigProblem] = {}
    for problem in _type_problems(name, factory, settings):
        by_path.setdefault(problem.path, problem)
    return tuple(by_path.values())


def _agent_setting_problems(
    name: str, factory: Any, settings: Mapping[str, Any]
) -> tuple[ConfigProblem, ...]:
    """Give the settings with which an agent cannot be made, or cannot be called."""
    filled = [key for key in settings if key in getattr(factory, "fills", ())]
    if filled:
        expected = "no setting: the trial gives this parameter its value"
        return tuple(ConfigProblem((key,), expected, repr(key)) for key in filled)
    makes = getattr(factory, "makes", None)
    own = settings if makes is None else factory.made_with(settings)
    return (
        find_config_problems(name, factory, settings)
        or _unaccepted_settings(factory, settings)
        or (find_config_problems(name, makes, own) if own else ())
    )


def _unaccepted_settings(factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the settings that a class or a function does not take, and those that it lacks."""
    accepted = None if is_dataclass(factory) else accepted_settings(factory)
    if accepted is None:
        return ()
    names, needed = accepted
    expected = "" if names else "no settings: the agent takes none"
    if isinstance(factory, InstanceFactory):
        expected = f"no settings: it was registered as {factory.words}"
    unknown = [_unknown_key(key, names, expected) for key in settings if key not in names]
    # ``parameter_problems`` of a user's function finds those that nothing fills.
    lacking = [] if hasattr(factory, "filled") else [key for key in needed if key not in settings]
    return (*unknown, *map(_missing_setting, lacking))


def problem_of_refusal(name: str, refused: object) -> ConfigProblem:
    """Make a problem of the exception with which a grader or an agent refused its settings."""
    if isinstance(refused, WrongSetting):
        return ConfigProblem(refused.path, refused.expected, refused.found, refused.hint)
    return ConfigProblem((), f"settings that {name} takes", str(refused) or type(refused).__name__)


def _one_of(names: Collection[str], name: str = "") -> str:
    """List the known names; if there are very many, those nearest to ``name``."""
    return f"one of {nearest_names(name, names)}" if names else "nothing: there is none"


def _unknown_key(key: str, names: Collection[str], expected: str = "") -> ConfigProblem:
    return ConfigProblem((key,), expected or _one_of(names), f"unknown key {key!r}", did_you_mean(key, names))


def _missing_setting(key: str) -> ConfigProblem:
    return ConfigProblem((key,), "a value: it has no default", f"no key {key!r}")


def _misfits(thing: Any, traits: Any, word: str, key: str) -> tuple[ConfigProblem, ...]:
    return tuple(
        ConfigProblem((key,), f"{word} {expected}", found) for expected, found in misfit_traits(thing, traits)
    )


class RegistrationCheck:
    """Compares names and settings with what is registered; an agent's equal ones are looked at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # Only what fits: a conftest further down may still offer what is unknown now.
        self._accepted: set[Hashable] = set()

    def agent(
        self,
        name: str,
        settings: Mapping[str, Any],
        task_input: Mapping[str, Any],
        tools: tuple[str, ...] = (),
        prompts: tuple[str, ...] = (),
    ) -> list[ConfigProblem]:
        """Give the problems that keep an agent from being made of these settings and taking this input."""
        # ``tools`` and ``prompts`` are the names of the suite's tools and prompts.
        try:
            factory: Any = self._registry.agent_factory(name)
        except UnknownName as unknown:
            return [self._unknown_name("agent", unknown)]
        except NotImported as lost:
            return [ConfigProblem(("agent",), lost.expected, lost.found, lost.hint)]
        key = (name, canonical_json(settings) if settings else "", tools, prompts)
        wrong: list[ConfigProblem] = []
        if key not in self._accepted:
            # The agent itself is checked first: a broken class cannot say which settings it takes.
            if fault := construction_fault(AGENT, factory, settings):
                return [ConfigProblem(("agent",), AGENT.how, fault)]
            if misfits := _misfits(factory, AGENT_TRAITS, "an agent's", "agent"):
                return [*misfits]
            wrong = [each.below("settings") for each in _agent_setting_problems(name, factory, settings)]
            # Parameters of a user's function that nothing fills, where a suite names the function.
            unfilled = getattr(factory, "parameter_problems", None)
            if not wrong and unfilled is not None and (lacking := unfilled(settings, prompts)):
                return [ConfigProblem(*each) for each in lacking]
            wrong = wrong or self._unknown_tools(factory, settings, tools)
            if not wrong:
                self._accepted.add(key)
        return [*wrong, *_input_problems(factory, task_input)]

    def form(self, name: str, form: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
        """Register the agent that a suite defines by a form; return its problems if it is none."""
        if problems := form_problems(form):
            return tuple(ConfigProblem(*problem) for problem in problems)
        try:
            self._registry.agent_form(name, form)
        except UsageMistake as taken:
            return (ConfigProblem(("agent",), "an agent of a name of its own", str(taken)),)
        return ()

    def grader(self, spec: GraderSpec) -> tuple[ConfigProblem, ...]:
        """Give the problems that keep this grader, or any member of a group, from being made."""
        members = self._registry.group(spec.name)
        if members:
            specs = [replace(spec, name=member) for member, _ in members]
            return tuple(dict.fromkeys(problem for each in specs for problem in self.grader(each)))
        try:
            factory = self._registry.grader_factory(spec.name)
        except UnknownName as unknown:
            return (self._unknown_name("name", unknown),)
        except NotImported as lost:
            return (ConfigProblem(("name",), lost.expected, lost.found),)
        wrong = find_config_problems(spec.name, factory, spec.config)
        if not wrong:
            try:
                grader = factory(**spec.config)
            except Exception as refused:  # the grader itself says what it expects of its settings
                refusal = problem_of_refusal(spec.name, refused)
            else:
                if not callable(getattr(grader, GRADER.method, None)):
                    return (ConfigProblem(("name",), GRADER.how, repr(grader)),)
                return _misfits(grader, GRADER_TRAITS, "a grader's", "name")
            is_function = not refusal.hint and inspect.isfunction(factory)
            if is_function and construction_fault(GRADER, factory, spec.config):
                # The function itself grades, but was registered as one that makes a grader.
                hint = "a function that grades has one parameter, and its name is evidence"
                refusal = refusal._replace(hint=hint)
            wrong = (refusal,)
        return tuple(mismatch.below("config") for mismatch in wrong)

    def takes(self, name: str, setting: str) -> bool:
        """Whether a grader is known to have this setting; False for one that is no dataclass."""
        factory = self._registry.grader_factory(name)
        return is_dataclass(factory) and setting in {field.name for field in fields(factory) if field.init}

    def files_of(self, name: str) -> Mapping[str, str]:
        """Give the settings of a grader that may name a file, each with the ending of such a name."""
        factory = self._grader_factory(name)
        files: Mapping[str, str] = trait_of(factory, "files")
        return files

    def misnamed_tools(self, spec: GraderSpec, agent: str, tools: Collection[str]) -> Iterator[ConfigProblem]:
        """Give the unknown tools that a grader's settings name and that are close to a known name."""
        # A name that is close to none may be meant: a grader may check that a tool was not called.
        factory = self._grader_factory(spec.name)
        setting = trait_of(factory, "names_tools")
        names = spec.config.get(setting)
        if not names:
            return
        try:
            own = agent_trait(self._registry.agent_factory(agent), "tools")
        except (UnknownName, NotImported):  # which is reported already
            return
        # A class may list its tools. Where they are a field, the settings choose among the suite's tools.
        offered = {*self._registry.tools, *tools, *(own if isinstance(own, list | tuple) else ())}
        listed = [((), names)] if isinstance(names, str) else [((at,), name) for at, name in enumerate(names)]
        for at, name in listed:
            if name not in offered and _is_nearly(name, offered):
                hint = did_you_mean(name, offered)
                yield ConfigProblem(("config", setting, *at), _one_of(offered, name), repr(name), hint)

    def settings_of(self, *, agent: str = "", grader: str = "") -> Collection[str]:
        """Give the names of the settings of an agent or a grader, as far as they are known."""
        try:
            factory = self._registry.agent_factory(agent) if agent else self._grader_factory(grader)
        except (UnknownName, NotImported):
            return ()
        accepted = accepted_settings(factory) if factory is not None else None
        return () if accepted is None else accepted[0]

    def _grader_factory(self, name: str) -> Any | None:
        """Give what makes a grader; None for an unknown name, and for a group."""
        try:
            return None if self._registry.group(name) else self._registry.grader_factory(name)
        except (UnknownName, NotImported):
            return None

    def _unknown_tools(
        self, factory: Any, settings: Mapping[str, Any], tools: Collection[str]
    ) -> list[ConfigProblem]:
        own = agent_trait(factory, "tools")
        # A class may list its tools. Where they are a field, the settings list them, else the suite does.
        names = settings.get("tools", own if isinstance(own, list | tuple) else ()) if own is not None else ()
        offered = {*self._registry.tools, *tools} if names else ()
        return [
            ConfigProblem(
                ("settings", "tools", index) if "tools" in settings else ("agent",),
                _one_of(offered, name),
                f"{name!r}, no registered tool",
                did_you_mean(name, offered),
            )
            for index, name in enumerate(names)
            if name not in offered
        ]

    @staticmethod
    def _unknown_name(key: str, unknown: UnknownName) -> ConfigProblem:
        return ConfigProblem((key,), _one_of(unknown.known, unknown.name), repr(unknown.name), unknown.hint)


def _input_problems(factory: Any, task_input: Mapping[str, Any]) -> list[ConfigProblem]:
    check = agent_trait(factory, "input_problems")
    rows = () if check is None else check(task_input)
    # An author forgets to return the empty list where nothing is wrong.
    if not isinstance(rows, list | tuple) or not all(
        isinstance(row, list | tuple) and len(row) in (3, 4) for row in rows
    ):
        expected = "an agent's input_problems: to give a list of (key path, expected, found[, hint])"
        return [ConfigProblem(("agent",), expected, repr(rows))]
    return [ConfigProblem(*row).below("input") for row in rows]


def _is_nearly(name: str, names: Iterable[str]) -> bool:
    """Whether a name is most likely a misspelling of another; ``did_you_mean`` demands less."""
    from difflib import get_close_matches

    return bool(get_close_matches(name.casefold(), [other.casefold() for other in names], cutoff=0.8))


def add_placement_hints(
    problems: Iterable[Problem], registered: RegistrationCheck, agent: str
) -> Iterator[Problem]:
    """Give the problems of task and suite files, with a hint where an unknown key is a setting."""
    # ``agent`` is the agent whose settings are meant where a file names none.
    for problem in problems:
        is_unknown = problem.path and problem.found.startswith("unknown key ")
        hint = _placement_hint(problem, registered, agent) if is_unknown else ""
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
        if key in registered.settings_of(grader=str(owner.get("name"))):
            return belongs_in_hint("config", key)
        return problem.hint or "a grader's own settings stand in `config: {...}`"
    if not all(isinstance(step, int) for step in (above[1:] if above[:1] == ["tasks"] else above)):
        return ""
    # A task, a task of a list, or a suite.
    if key in ("content", "base_fixture", "fixture_dir") and "graders" in owner:
        return belongs_in_hint("input", key)
    if key in ("fixture", "workspace") and "graders" in owner:
        return "a starting workspace stands in `input: {base_fixture: ...}`"
    if key in ("threshold", "weight", "require", "config") and "graders" in owner:
        return f"a grader's {key} stands in `graders: [{{name: ..., {key}: ...}}]`"
    if key in ("bucket", "failure_bucket") and "graders" in owner:
        return belongs_in_hint("metadata", "failure_bucket")
    is_setting = key in registered.settings_of(agent=str(owner.get("agent") or agent))
    return belongs_in_hint("settings", key) if is_setting else ""


def prompt_names(agent: Any) -> frozenset[str] | None:
    """Give the names of the prompts that an agent, or its class, lists; None where it lists none."""
    own, more = agent_trait(agent, "templates"), agent_trait(agent, "prompt_names")
    if own is None and more is None:
        return None
    return frozenset((*(own or ()), *(more or ())))


def unread_prompts(texts: Mapping[str, str], names: Collection[str], own: Mapping[str, str]) -> list[str]:
    """Give the prompts among ``texts`` that are neither in ``names`` nor included by another prompt."""
    used = {name for text in (*own.values(), *texts.values()) for name in included_prompts(text)}
    return [name for name in texts if name not in names and name not in used]


def find_unread_prompts(agent: Any, prompts: Mapping[str, str]) -> list[ConfigProblem]:
    """Give the prompts of task and suite that an agent never reads, where its class lists its prompts."""
    names = prompt_names(agent)
    if names is None:
        return []
    own = agent_trait(agent, "templates") or {}
    unread = unread_prompts(prompts, names, own)
    # The text of a prompt that the agent reads by itself is replaced in what it sends.
    if getattr(agent, "reads_own_prompts", False):
        unread = [name for name in unread if did_you_mean(name, names)]
    expected = f"one of {', '.join(sorted(names))}" if names else "nothing: the agent has no prompts"
    return [
        ConfigProblem(
            ("prompts", name),
            expected,
            f"{name!r}, which the agent does not use",
            did_you_mean(name, names) or getattr(agent, "prompt_hint", ""),
        )
        for name in unread
    ]

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

from pytest_agenteval.agents.agent import AGENT_TRAITS, checks_input, prompt_names_of, templates_of, tools_of
from pytest_agenteval.agents.forms import form_problems
from pytest_agenteval.graders.grader import GRADER_TRAITS, files_of, tools_setting_of
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
from pytest_agenteval.records.record import NOTHING
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

_VALUES = frozenset({Any, NoneType, bool, int, float, str, list, tuple, dict})
_HOLDERS = frozenset({Union, UnionType, list, tuple, dict, Mapping, Sequence})


def plainly_takes(factory: type, settings: Mapping[str, Any]) -> bool:
    """Whether msgspec accepts each value for its type, and the class can be made of the values."""
    # False means that pydantic has to look, whose import takes 0.1 s. Either a hint or the class says more
    # than msgspec understands, or something is wrong, which pydantic explains.
    if _configures_pydantic(factory):
        return False
    try:
        hints = _plain_hints(factory)
        factory(**{name: convert(value, hints[name]) for name, value in settings.items()})
    except Exception:  # pydantic explains it
        return False
    return True


@cache
def _plain_hints(factory: type) -> dict[str, Any]:
    hints = get_type_hints(factory, include_extras=True)
    return {name: hint for name, hint in hints.items() if is_plain(hint)}


@cache
def _configures_pydantic(factory: type) -> bool:
    """Whether a class gives pydantic more than type hints: validators, a configuration, ``Field``."""
    settings = fields(factory) if is_dataclass(factory) else ()
    if any(setting.metadata or _is_of_pydantic(setting.default) for setting in settings):
        return True
    entries = (entry for kind in factory.__mro__ for entry in vars(kind).items())
    return any("_pydantic_" in name or _is_of_pydantic(value) for name, value in entries)


def _is_of_pydantic(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pydantic"


def is_plain(hint: Any) -> bool:
    """Whether msgspec accepts no value for this hint that pydantic would refuse.

    ``Annotated`` is never plain: only pydantic may understand what it adds.
    """
    origin = get_origin(hint)
    if origin in _HOLDERS:
        return all(arg is ... or is_plain(arg) for arg in get_args(hint))
    return origin is Literal or hint in _VALUES


class ConfigProblem(NamedTuple):
    """One thing that does not fit, at a key of the task."""

    path: KeyPath
    expected: str
    found: str
    hint: str = ""

    def below(self, *steps: str | int) -> ConfigProblem:
        """Give the same problem of a key that lies below ``steps``."""
        return self._replace(path=(*steps, *self.path))


def find_config_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the unknown, missing and wrongly typed settings of a dataclass; nothing for other factories."""
    if not is_dataclass(factory) or not isinstance(factory, type):
        return ()
    # A grader states its version itself, even where that is a field: no file sets it.
    names = {field.name for field in fields(factory) if field.init} - {"version"}
    unknown = [
        ConfigProblem((key,), one_of(names), f"unknown key {key!r}", did_you_mean(key, names))
        for key in settings
        if key not in names
    ]
    if unknown or plainly_takes(factory, settings):
        return tuple(unknown)
    by_path: dict[KeyPath, ConfigProblem] = {}
    for error in _pydantic_errors(factory, settings):
        problem = _from_pydantic(name, error, settings)
        # Several branches of a union report the same value; the first report is enough.
        by_path.setdefault(problem.path, problem)
    return tuple(by_path.values())


def _wrong_agent_settings(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the settings with which an agent cannot be made, or cannot be called."""
    filled = [key for key in settings if key in getattr(factory, "fills", ())]
    if filled:
        expected = "no setting: what the parameter of this name is given comes from the trial"
        return tuple(ConfigProblem((key,), expected, repr(key)) for key in filled)
    makes = getattr(factory, "makes", None)
    own = factory.made_with(settings) if makes is not None else {}
    return (
        find_config_problems(name, factory, settings)
        or _unaccepted_settings(factory, settings)
        or (find_config_problems(name, makes, own) if own else ())
        or _model_problems(name, makes or factory, own if makes is not None else settings)
        or tuple(_untyped_problems(name, factory, settings))
    )


def _untyped_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> Iterator[ConfigProblem]:
    """Give the settings that do not have the types of a function's parameters, the last parameter first."""
    # A parameter without a type takes anything, as does one whose type pydantic cannot read.
    if not settings or is_dataclass(factory):
        return
    try:
        parameters = list(inspect.signature(factory, eval_str=True).parameters.values())
    except Exception:  # there is no signature, or a hint that cannot be evaluated here
        return
    for each in reversed(parameters):
        key, kind = each.name, each.annotation
        is_named = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and key in settings
        is_typed = kind is not inspect.Parameter.empty and not isinstance(kind, str)
        if is_named and is_typed and not _plainly_fits(settings[key], kind):
            # For a union, only the error of the first branch is reported.
            for error in _pydantic_errors(kind, settings[key])[:1]:
                yield _from_pydantic(name, error, settings[key]).below(key)


def _plainly_fits(value: Any, kind: Any) -> bool:
    """Whether msgspec accepts a value for a type; False also where only pydantic can decide."""
    try:
        if not is_plain(kind):
            return False
        convert(value, kind)
    except Exception:  # pydantic explains it
        return False
    return True


def _model_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the settings that a pydantic model refuses; nothing for any other factory."""
    if not isinstance(factory, type) or not hasattr(factory, "model_validate"):
        return ()
    from pydantic import ValidationError

    try:
        factory(**settings)
    except ValidationError as error:
        return tuple(_from_pydantic(name, each, settings) for each in error.errors(include_url=False))
    except Exception:  # a validator of the author's own raises, and will raise again when the trial begins
        return ()
    return ()


def _unaccepted_settings(factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Give the settings that a class or a function does not take, and those that it lacks."""
    accepted = None if is_dataclass(factory) else accepted_settings(factory)
    if accepted is None:
        return ()
    names, needed = accepted
    ready = isinstance(factory, InstanceFactory)
    expected = f"no settings: it was registered as {factory.words}" if ready else one_of(names)
    if not ready and not names:
        expected = "no settings: the agent takes none"
    unknown = [key for key in settings if key not in names]
    # The parameters of a user's function are checked by ``_unfilled_parameters``.
    needed = () if hasattr(factory, "filled") else needed
    return (
        *(
            ConfigProblem((key,), expected, f"unknown key {key!r}", did_you_mean(key, names))
            for key in unknown
        ),
        *(_missing_setting(key) for key in needed if key not in settings),
    )


def _unfilled_parameters(
    factory: Any, settings: Mapping[str, Any], prompts: Collection[str] = ()
) -> list[ConfigProblem]:
    """Give the parameters of a user's function that nothing fills, where a suite names the function."""
    problems = getattr(factory, "parameter_problems", None)
    return [ConfigProblem(*it) for it in problems(settings, prompts)] if problems is not None else []


def _missing_setting(key: str) -> ConfigProblem:
    return ConfigProblem((key,), "a value: it has no default", f"no key {key!r}")


def setting_names(factory: Any) -> Collection[str]:
    """Give the names of the settings that a factory takes, as far as they are known."""
    accepted = accepted_settings(factory)
    return () if accepted is None else accepted[0]


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _pydantic_errors(kind: Any, value: Any) -> list[Any]:
    """Give the errors that pydantic finds in a value of a file; nothing where it cannot read the type."""
    from pydantic import ValidationError

    try:
        # Validated as JSON: strict mode then takes a list for a tuple, but no text for a number.
        _adapter(kind).validate_json(canonical_json(value), strict=True)
    except ValidationError as error:
        return list(error.errors(include_url=False))
    except Exception:  # the class itself has to say what it expects
        return []
    return []


def _from_pydantic(name: str, detail: Any, settings: Mapping[str, Any]) -> ConfigProblem:
    if detail["type"] in ("value_error", "assertion_error"):
        refused = problem_of_refusal(name, detail["ctx"]["error"])
        return refused if refused.path else refused._replace(path=_path_in_file(detail["loc"], settings))
    if detail["type"].startswith("missing"):
        return _missing_setting(detail["loc"][-1])
    expected = detail["msg"].lower().removeprefix("input should be ").replace("a valid string", "a text")
    path, hint = _path_in_file(detail["loc"], settings), quotes_hint(detail["type"], detail["input"])
    return ConfigProblem(path, expected, value_text(detail["input"]), hint)


def _path_in_file(loc: KeyPath, settings: Any) -> KeyPath:
    """Give the steps of ``loc`` that stand in the file: pydantic adds the names of branches of unions."""
    path: KeyPath = ()
    for step in loc:
        try:
            settings = settings[step]
        except (KeyError, IndexError, TypeError):
            break
        path = (*path, step)
    return path


def problem_of_refusal(name: str, refused: object) -> ConfigProblem:
    """Make a problem of the exception with which a grader or an agent refused its settings."""
    if isinstance(refused, WrongSetting):
        return ConfigProblem(refused.path, refused.expected, refused.found, refused.hint)
    return ConfigProblem((), f"settings that {name} takes", str(refused) or type(refused).__name__)


def one_of(names: Collection[str], name: str = "") -> str:
    """List the known names; if there are very many, those nearest to ``name``."""
    return f"one of {nearest_names(name, names)}" if names else "nothing: there is none"


# How many configurations of graders are remembered: most tasks of a suite have the same few.
MOST_CONFIGURATIONS = 4096
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
        """Give the problems that keep an agent from being made of these settings and taking this input."""
        # ``tools`` and ``prompts`` are the names of the suite's tools and prompts.
        try:
            factory: Any = self._registry.agent_factory(name)
        except UnknownName as unknown:
            return [_unknown_name(unknown).below("agent")]
        except NotImported as lost:
            return [ConfigProblem(("agent",), lost.expected, lost.found, lost.hint)]
        key = ("agent", name, canonical_json(settings) if settings else "", tools, prompts)
        wrong: tuple[ConfigProblem, ...] = ()
        if key not in self._accepted:
            # The agent itself is checked first: a broken class cannot say which settings it takes.
            if unfit := _unfit_agent(factory, settings):
                return unfit
            wrong = _wrong_agent_settings(name, factory, settings)
            if not wrong and (unfilled := _unfilled_parameters(factory, settings, prompts)):
                return unfilled
            wrong = tuple(mismatch.below("settings") for mismatch in wrong)
            wrong = wrong or self._unknown_tools(factory, settings, tools)
            if not wrong:
                self._accept(key)
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
        key = ("grader", spec.name, canonical_json(spec.config) if spec.config else "")
        wrong = () if key in self._accepted else self._grader(spec)
        if not wrong:
            self._accept(key)
        return wrong

    def takes(self, name: str, setting: str) -> bool:
        """Whether a grader is known to have this setting; False for one that is no dataclass."""
        factory = self._registry.grader_factory(name)
        return is_dataclass(factory) and setting in {field.name for field in fields(factory) if field.init}

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
        factory = self._grader_factory(spec.name)
        return spec.config.get(tools_setting_of(factory)) if factory is not None else None

    def misnamed_tools(
        self, spec: GraderSpec, agent: str, tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        """Give the unknown tools that a grader's settings name and that are close to a known name."""
        # A name that is close to none may be meant: a grader may check that a tool was not called.
        names = self.tool_names(spec)
        if not names:
            return ()
        try:
            setting = tools_setting_of(self._registry.grader_factory(spec.name))
            own = tools_of(self._registry.agent_factory(agent))
        except (UnknownName, NotImported):  # which is reported already
            return ()
        # A class may list its tools. Where they are a field, the settings choose among the suite's tools.
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
        # Only what fits is remembered: a conftest further down may still offer what is unknown now.
        if len(self._accepted) > MOST_CONFIGURATIONS:
            self._accepted.clear()
        self._accepted.add(key)

    def _unknown_tools(
        self, factory: Any, settings: Mapping[str, Any], tools: Collection[str]
    ) -> tuple[ConfigProblem, ...]:
        own = tools_of(factory)
        # A class may list its tools. Where they are a field, the settings list them, else the suite does.
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
                if not callable(getattr(grader, GRADER.method, None)):
                    return (ConfigProblem(("name",), GRADER.how, repr(grader)),)
                misfits = misfit_traits(grader, GRADER_TRAITS)
                return tuple(
                    ConfigProblem(("name",), f"a grader's {expected}", found) for expected, found in misfits
                )
            is_function = not refusal.hint and inspect.isfunction(factory)
            if is_function and construction_fault(GRADER, factory, spec.config):
                # The function itself grades, but was registered as one that makes a grader.
                refusal = refusal._replace(hint=_GRADING_FUNCTION)
            wrong = (refusal,)
        return tuple(mismatch.below("config") for mismatch in wrong)


def _unfit_agent(factory: Any, settings: Mapping[str, Any]) -> list[ConfigProblem]:
    """Give the problems of a factory that makes no agent, or whose traits have wrong values."""
    if refusal := construction_fault(AGENT, factory, settings):
        return [ConfigProblem(("agent",), AGENT.how, refusal)]
    misfits = misfit_traits(factory, AGENT_TRAITS)
    return [ConfigProblem(("agent",), f"an agent's {expected}", found) for expected, found in misfits]


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
    """Whether a name is most likely a misspelling of another; ``did_you_mean`` demands less."""
    from difflib import get_close_matches

    return bool(get_close_matches(name.casefold(), [other.casefold() for other in names], cutoff=0.8))


def _unknown_name(unknown: UnknownName) -> ConfigProblem:
    return ConfigProblem((), one_of(unknown.known, unknown.name), repr(unknown.name), unknown.hint)


def add_placement_hints(
    problems: tuple[Problem, ...], registered: RegistrationCheck, agent: str
) -> Iterator[Problem]:
    """Give the problems of task and suite files, with a hint where an unknown key is a setting."""
    # ``agent`` is the agent whose settings are meant where a file names none.
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
        name = str(owner.get("name"))
        factory = registered._grader_factory(name)
        is_setting = key in (setting_names(factory) if factory is not None else ())
        return belongs_in_hint("config", key) if is_setting else problem.hint or _BESIDE_CONFIG
    if not all(isinstance(step, int) for step in above):
        return ""
    # A task, a task of a list, or a suite.
    if key in ("content", "base_fixture", "fixture_dir") and "graders" in owner:
        return belongs_in_hint("input", key)
    is_setting = key in registered.settings_of_agent(str(owner.get("agent") or agent))
    return belongs_in_hint("settings", key) if is_setting else ""


def prompt_names(agent: Any) -> frozenset[str] | None:
    """Give the names of the prompts that an agent, or its class, lists; None where it lists none."""
    own, more = templates_of(agent), prompt_names_of(agent)
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

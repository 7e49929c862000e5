"""What is wrong with settings: unknown and missing keys, and values of another type."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import convert

from pytest_agenteval.graders.grader_settings import WrongSetting
from pytest_agenteval.records.factories import InstanceFactory, accepted_settings
from pytest_agenteval.text.errors import KeyPath, did_you_mean, nearest_names
from pytest_agenteval.text.json_values import canonical_json

_VALUES = frozenset({Any, NoneType, bool, int, float, str, list, tuple, dict})
_HOLDERS = frozenset({Union, UnionType, list, tuple, dict, Mapping, Sequence})


def plainly_takes(factory: type, settings: Mapping[str, Any]) -> bool:
    """Whether each value has its type and the class can be made of them, as msgspec sees it."""
    # False means that pydantic has to look, whose import takes 0.1 s: a hint or the class says more than
    # msgspec understands, or something is wrong, which pydantic explains.
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
    """Whether a class has, beside its hints, what pydantic obeys: validators, a configuration, ``Field``."""
    settings = fields(factory) if is_dataclass(factory) else ()
    if any(setting.metadata or _is_of_pydantic(setting.default) for setting in settings):
        return True
    entries = (entry for kind in factory.__mro__ for entry in vars(kind).items())
    return any("_pydantic_" in name or _is_of_pydantic(value) for name, value in entries)


def _is_of_pydantic(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pydantic"


def is_plain(hint: Any) -> bool:
    """Whether msgspec takes for this hint nothing that pydantic would not: what Annotated adds is unknown."""
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
        """Say the same of a key further down."""
        return self._replace(path=(*steps, *self.path))


def find_config_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Say which settings a dataclass has not, lacks, or has with another type; others are not looked into."""
    if not is_dataclass(factory) or not isinstance(factory, type):
        return ()
    # A version is the grader's own word on itself, wherever it is written down.
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
        by_path.setdefault(problem.path, problem)  # several branches of a union complain of one value
    return tuple(by_path.values())


def wrong_agent_settings(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Say which settings keep an agent from being made, or from being called."""
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
    """Say which settings do not have the types of the parameters, the last parameter first."""
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
            # Of several branches of a union the first.
            for error in _pydantic_errors(kind, settings[key])[:1]:
                yield _from_pydantic(name, error, settings[key]).below(key)


def _plainly_fits(value: Any, kind: Any) -> bool:
    """Whether a value has its type, as msgspec sees it; False where pydantic has to look."""
    try:
        if not is_plain(kind):
            return False
        convert(value, kind)
    except Exception:  # pydantic explains it
        return False
    return True


def _model_problems(name: str, factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Say what a model of pydantic refuses of its settings; others are not looked into."""
    if not isinstance(factory, type) or not hasattr(factory, "model_validate"):
        return ()
    from pydantic import ValidationError

    try:
        factory(**settings)
    except ValidationError as error:
        return tuple(_from_pydantic(name, each, settings) for each in error.errors(include_url=False))
    except Exception:  # a validator of the author's own breaks: so it will when the trial begins
        return ()
    return ()


def _unaccepted_settings(factory: Any, settings: Mapping[str, Any]) -> tuple[ConfigProblem, ...]:
    """Say which settings a class or a function does not take, or lacks."""
    accepted = None if is_dataclass(factory) else accepted_settings(factory)
    if accepted is None:
        return ()
    names, needed = accepted
    ready = isinstance(factory, InstanceFactory)
    expected = f"no settings: it was registered as {factory.words}" if ready else one_of(names)
    if not ready and not names:
        expected = "no settings: the agent takes none"
    unknown = [key for key in settings if key not in names]
    needed = () if hasattr(factory, "filled") else needed  # of a user's function, parameters are looked at
    return (
        *(
            ConfigProblem((key,), expected, f"unknown key {key!r}", did_you_mean(key, names))
            for key in unknown
        ),
        *(_missing_setting(key) for key in needed if key not in settings),
    )


def unfilled_parameters(
    factory: Any, settings: Mapping[str, Any], prompts: Collection[str] = ()
) -> list[ConfigProblem]:
    """Say which parameters of a user's function nothing fills, where the suite names the function."""
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
    """Give what pydantic finds wrong with a value of a file; nothing where it cannot read the type."""
    from pydantic import ValidationError

    try:
        # As JSON: a list is a tuple there, and a text is no number.
        _adapter(kind).validate_json(canonical_json(value), strict=True)
    except ValidationError as error:
        return list(error.errors(include_url=False))
    except Exception:  # the class itself has to say what it expects
        return []
    return []


def _from_pydantic(name: str, detail: Any, settings: Mapping[str, Any]) -> ConfigProblem:
    from pytest_agenteval.tasks.validation import quotes_hint, value_text

    if detail["type"] in ("value_error", "assertion_error"):
        refused = problem_of_refusal(name, detail["ctx"]["error"])
        return refused if refused.path else refused._replace(path=_path_in_file(detail["loc"], settings))
    if detail["type"].startswith("missing"):
        return _missing_setting(detail["loc"][-1])
    expected = detail["msg"].lower().removeprefix("input should be ").replace("a valid string", "a text")
    path, hint = _path_in_file(detail["loc"], settings), quotes_hint(detail["type"], detail["input"])
    return ConfigProblem(path, expected, value_text(detail["input"]), hint)


def _path_in_file(loc: KeyPath, settings: Any) -> KeyPath:
    """Keep the steps that stand in the file: pydantic adds the names of branches."""
    path: KeyPath = ()
    for step in loc:
        try:
            settings = settings[step]
        except (KeyError, IndexError, TypeError):
            break
        path = (*path, step)
    return path


def problem_of_refusal(name: str, refused: object) -> ConfigProblem:
    """Say that settings were refused, in the words of what refused them."""
    if isinstance(refused, WrongSetting):
        return ConfigProblem(refused.path, refused.expected, refused.found, refused.hint)
    return ConfigProblem((), f"settings that {name} takes", str(refused) or type(refused).__name__)


def one_of(names: Collection[str], name: str = "") -> str:
    """List the known names; of very many those that are nearest to ``name``."""
    return f"one of {nearest_names(name, names)}" if names else "nothing: there is none"

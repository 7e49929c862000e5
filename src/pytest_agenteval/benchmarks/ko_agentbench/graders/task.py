"""What a task of the Korean benchmark says about itself: the keys that its metrics read, and their check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from pytest_agenteval import WrongSetting
from pytest_agenteval.graders.grader_settings import brief, count_at, text_at, value_path_at
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import normal_text, normal_texts

Maps = Sequence[Mapping[str, Any]]


def as_json(value: Any, *, sorted_keys: bool = False) -> str:
    """Write a value as JSON, Korean as it is; a read-only map is a map."""
    return json.dumps(value, sort_keys=sorted_keys, ensure_ascii=False, default=dict)


@dataclass(frozen=True)
class KoTask:
    """The keys of a task, under the benchmark's own names; each may be left out or null.

    Nothing is checked here: the benchmark's metrics take shapes that no task should have.
    """

    golden_action: Maps | None = ()
    arg_schema: Mapping[str, Any] | None = field(default_factory=dict)
    resp_schema: Mapping[str, Any] | None = None
    available_tools: Sequence[str] | None = ()
    golden_fields: Maps | None = ()
    minimum_steps: int | None = None
    essential_tools: Sequence[str] | None = ()
    data_flow: Maps | None = ()
    minimum_sources: int | None = None
    error_injection: Mapping[str, Any] | None = None
    fallback_options: Maps | None = ()
    minimum_calls: int | None = None
    task_level: int | str | None = None
    instruction: str | None = None

    @property
    def golden(self) -> list[Mapping[str, Any]]:
        actions = self.golden_action
        if isinstance(actions, Mapping):
            return [actions]
        return list(actions or ())

    @property
    def golden_calls(self) -> list[Mapping[str, Any]]:
        """The golden actions that call a tool."""
        return [action for action in self.golden if isinstance(action, Mapping) and action.get("tool")]

    @property
    def golden_tools(self) -> list[str]:
        """The tools of the golden calls, each once, in their order."""
        return list(dict.fromkeys(str(action["tool"]) for action in self.golden_calls))

    @property
    def first(self) -> Mapping[str, Any]:
        """The first golden action; empty where there is none."""
        first = next(iter(self.golden), {})
        return first if isinstance(first, Mapping) else {}

    @property
    def reuses(self) -> int:
        """How often the conversation held the wanted result already."""
        actions = (action for action in self.golden if isinstance(action, Mapping))
        return sum(action.get("action") == "context_used" for action in actions)

    @property
    def fallbacks(self) -> list[str]:
        """The tools to fall back on, each once."""
        tools = (option.get("tool") for option in self.fallback_options or ())
        return list(dict.fromkeys(str(tool) for tool in tools if tool))

    @property
    def injected_tool(self) -> str:
        """The tool that is made to fail; empty where there is none."""
        return str((self.error_injection or {}).get("tool") or "")


Mode = Literal["default", "upstream"]
Combine = Literal["mean", "median"]


def check_task_keys(task: KoTask, mode: str, combine: str) -> None:
    """Refuse a key whose value cannot be meant; raises WrongSetting, which names it."""
    for key, value, choices in (("mode", mode, get_args(Mode)), ("combine", combine, get_args(Combine))):
        if value not in choices:
            raise WrongSetting((key,), f"one of {', '.join(choices)}", brief(value))
    for key, shape in _SHAPES.items():
        # The logs of the benchmark write null for what a task does not say.
        if (own := getattr(task, key)) is not None:
            _check((key,), own, shape)


def normalize_task_keys(task: KoTask) -> None:
    """Bring a task's texts into one Unicode form, where they are not."""
    for key in _SHAPES:
        value = getattr(task, key)
        if value is not None and normal_text(text := as_json(value)) != text:
            # A grader is frozen, and this is still a part of making it.
            object.__setattr__(task, key, normal_texts(value))


# What a key has to be: a function that looks at it, a list of one shape, or a map with a shape for each key
# that has to be there; a key with a question mark may be missing or null, and "*" is every key.
Shape: TypeAlias = "Callable[[KeyPath, Any], object] | list[Shape] | dict[str, Shape]"


def _check(place: KeyPath, value: Any, shape: Shape) -> None:
    if isinstance(shape, list):
        if not isinstance(value, list | tuple):
            raise WrongSetting(place, "a list", brief(value))
        for number, item in enumerate(value):
            _check((*place, number), item, shape[0])
    elif isinstance(shape, dict):
        if not isinstance(value, Mapping):
            raise WrongSetting(place, "a map", brief(value))
        for key, inner in shape.items():
            for name in value if key == "*" else [key.rstrip("?")]:
                if name not in value and not key.endswith("?"):
                    raise WrongSetting((*place, name), "this key", "nothing")
                if not (key.endswith("?") and value.get(name) is None):
                    _check((*place, name), value[name], inner)
    else:
        shape(place, value)


def _action(place: KeyPath, value: Any) -> None:
    """Look at a golden action or a fallback: a tool with its arguments, or another action."""
    _check(place, value, {})
    if "action" in value and "tool" not in value:
        text_at((*place, "action"), value["action"])
        return
    _check(place, value, {"tool": text_at, "args?": {}, "step?": _count})
    # The code of PSM reads a weight, though no task of the benchmark has one.
    weight = value.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise WrongSetting((*place, "weight"), "a number above 0", brief(weight))


def _count(place: KeyPath, value: Any) -> None:
    count_at(place, value, least=0)


def _level(place: KeyPath, value: Any) -> None:
    text_at(place, value) if isinstance(value, str) else _count(place, value)


def _value_path(place: KeyPath, value: Any) -> None:
    value_path_at(place, text_at(place, value))


_SHAPES: Mapping[str, Shape] = {
    "golden_action": [_action],
    "arg_schema": {"*": {}},
    "resp_schema": {},
    "available_tools": [text_at],
    "golden_fields": [{"tool": text_at, "fields": [_value_path]}],
    "minimum_steps": _count,
    "essential_tools": [text_at],
    "data_flow": [{"from_step": _count, "from_output": text_at, "to_step": _count, "to_parameter": text_at}],
    "minimum_sources": _count,
    "error_injection": {"tool": text_at, "error_type": text_at},
    "fallback_options": [_action],
    "minimum_calls": _count,
    "task_level": _level,
    "instruction": text_at,
}

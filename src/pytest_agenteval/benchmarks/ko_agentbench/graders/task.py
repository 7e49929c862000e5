"""What a task of the Korean benchmark says about itself: the keys that its metrics read, and their check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

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
    for key, look in _KEY_CHECKS.items():
        own = getattr(task, key)
        # The logs of the benchmark write null for what a task does not say.
        if own is not None:
            look((key,), own)


def normalize_task_keys(task: KoTask) -> None:
    """Bring a task's texts into one Unicode form, where they are not."""
    for key in _KEY_CHECKS:
        value = getattr(task, key)
        if value is not None and normal_text(text := as_json(value)) != text:
            # A grader is frozen, and this is still a part of making it.
            object.__setattr__(task, key, normal_texts(value))


def _map(place: KeyPath, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise WrongSetting(place, "a map", brief(value))


def _list(place: KeyPath, value: Any, look: Callable[[KeyPath, Any], object]) -> None:
    if not isinstance(value, list | tuple):
        raise WrongSetting(place, "a list", brief(value))
    for number, item in enumerate(value):
        look((*place, number), item)


def _texts(place: KeyPath, value: Any) -> None:
    _list(place, value, text_at)


def _keys(place: KeyPath, value: Any, **looks: Callable[[KeyPath, Any], object]) -> None:
    """Look at each of these keys of a map; all have to be there."""
    _map(place, value)
    for key, look in looks.items():
        if key not in value:
            raise WrongSetting((*place, key), "this key", "nothing")
        look((*place, key), value[key])


def _actions(place: KeyPath, value: Any) -> None:
    _list(place, value, _action)


def _action(place: KeyPath, value: Any) -> None:
    """Look at a golden action or a fallback: a tool with its arguments, or another action."""
    _keys(place, value)
    if "action" in value and "tool" not in value:
        text_at((*place, "action"), value["action"])
        return
    _keys(place, value, tool=text_at)
    if value.get("args") is not None:
        _map((*place, "args"), value["args"])
    if value.get("step") is not None:
        _count((*place, "step"), value["step"])
    # The code of PSM reads a weight, though no task of the benchmark has one.
    weight = value.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise WrongSetting((*place, "weight"), "a number above 0", brief(weight))


def _schemas(place: KeyPath, value: Any) -> None:
    _map(place, value)
    for name, schema in value.items():
        _map((*place, name), schema)


def _fields(place: KeyPath, value: Any) -> None:
    def paths(place: KeyPath, value: Any) -> None:
        _list(place, value, lambda place, path: value_path_at(place, text_at(place, path)))

    _list(place, value, lambda place, entry: _keys(place, entry, tool=text_at, fields=paths))


def _flows(place: KeyPath, value: Any) -> None:
    looks = {"from_step": _count, "from_output": text_at, "to_step": _count, "to_parameter": text_at}
    _list(place, value, lambda place, flow: _keys(place, flow, **looks))


def _injection(place: KeyPath, value: Any) -> None:
    _keys(place, value, tool=text_at, error_type=text_at)


def _level(place: KeyPath, value: Any) -> None:
    text_at(place, value) if isinstance(value, str) else _count(place, value)


def _count(place: KeyPath, value: Any) -> None:
    count_at(place, value, least=0)


_KEY_CHECKS: Mapping[str, Callable[[KeyPath, Any], object]] = {
    "golden_action": _actions,
    "arg_schema": _schemas,
    "resp_schema": _map,
    "available_tools": _texts,
    "golden_fields": _fields,
    "minimum_steps": _count,
    "essential_tools": _texts,
    "data_flow": _flows,
    "minimum_sources": _count,
    "error_injection": _injection,
    "fallback_options": _actions,
    "minimum_calls": _count,
    "task_level": _level,
    "instruction": text_at,
}

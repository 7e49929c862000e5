"""Rules by which the benchmark's data shows its oddities; each says what it sees and changes nothing."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.cache import (
    Cache,
    catalogue,
    normalize_args,
    parameters,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Fields,
    Finding,
    SourceTask,
    actions,
    declared_turn,
    turn_at,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.reference import PLACEHOLDER, recorded_value
from pytest_agenteval.text.errors import did_you_mean
from pytest_agenteval.text.json_values import canonical_json

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def argument_problems(tool: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a call's arguments by the tool's own declaration."""
    if tool not in catalogue():
        return
    declared = parameters(tool)
    for name in (name for name in args if name not in declared):
        hint = did_you_mean(name, declared)
        yield f"the tool has no parameter {name!r}{f'; {hint}' if hint else ''}"
    for name, rule in declared.items():
        if name not in args:
            if rule.get("required"):
                yield f"{name!r} is missing, the tool requires it"
        elif not (isinstance(args[name], str) and PLACEHOLDER.search(args[name])):
            yield from _argument_problem(name, args[name], rule)


def _argument_problem(name: str, value: Any, rule: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(value, KINDS[rule["type"]]):
        yield f"{name!r} is {value!r}, the tool takes {rule['type']}"
    elif "enum" in rule and value not in rule["enum"]:
        yield f"{name!r} is {value!r}, the tool takes {', '.join(rule['enum'])}"
    elif isinstance(value, int) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield f"{name!r} is {value}, outside of what the tool takes"


PLANT_KINDS = frozenset({"preference", "constraint", "fact"})
_EXACT = re.compile(r"-?\d+\.\d{3,}")
_NAMED_CODE = re.compile(r"([가-힣A-Za-z&]+)\((\d{6})\)")

Rule = Callable[[SourceTask], Iterator[str]]


def find_oddities(tasks: Sequence[SourceTask], cache: Cache) -> list[Finding]:
    """Give everything odd about the tasks, task by task."""
    texts_by_task: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for rule in RULES:
            texts_by_task[task.id] += rule(task)
        if cache.read:
            texts_by_task[task.id] += _unknown_facts(task, cache)
            texts_by_task[task.id] += _unknown_outputs(task, cache)
    for rule_of_all in (_duplicate_ids, _codes, _categories):
        for id, text in rule_of_all(tasks):
            texts_by_task[id].append(text)
    return [Finding(id, text) for id, texts in texts_by_task.items() for text in dict.fromkeys(texts)]


def _levels(task: SourceTask) -> Iterator[str]:
    level = task.fields.get("task_level")
    if level != task.number:
        yield f"task_level is {'missing' if level is None else repr(level)} in the file of {task.level}"


def _steps(task: SourceTask) -> Iterator[str]:
    if task.level != "L3":
        return
    for key in ("minimum_steps", "essential_tools"):
        if task.fields.get(key) is None:
            yield f"{key} is missing"
    least = task.fields.get("minimum_steps")
    if isinstance(least, int) and least < len(task.golden):
        yield f"minimum_steps is {least}, the golden path has {len(task.golden)} calls"


def _tools(task: SourceTask) -> Iterator[str]:
    golden = {call["tool"] for call in task.golden}
    for tool in task.fields.get("essential_tools") or ():
        if tool not in golden:
            yield f"essential_tools names {tool}, which the golden path does not call"
    failing = (task.fields.get("error_injection") or {}).get("tool")
    if failing and failing not in golden:
        yield f"error_injection is of {failing}, which the golden path does not call"
    least = task.fields.get("minimum_sources")
    if isinstance(least, int) and least > len(golden):
        yield f"minimum_sources is {least}, the golden path has {len(golden)} different tools"
    for tool in _tool_names(task):
        if tool not in catalogue():
            yield f"there is no tool {tool}"


def _arguments(task: SourceTask) -> Iterator[str]:
    for what, calls in (("golden", task.golden), ("fallback", task.fallbacks), ("turn", _turn_calls(task))):
        for call in calls:
            for problem in argument_problems(call["tool"], call.get("args") or {}):
                yield f"{what} call {call['tool']}: {problem}"


def _flows(task: SourceTask) -> Iterator[str]:
    flows = _maps(task.fields.get("data_flow"))
    for text, number in Counter(map(canonical_json, flows)).items():
        if number > 1:
            yield f"data_flow has an edge {number} times: {text}"
    calls = {call.get("step"): call["tool"] for call in task.golden}
    for flow in flows:
        for key in ("from_step", "to_step"):
            if flow.get(key) not in calls:
                yield f"data_flow: {key} {flow.get(key)!r} is no step of the golden path"
        to = calls.get(flow.get("to_step"))
        if to in catalogue() and flow.get("to_parameter") not in parameters(str(to)):
            yield f"data_flow: {to} has no parameter {flow.get('to_parameter')!r}"


def _schemas(task: SourceTask) -> Iterator[str]:
    schema = task.fields.get("arg_schema")
    if not isinstance(schema, dict) or not task.golden:
        return
    extra = [name for name in task.golden[0].get("args") or {} if name not in schema]
    if extra:
        yield f"arg_schema does not know these golden arguments: {', '.join(extra)}"


def _numbers(task: SourceTask) -> Iterator[str]:
    """Compare exact numbers, such as coordinates, of the question and of the golden arguments."""
    in_question = {float(text) for text in _EXACT.findall(task.fields["instruction"])}
    if in_question and task.golden:
        golden_numbers = _EXACT.findall(canonical_json(task.golden[0].get("args") or {}))
        other = [text for text in golden_numbers if float(text) not in in_question]
        if other:
            yield f"golden arguments hold numbers that the question does not: {', '.join(other)}"


def _conversations(task: SourceTask) -> Iterator[str]:
    tracking = task.fields.get("conversation_tracking") or {}
    first = turn_at(task, 1)
    if first is None:
        return
    if first.get("content") != task.fields["instruction"]:
        yield "instruction differs from the first turn"
    if tracking.get("conversation_id") != f"conv-{task.id}":
        yield f"conversation_id is {tracking.get('conversation_id')!r}, not 'conv-{task.id}'"
    for number, turn in enumerate(task.turns, start=1):
        if turn.get("turn_number") != number:
            yield f"turn {number} is numbered {turn.get('turn_number')!r}"
    for plant in _maps((tracking.get("evaluation_context") or {}).get("context_plants")):
        if plant.get("type") not in PLANT_KINDS:
            yield f"context_plants: {plant.get('type')!r} is no kind of plant"
    role = (turn_at(task, declared_turn(task)) or {}).get("role")
    if role != "user":
        yield f"context_tests name turn {declared_turn(task)}, which is no user turn"


def _calls_no_turn_makes(task: SourceTask) -> Iterator[str]:
    """Compare the golden calls of a conversation with those that its turns make."""
    if task.level != "L6" or not task.turns:
        return
    in_turns = {_place(call) for call in _turn_calls(task)}
    for call in task.golden:
        if _place(call) not in in_turns:
            yield f"no turn makes the golden call {call['tool']}({canonical_json(call.get('args') or {})})"


RULES: tuple[Rule, ...] = (
    _levels,
    _steps,
    _tools,
    _arguments,
    _flows,
    _schemas,
    _numbers,
    _conversations,
    _calls_no_turn_makes,
)


def _unknown_facts(task: SourceTask, cache: Cache) -> Iterator[str]:
    for golden in _maps(task.fields.get("golden_fields")):
        tool = str(golden.get("tool"))
        for path in golden.get("fields") or ():
            if not any(recorded_value(answer.data, str(path)) is not None for answer in cache.of(tool)):
                yield f"golden_fields: no recorded answer of {tool} has {path}"


def _unknown_outputs(task: SourceTask, cache: Cache) -> Iterator[str]:
    calls = {call.get("step"): call["tool"] for call in task.golden}
    for flow in _maps(task.fields.get("data_flow")):
        tool, name = calls.get(flow.get("from_step"), ""), str(flow.get("from_output"))
        answers = [call.data for call in cache.of(tool)]
        if not answers or any(recorded_value(data, name) is not None for data in answers):
            continue
        # A few will do: answers of one tool are alike, and there are hundreds of some.
        names = set().union(*(_names(data) for data in answers[:20]))
        if name not in names:
            hint = did_you_mean(name, sorted(names))
            yield f"data_flow: no recorded answer of {tool} has {name!r}{f'; {hint}' if hint else ''}"


def _duplicate_ids(tasks: Sequence[SourceTask]) -> Iterator[tuple[str, str]]:
    for id, number in Counter(task.id for task in tasks).items():
        if number > 1:
            yield id, f"{number} tasks have this id; the first is taken"


def _codes(tasks: Sequence[SourceTask]) -> Iterator[tuple[str, str]]:
    """Find stock codes that go under several names."""
    names: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for task in tasks:
        for name, code in _NAMED_CODE.findall(task.fields["instruction"]):
            names[code][name].append(task.id)
    for code, by_name in names.items():
        for name, ids in by_name.items():
            for id in ids if len(by_name) > 1 else ():
                others = ", ".join(
                    f"{other} in {', '.join(by_name[other])}" for other in by_name if other != name
                )
                yield id, f"the code {code} is that of {name} here, of {others}"


def _categories(tasks: Sequence[SourceTask]) -> Iterator[tuple[str, str]]:
    for level in {task.level: None for task in tasks}:
        of_level = [task for task in tasks if task.level == level]
        usual = Counter(str(task.fields.get("task_category")) for task in of_level).most_common(1)[0][0]
        for task in of_level:
            if task.fields.get("task_category") != usual:
                yield task.id, f"task_category is {task.fields.get('task_category')!r}, not {usual!r}"


def _turn_calls(task: SourceTask) -> list[Fields]:
    return [action for turn in task.turns for action in actions(turn)]


def _tool_names(task: SourceTask) -> dict[str, None]:
    calls = (*task.golden, *task.fallbacks, *_turn_calls(task))
    return dict.fromkeys([*(task.fields.get("available_tools") or ()), *(call["tool"] for call in calls)])


def _place(call: Fields) -> str:
    args = call.get("args") or {}
    tool = call["tool"]
    return canonical_json([tool, normalize_args(tool, args) if tool in catalogue() else args])


def _names(data: Any) -> set[str]:
    if isinstance(data, list):
        return _names(data[0]) if data else set()
    if isinstance(data, dict):
        return set(data).union(*map(_names, data.values()))
    return set()


def _maps(value: Any) -> list[Fields]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

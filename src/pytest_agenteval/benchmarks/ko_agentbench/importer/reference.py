"""What a task's reference calls stand for, and where the benchmark's tasks differ from their documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval import ABSENT, value_at
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import (
    Cache,
    CachedCall,
    Fields,
    Finding,
    SourceTask,
    actions,
    catalogue,
    declared_turn,
    evaluated_turn,
    maps,
    normalize_args,
    parameters,
    turn_at,
)
from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.text.errors import did_you_mean
from pytest_agenteval.text.json_values import canonical_json, compact_json, loose_path
from pytest_agenteval.tools.tool import invalid_arguments

MOST_DEEP = 6


def recorded_value(data: Any, path: str) -> Any:
    """Give what stands at a path such as ``items[0].title``; None where there is nothing."""
    value = value_at(data, loose_path(path))
    return None if value is ABSENT else value


def find_named(data: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Give what stands at a path, else under a key of that name, in the first entries of lists too."""
    direct = recorded_value(data, name)
    if direct is not None:
        yield name, direct
    # Only a mere name is looked for elsewhere; a path that leads nowhere stays lost.
    elif re.fullmatch(r"\w+", name):
        yield from _keys(data, name, "", 0)


def _keys(data: Any, name: str, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > MOST_DEEP:
        return
    if isinstance(data, list) and data:
        yield from _keys(data[0], name, f"{path}[0]", depth + 1)
    if isinstance(data, dict):
        if name in data:
            yield f"{path}.{name}".lstrip("."), data[name]
        for key, inner in data.items():
            yield from _keys(inner, name, f"{path}.{key}".lstrip("."), depth + 1)


PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_STEP = re.compile(r"step(\d+)\.(.+)")
_PATH = re.compile(r"(?:^\w+|\.\w+|\[\d+\])+")


class GoldenPath:
    """The golden calls of a task, acted out in order: each sees the recorded answers of those before it.

    ``referenced`` are the arguments with references, and ``answers`` what was recorded for each call.
    ``findings`` say which placeholders lead nowhere, and which texts needed a space after a reference.
    """

    def __init__(self, task: SourceTask, cache: Cache) -> None:
        self.task, self.flows = task.id, maps(task.fields.get("data_flow"))
        # By step, those of one step in the order in which they are listed.
        numbered = sorted(enumerate(task.golden), key=lambda pair: _step_of(pair[1], pair[0]))
        self.calls = [call for _, call in numbered]
        # The paths that the task itself names, by tool: a mere name means one of them first.
        golden_fields = maps(task.fields.get("golden_fields"))
        self.facts = {str(golden.get("tool")): golden.get("fields") or () for golden in golden_fields}
        self.referenced: list[dict[str, Any]] = []
        self.answers: list[CachedCall | None] = []
        self.findings: list[Finding] = []
        for call in self.calls:
            pairs = {name: self._argument(call, name, arg) for name, arg in (call.get("args") or {}).items()}
            self.referenced.append({name: written for name, (written, _) in pairs.items()})
            self.answers.append(cache.find(call["tool"], {name: value for name, (_, value) in pairs.items()}))

    def _argument(self, call: Fields, name: str, value: Any) -> tuple[Any, Any]:
        """Give an argument as it is written for the oracle, and with its values filled in."""
        if not isinstance(value, str) or not PLACEHOLDER.search(value):
            return escape(value), value
        found = {match[0]: self._resolve(call, name, match[1]) for match in PLACEHOLDER.finditer(value)}
        resolved = {text: pair for text, pair in found.items() if pair is not None}
        if lost := ", ".join(text for text in found if text not in resolved):
            notice = f"{call['tool']}({name}): {lost}; it stays as it is"
            notice = f"a placeholder leads nowhere in the recorded answers: {notice}"
            self.findings.append(Finding(self.task, notice))
            return escape(value), value

        def reference(match: re.Match[str]) -> str:
            # A space ends the reference, which would else go on into the text behind it.
            if re.match(r"[\w.\[]", value[match.end() :]) is None:
                return resolved[match[0]][0]
            notice = f"the reference solution has a space after the reference in {value!r}, which runs on"
            self.findings.append(Finding(self.task, notice, is_change=True))
            return f"{resolved[match[0]][0]} "

        # The whole argument may be the placeholder: then the recorded value goes in with its own type.
        filled: Any = PLACEHOLDER.sub(lambda match: str(resolved[match[0]][1]), value)
        filled = resolved[value][1] if value in resolved else filled
        # Doubled, because to the oracle a dollar sign begins a reference.
        return PLACEHOLDER.sub(reference, value.replace("$", "$$")), filled

    def _resolve(self, call: Fields, name: str, inside: str) -> tuple[str, Any] | None:
        """Give the reference and the value of a placeholder, or None where it leads nowhere."""
        source = self._source(call, name, inside)
        answer = self.answers[source[0]] if source else None
        if source is None or answer is None:
            return None
        number, wanted = source[0] + 1, source[1]
        named = (path for path in self.facts.get(answer.tool, ()) if path.endswith(f".{wanted}"))
        found = ((path, recorded_value(answer.data, path)) for path in named)
        for path, value in (*found, *find_named(answer.data, wanted)):
            if _PATH.fullmatch(path) and value not in (None, ""):
                return f"${number}{'' if path.startswith('[') else '.'}{path}", value
        return None

    def _source(self, call: Fields, name: str, inside: str) -> tuple[int, str] | None:
        """Give the place of the earlier call that a value comes from, and a path or a mere name there."""
        here = len(self.answers)
        step = _STEP.fullmatch(inside)
        if step:
            number = int(step[1])
            of_step = [place for place in range(here) if _step_of(self.calls[place], place) == number]
            if len(of_step) == 1:
                return of_step[0], step[2]
            # Several calls share the step, or none has it: then the number counts calls.
            return (number - 1, step[2]) if 1 <= number <= here else None
        flow = self._flow(call, name)
        if flow is not None:
            return flow[0], str(flow[1].get("from_output") or inside)
        return (here - 1, inside) if here else None

    def _flow(self, call: Fields, name: str) -> tuple[int, Fields] | None:
        """Give the flow into a parameter; of two with one output, the second is from the step's next call."""
        here, to_step = len(self.answers), _step_of(call, len(self.answers))
        into = [flow for flow in self.flows if flow.get("to_step") == to_step]
        mine = next((flow for flow in into if flow.get("to_parameter") == name), None)
        if mine is None:
            return None
        pair = ("from_step", "from_output")
        alike = [flow for flow in into if all(flow.get(key) == mine.get(key) for key in pair)]
        places = [p for p in range(here) if _step_of(self.calls[p], p) == mine.get("from_step")]
        nth = next(number for number, flow in enumerate(alike) if flow is mine)
        return (places[min(nth, len(places) - 1)], mine) if places else None


def escape(value: Any) -> Any:
    """Write a value so that the oracle takes no dollar sign in it for a reference."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: escape(inner) for key, inner in value.items()}
    return [escape(inner) for inner in value] if isinstance(value, list) else value


def _step_of(call: Fields, place: int) -> int:
    step = call.get("step")
    return step if isinstance(step, int) else place + 1


MAX_FACT_CHARS = 160
Turns = list[dict[str, Any]]
Solution = tuple[Turns, Sequence[Finding]]
"""The turns, and what could not be made of the data as it stands."""


def solve(task: SourceTask, cache: Cache) -> Solution:
    """Give the turns that follow the golden path and end with an answer."""
    if task.turns:
        return _conversation(task, cache), ()
    if task.level == "L5":
        return _around_the_failure(task, cache), ()
    path = GoldenPath(task, cache)
    # Without numbered steps, all calls are made in one reply.
    numbered = any("step" in call for call in path.calls)
    by_step: dict[int, Turns] = {}
    for place, (call, args) in enumerate(zip(path.calls, path.referenced, strict=True)):
        by_step.setdefault(_step_of(call, place) if numbered else 0, []).append(_call(call, args))
    turns: Turns = [{"calls": calls} for calls in by_step.values()]
    return [*turns, _answer(task, path.answers)], path.findings


def _conversation(task: SourceTask, cache: Cache) -> Turns:
    """Answer the evaluated turn from the conversation so far, with the expected call, if any."""
    here = evaluated_turn(task)
    expected = [
        test["expected_action"]
        for test in task.context_tests
        if test.get("expected_action") and test.get("turn", 0) >= here
    ]
    calls = [_call(action, escape(action.get("args") or {})) for action in expected[:1] if action.get("tool")]
    answers = [cache.find(call["tool"], call["args"]) for call in calls]
    # The assistant's next turn in the data is the reference answer.
    reply = (turn_at(task, here + 1) or {}).get("content")
    last = {"text": reply} if reply else _answer(task, answers)
    return [*([{"calls": calls}] if calls else []), last]


def _around_the_failure(task: SourceTask, cache: Cache) -> Turns:
    """Make the call that fails, then the call that stands in for it: a recorded one, if there is one."""
    options = task.fallbacks
    recorded = [cache.find(action["tool"], action.get("args") or {}) for action in options]
    chosen = next((place for place, answer in enumerate(recorded) if answer is not None), 0)
    calls = (*task.golden[:1], *options[chosen : chosen + 1])
    turns = [{"calls": [_call(action, escape(action.get("args") or {}))]} for action in calls]
    return [*turns, _answer(task, recorded[chosen : chosen + 1])]


def _call(call: Fields, args: Any) -> dict[str, Any]:
    return {"tool": call["tool"], "args": args}


def _answer(task: SourceTask, answers: Sequence[CachedCall | None]) -> dict[str, Any]:
    """State the golden facts as they were recorded; where nothing was recorded, name them."""
    golden_fields = maps(task.fields.get("golden_fields"))
    recorded = [answer for answer in answers if answer is not None]
    facts = []
    for golden in golden_fields:
        for answer in (answer for answer in recorded if answer.tool == golden.get("tool")):
            for path in golden.get("fields") or ():
                value = recorded_value(answer.data, str(path))
                if value not in (None, ""):
                    text = value if isinstance(value, str) else compact_json(value)
                    facts.append(f"{path} = {on_one_line(text, MAX_FACT_CHARS)}")
    if facts:
        return {"text": "확인한 내용: " + "; ".join(facts)}
    names = "; ".join(
        f"{golden.get('tool')}의 {', '.join(map(str, golden.get('fields') or ()))}"
        for golden in golden_fields
    )
    return {"text": f"기록된 응답에서 찾지 못한 값: {names}" if names else "확인할 내용이 없습니다."}


def on_one_line(text: str, most: int) -> str:
    """Write a text on one line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def argument_problems(tool: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a call's arguments by the tool's own declaration."""
    if tool not in catalogue():
        return
    spec = korean_tools()[tool].spec
    declared = spec.parameters["properties"]
    for name in (name for name in args if name not in declared):
        hint = did_you_mean(name, declared)
        yield f"the tool has no parameter {name!r}{f'; {hint}' if hint else ''}"
    # What a placeholder stands for is not known here.
    open_names = {name for name, value in args.items() if PLACEHOLDER.search(str(value))}
    properties = {name: {} if name in open_names else rule for name, rule in declared.items()}
    known = replace(spec, parameters={**spec.parameters, "properties": properties})
    if wrong := invalid_arguments(known, args):
        yield wrong


PLANT_KINDS = frozenset({"preference", "constraint", "fact"})
_EXACT = re.compile(r"-?\d+\.\d{3,}")
# A name with a stock code of six digits behind it, as in 삼성전자(005930).
_NAMED_CODE = re.compile(r"([가-힣A-Za-z&]+)\((\d{6})\)")


def find_oddities(tasks: Sequence[SourceTask], cache: Cache) -> list[Finding]:
    texts_by_task: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for rule in (_fields, _tools, _arguments, _flows, _conversations):
            texts_by_task[task.id] += rule(task)
        if cache.entries:
            texts_by_task[task.id] += _unrecorded(task, cache)
    for id, number in Counter(task.id for task in tasks).items():
        if number > 1:
            texts_by_task[id].append(f"{number} tasks have this id; the first is taken")
    for id, text in (*_codes(tasks), *_categories(tasks)):
        texts_by_task[id].append(text)
    return [Finding(id, text) for id, texts in texts_by_task.items() for text in dict.fromkeys(texts)]


def _fields(task: SourceTask) -> Iterator[str]:
    """Compare the level, the steps, the argument schema and exact numbers, such as coordinates."""
    fields, golden_args = task.fields, task.golden[0].get("args") or {} if task.golden else {}
    level, least = fields.get("task_level"), fields.get("minimum_steps")
    if level != task.number:
        yield f"task_level is {'missing' if level is None else repr(level)} in the file of {task.level}"
    if task.level == "L3":
        yield from (
            f"{key} is missing" for key in ("minimum_steps", "essential_tools") if not fields.get(key)
        )
        if isinstance(least, int) and least < len(task.golden):
            yield f"minimum_steps is {least}, the golden path has {len(task.golden)} calls"
    schema = fields.get("arg_schema")
    if isinstance(schema, dict) and (extra := [name for name in golden_args if name not in schema]):
        yield f"arg_schema does not know these golden arguments: {', '.join(extra)}"
    in_question = {float(text) for text in _EXACT.findall(fields["instruction"])}
    other = [text for text in _EXACT.findall(canonical_json(golden_args)) if float(text) not in in_question]
    if in_question and other:
        yield f"golden arguments hold numbers that the question does not: {', '.join(other)}"


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
    calls = (*task.golden, *task.fallbacks, *_turn_calls(task))
    for tool in dict.fromkeys([*(task.fields.get("available_tools") or ()), *(c["tool"] for c in calls)]):
        if tool not in catalogue():
            yield f"there is no tool {tool}"


def _arguments(task: SourceTask) -> Iterator[str]:
    for what, calls in (("golden", task.golden), ("fallback", task.fallbacks), ("turn", _turn_calls(task))):
        for call in calls:
            for problem in argument_problems(call["tool"], call.get("args") or {}):
                yield f"{what} call {call['tool']}: {problem}"


def _flows(task: SourceTask) -> Iterator[str]:
    flows = maps(task.fields.get("data_flow"))
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


def _conversations(task: SourceTask) -> Iterator[str]:
    """Compare a conversation with its own marks, and its golden calls with those that its turns make."""
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
    for plant in maps((tracking.get("evaluation_context") or {}).get("context_plants")):
        if plant.get("type") not in PLANT_KINDS:
            yield f"context_plants: {plant.get('type')!r} is no kind of plant"
    role = (turn_at(task, declared_turn(task)) or {}).get("role")
    if role != "user":
        yield f"context_tests name turn {declared_turn(task)}, which is no user turn"
    in_turns = {_place(call) for call in _turn_calls(task)}
    for call in task.golden if task.level == "L6" else ():
        if _place(call) not in in_turns:
            yield f"no turn makes the golden call {call['tool']}({canonical_json(call.get('args') or {})})"


def _unrecorded(task: SourceTask, cache: Cache) -> Iterator[str]:
    """Find golden facts and flows that no recorded answer holds."""
    for golden in maps(task.fields.get("golden_fields")):
        tool = str(golden.get("tool"))
        for path in golden.get("fields") or ():
            if not any(recorded_value(answer.data, str(path)) is not None for answer in cache.of(tool)):
                yield f"golden_fields: no recorded answer of {tool} has {path}"
    calls = {call.get("step"): call["tool"] for call in task.golden}
    for flow in maps(task.fields.get("data_flow")):
        tool, name = calls.get(flow.get("from_step"), ""), str(flow.get("from_output"))
        answers = [call.data for call in cache.of(tool)]
        if not answers or any(recorded_value(data, name) is not None for data in answers):
            continue
        # A few will do: the answers of one tool are alike, and of some tools there are hundreds.
        names = set().union(*(_names(data) for data in answers[:20]))
        if name not in names:
            hint = did_you_mean(name, sorted(names))
            yield f"data_flow: no recorded answer of {tool} has {name!r}{f'; {hint}' if hint else ''}"


def _codes(tasks: Sequence[SourceTask]) -> Iterator[tuple[str, str]]:
    """Find stock codes that go under several names."""
    names: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for task in tasks:
        for name, code in _NAMED_CODE.findall(task.fields["instruction"]):
            names[code][name].append(task.id)
    for code, by_name in names.items():
        for name, ids in by_name.items():
            for id in ids if len(by_name) > 1 else ():
                others = ", ".join(f"{key} in {', '.join(by_name[key])}" for key in by_name if key != name)
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

"""Level 3: did values travel from one step's results into a later step's arguments?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from pytest_agenteval.graders.ko_agentbench.metric import Computed, Found, Metric, not_applicable
from pytest_agenteval.graders.ko_agentbench.payloads import valid
from pytest_agenteval.graders.ko_agentbench.task import KoTask
from pytest_agenteval.graders.ko_agentbench.trace import KoCall, KoTrace
from pytest_agenteval.graders.matching.folding import folded

Atom: TypeAlias = float | str

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_BETWEEN = re.compile(r"[,;|:]")
_INDEX = re.compile(r"\[-?[0-9]+\]")
_FLOW = ("from_step", "from_output", "to_step", "to_parameter")
LEAST_PART = 2


def data_flows(task: KoTask, trace: KoTrace) -> Found:
    """Give the share of the task's data flows whose value came from an earlier call's result."""
    flows = list({tuple(flow[key] for key in _FLOW): flow for flow in task.data_flow or ()}.values())
    if not flows:
        return not_applicable("the task has no data flow")
    lost = [flow for flow in flows if not _travelled(flow, task, trace)]
    if not lost:
        return Found(1.0, f"all {len(flows)} values came from earlier results")
    told = ", ".join(f"{flow['to_parameter']} of step {flow['to_step']}" for flow in lost)
    return Found(1 - len(lost) / len(flows), f"from no earlier result: {told}")


def _travelled(flow: Mapping[str, Any], task: KoTask, trace: KoTrace) -> bool:
    sources, targets = _tools(task, flow["from_step"]), _tools(task, flow["to_step"])
    for place, call in enumerate(trace.calls):
        if call.seeded or call.tool not in targets or flow["to_parameter"] not in call.args:
            continue
        earlier = [one for one in trace.calls[:place] if one.tool in sources and _before(one, call)]
        if any(_holds(one.result, flow["from_output"], call.args[flow["to_parameter"]]) for one in earlier):
            return True
    return False


def _tools(task: KoTask, step: int) -> set[str]:
    """Give the golden tools of a step; a path that numbers none has one in each place."""
    numbered = ((call.get("step"), place, call) for place, call in enumerate(task.golden_calls, 1))
    return {str(call["tool"]) for said, place, call in numbered if step == (place if said is None else said)}


def _before(source: KoCall, call: KoCall) -> bool:
    """Whether a call's result was known when another was made: not so within one reply of the model."""
    return valid(source) and (source.seeded or source.step is None or source.step != call.step)


def _holds(result: Any, output: str, value: Any) -> bool:
    """Whether a value comes from a result: from the output that is meant or, without that, from any."""
    named = list(_named(result, _keys(output)))
    given = [leaf for one in named for leaf in _leaves(one)]
    atoms = {atom for atom in map(_atom, given if named else _leaves(result)) if atom is not None}
    return any(_comes_from(one, atoms, within=bool(named)) for one in _leaves(value))


def _comes_from(value: Any, atoms: set[Atom], *, within: bool) -> bool:
    """Whether a value or a part of a joined one was known.

    Of the output that is meant, a phrase of it is enough in the value, and the value in a phrase of it.
    """
    if not atoms.isdisjoint(_parts(value)):
        return True
    if not within or not isinstance(value, str):
        return False
    text = folded(value)
    told = [atom for atom in atoms if isinstance(atom, str) and len(atom) >= LEAST_PART]
    return any(atom in text or (len(text) >= LEAST_PART and text in atom) for atom in told)


def _parts(value: Any) -> Iterator[Atom]:
    pieces = [value, *_BETWEEN.split(value)] if isinstance(value, str) else [value]
    for piece in pieces:
        atom = _atom(piece)
        if atom is not None:
            yield atom


def _atom(value: Any) -> Atom | None:
    """Give a number, also one written as text, or a folded text; truth values and nothing say too little."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _as_float(value)
    text = folded(_TAG.sub("", str(value)))
    return _as_float(text) if _NUMBER.fullmatch(text) else text or None


_TAG = re.compile(r"</?b>")
"""Search providers mark what was found."""


def _as_float(number: Any) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _keys(output: str) -> tuple[str, ...]:
    """Give the keys of an output's path; places in lists are any."""
    return tuple(key for key in _INDEX.sub("", output).split(".") if key)


def _named(value: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    """Give whatever stands at a key path that ends with these keys."""
    if not keys:
        return
    for path, inner in _paths(value, ()):
        if path[-len(keys) :] == keys:
            yield inner


def _paths(value: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give every value below a key with its path, a list's items under the list's own."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*above, key), inner
            yield from _paths(inner, (*above, key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _paths(inner, above)


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


@dataclass(frozen=True)
class KoProvAcc(Computed):
    """ProvAcc: which share of the values that should come from earlier results did?"""

    # A result may hold thousands of values.
    quick: ClassVar[bool] = False
    name: ClassVar[str] = "ko_prov_acc"
    metric: ClassVar[Metric] = Metric("ProvAcc", data_flows, None)

"""Whether arguments come from what earlier calls answered, and whether every source was used (L3, L4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from html import unescape
from typing import Any, ClassVar, TypeAlias

from pytest_agenteval import ABSENT, value_at
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoCall,
    KoTrace,
    MetricResult,
    has_data,
    is_meaningful_upstream,
    is_valid,
    naive_sum,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.text.json_values import fold_compact, loose_path

Likeness: TypeAlias = tuple[int, int]

UNLIKE: Likeness = (0, 0)
# A single letter stands in nearly every text.
LEAST_PART = 2
# The fewest digits after the point with which a shortened coordinate still names the same place.
LEAST_DIGITS = 3

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_BETWEEN = re.compile(r"[,;|:]")
# Search providers mark the words that matched with this tag.
_TAG = re.compile(r"</?b>")


def likeness(value: Any, sources: Iterable[Any], *, phrases: bool) -> Likeness:
    """Rank how well a value, or a part of a joined one, fits one of the sources.

    Equal beats everything. A number may be rounded or cut. With ``phrases``, a text may contain a source or
    be contained in it: the longer the common part, the better. Case, width and spaces make no difference.
    """
    atoms = {atom for atom in map(_atom, sources) if atom is not None}
    parts = list(_parts(value))
    if not atoms.isdisjoint(parts):
        return 2, 0
    ranks = [(1, 0) for part in parts for atom in atoms if _is_rounded(part, atom)]
    if phrases and isinstance(value, str):
        text = fold_compact(value)
        long_texts = [atom for atom in atoms if isinstance(atom, str) and len(atom) >= LEAST_PART]
        ranks += [(1, len(atom)) for atom in long_texts if atom in text]
        ranks += [(1, len(text)) for atom in long_texts if len(text) >= LEAST_PART and text in atom]
    return max(ranks, default=UNLIKE)


def leaves(value: Any) -> Iterator[Any]:
    """Give all values inside that are neither map nor list."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from leaves(inner)


def _parts(value: Any) -> Iterator[Decimal | str]:
    pieces = [value, *_BETWEEN.split(value)] if isinstance(value, str) else [value]
    yield from (atom for atom in map(_atom, pieces) if atom is not None)


def _atom(value: Any) -> Decimal | str | None:
    """Give a number, also from text, or a folded text; None for truth values and null, which fit anywhere."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _number(value)
    text = fold_compact(unescape(_TAG.sub("", str(value))))
    return _number(text) if _NUMBER.fullmatch(text) else text or None


def _number(value: Any) -> Decimal | None:
    """Read a number; None for what is not finite, and for what has more digits than anybody writes."""
    try:
        number = Decimal(str(value))
        return number.normalize() if number.is_finite() else None
    except (ValueError, ArithmeticError):
        return None


def _is_rounded(first: Decimal | str, other: Decimal | str) -> bool:
    """Whether two numbers are one number, written with more and with fewer digits behind the point."""
    if not isinstance(first, Decimal) or not isinstance(other, Decimal):
        return False
    short, long = sorted((first, other), key=_digits)
    if _digits(short) < LEAST_DIGITS:
        return False
    apart, last = abs(long - short), Decimal(1).scaleb(-_digits(short))
    cut = abs(short) <= abs(long) and apart < last and _digits(short) > LEAST_DIGITS
    return cut or apart <= last / 2


def _digits(number: Decimal) -> int:
    """Count the digits behind the point."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class KoProvAcc(ComputedGrader):
    """ProvAcc: which share of the values that should come from earlier results did?"""

    # The benchmark documents this metric, but removed it from its code.
    name: ClassVar[str] = "ko_prov_acc"
    # A result may hold thousands of values.
    quick: ClassVar[bool] = False

    def default(self, trace: KoTrace) -> MetricResult:
        # The data of the benchmark has one flow twice: it is one value all the same.
        keys = ("from_step", "from_output", "to_step", "to_parameter")
        flows = list({tuple(flow[key] for key in keys): flow for flow in self.data_flow or ()}.values())
        if not flows:
            return not_applicable("the task has no data flow")
        unmet = [flow for flow in flows if not _has_travelled(flow, self, trace)]
        if not unmet:
            return MetricResult(1.0, f"all {len(flows)} values came from earlier results")
        targets = ", ".join(f"{flow['to_parameter']} of step {flow['to_step']}" for flow in unmet)
        return MetricResult(1 - len(unmet) / len(flows), f"from no earlier result: {targets}")


def _has_travelled(flow: Mapping[str, Any], task: KoTask, trace: KoTrace) -> bool:
    sources, targets = _tools(task, flow["from_step"]), _tools(task, flow["to_step"])
    for place, call in enumerate(trace.calls):
        if call.seeded or call.tool not in targets or flow["to_parameter"] not in call.args:
            continue
        value = call.args[flow["to_parameter"]]
        for source in trace.calls[:place]:
            # A result is not known to the calls of the same reply.
            known = source.seeded or source.step is None or source.step != call.step
            if not known or source.tool not in sources or not is_valid(source):
                continue
            if _comes_from(source.result, flow["from_output"], value):
                return True
    return False


def _tools(task: KoTask, step: int) -> set[str]:
    """Give the golden tools of a step; a call without a number is the step of its place."""
    numbered = ((call.get("step"), place, call) for place, call in enumerate(task.golden_calls, 1))
    return {str(call["tool"]) for n, place, call in numbered if step == (place if n is None else n)}


def _comes_from(result: Any, output: str, value: Any) -> bool:
    """Whether a value comes from a result: from the output that is meant or, without that, from any.

    Where the output's path says which item of a list it is, another item's value is another one.
    """
    steps = loose_path(output)
    keys = tuple(step for step in steps if isinstance(step, str))
    everywhere = list(_values_at(result, keys)) if keys else [result] if steps else []
    if not everywhere:
        return any(likeness(leaf, leaves(result), phrases=False) != UNLIKE for leaf in leaves(value))
    # A path of places only is read from the top.
    at_top = value_at(result, steps)
    at_output = list(_values_at(result, steps)) if keys else [] if at_top is ABSENT else [at_top]
    for leaf in leaves(value):
        # None of the other values may fit it better than one of those that are meant.
        rank = likeness(leaf, leaves(at_output), phrases=True)
        if rank != UNLIKE and rank >= likeness(leaf, leaves(everywhere), phrases=True):
            return True
    return False


def _values_at(value: Any, steps: Path) -> Iterator[Any]:
    """Give the values whose path ends with these steps; list places that they leave out do not matter."""
    for path, inner in _paths(value, ()):
        if _ends_with(path, steps):
            yield inner


def _ends_with(path: Path, steps: Path) -> bool:
    """Whether a path ends with these steps; list places that they leave out are skipped, but not the last."""
    if type(path[-1]) is not type(steps[-1]):
        return False
    rest = list(path)
    for step in reversed(steps):
        while rest and isinstance(step, str) and isinstance(rest[-1], int):
            rest.pop()
        if not rest or rest.pop() != step:
            return False
    return True


def _paths(value: Any, above: Path) -> Iterator[tuple[Path, Any]]:
    """Give every value below a key or in a list with its path."""
    if isinstance(value, Mapping):
        inside: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    else:
        return
    for step, inner in inside:
        yield (*above, step), inner
        yield from _paths(inner, (*above, step))


@dataclass(frozen=True)
class KoCoverage(ComputedGrader):
    """Coverage: which share of the sources gave something?"""

    name: ClassVar[str] = "ko_coverage"

    def default(self, trace: KoTrace) -> MetricResult:
        tools = self.golden_tools
        if not tools:
            return not_applicable("the task names no source")
        covered = {call.tool for call in trace.own if has_data(call)}
        missing = [tool for tool in tools if tool not in covered]
        reason = f"gave nothing: {', '.join(missing)}" if missing else "every source gave something"
        return MetricResult(share(len(tools) - len(missing), len(tools)), reason)

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give the share of the golden tools with a successful result of a shape that its code knows."""
        tools = self.golden_tools
        productive = {call.tool for call in trace.own if call.tool in tools and _gave_upstream(call)}
        covered = [tool for tool in tools if tool in productive]
        details = {
            "required_tools": tools,
            "covered_tools": covered,
            "missing_tools": [tool for tool in tools if tool not in productive],
            "total_required": len(tools),
            "total_covered": len(covered),
        }
        score = len(covered) / len(tools) if tools else 1.0
        return MetricResult(score, f"{len(covered)} of {len(tools)}", details)


@dataclass(frozen=True)
class KoSourceEpr(ComputedGrader):
    """SourceEPR: which share of its calls gave something, over all sources?"""

    name: ClassVar[str] = "ko_source_epr"

    def default(self, trace: KoTrace) -> MetricResult:
        tools = self.golden_tools
        if not tools:
            return not_applicable("the task names no source")
        outcomes = {tool: [has_data(call) for call in trace.own if call.tool == tool] for tool in tools}
        # Over tools and not over calls: each source weighs the same, and one that was never called counts 0.
        mean = naive_sum(share(sum(good), len(good)) for good in outcomes.values() if good) / len(tools)
        counts = ", ".join(f"{tool} {sum(good)} of {len(good)}" for tool, good in outcomes.items())
        return MetricResult(mean, f"calls that gave something: {counts}")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Take the mean over sources of results of a shape that its code knows."""
        sources: dict[str, dict[str, Any]] = {}
        for tool in self.golden_tools:
            gave = [_gave_upstream(call) for call in trace.own if call.tool == tool]
            epr = sum(gave) / len(gave) if gave else 0.0
            sources[tool] = {"epr": epr, "total_calls": len(gave), "valid_calls": sum(gave)}
            if not gave:
                sources[tool]["reason"] = "the tool was not called"
        mean = naive_sum(source["epr"] for source in sources.values()) / len(sources) if sources else 1.0
        # As in its report: details have four digits, and the score has all.
        details = {"source_eprs": sources, "average_epr": round(mean, 4), "total_sources": len(sources)}
        for source in sources.values():
            source["epr"] = round(source["epr"], 4)
        return MetricResult(mean, f"the mean of {len(sources)} sources", details)


def _gave_upstream(call: KoCall) -> bool:
    # The trace that the benchmark evaluates has lost the errors of calls, so only the flag counts.
    return bool(call.success) and is_meaningful_upstream(call.result)

"""Records are plain data: copied, pickled, hashed, taken apart, and as JSON both ways."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.records.evidence import Answer, Evidence, Grade
from pytest_agenteval.records.plan import Model, Plan, PlannedTask
from pytest_agenteval.records.record import NOTHING, FrozenMap, Record
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.records.truncation import truncated_answer, truncated_grade
from pytest_agenteval.text.errors import UsageMistake
from tests.records.test_plans_travel import plans
from tests.store.samples import FULL, TRIALS, trial

MINIMAL = Plan(PlannedTask("s", "t", "a", "mixed", "b", ()), Model("m", "m"))
EVIDENCE = TRIALS.map(lambda some: Evidence({"content": "hi"}, some.transcript, some.outcome))


def held(value: Any) -> Iterator[Record]:
    """Give a record and every record in it."""
    if isinstance(value, Record):
        yield value
        for each in dataclasses.fields(value):
            yield from held(getattr(value, each.name))
    elif isinstance(value, tuple):
        for inner in value:
            yield from held(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from held(inner)


def travels(record: Record) -> None:
    """See that a record comes back equal from wherever it may be sent."""
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert type(record).from_json(json.loads(json.dumps(record.to_json()))) == record
    assert hash(copy.deepcopy(record)) == hash(record)
    assert json.loads(json.dumps(dataclasses.asdict(record))) is not None
    assert dataclasses.replace(record) == record


@pytest.mark.parametrize(
    "whole", [MINIMAL, trial(), FULL, ToolSpec("t")], ids=["plan", "plain", "full", "tool"]
)
def test_every_record_can_be_copied_sent_and_written(whole: Record) -> None:
    """Each by itself, with nothing filled in or with everything."""
    for record in held(whole):
        travels(record)


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(plans | TRIALS | EVIDENCE)
def test_any_plan_trial_and_evidence_comes_back_equal(some: Record) -> None:
    """Whatever they hold."""
    travels(some)


def test_json_of_a_newer_version_is_refused() -> None:
    """A guess would change what is done, or what was found."""
    with pytest.raises(UsageMistake, match="Plan in form 2: this pytest-agenteval knows only 1"):
        Plan.from_json({**MINIMAL.to_json(), "v": 2})
    with pytest.raises(TypeError, match="surprise"):
        Trial.from_json({**trial().to_json(), "surprise": 1})


def test_what_json_does_not_know_is_written_as_text() -> None:
    """As in a run's files: the record can be sent all the same, and what is read is written alike again."""
    odd = ToolCall("c", 1, 0, "t", {"n": float("nan")}, result={1: {"b", "a"}, "t": (1, Answer)})
    data = json.loads(json.dumps(odd.to_json(), allow_nan=False))
    assert data["args"] == {"n": "NaN"}
    assert data["result"] == {"1": ["a", "b"], "t": [1, repr(Answer)]}
    assert ToolCall.from_json(data).to_json() == data


def test_a_view_of_a_map_becomes_a_map_where_it_enters() -> None:
    """Somebody's read-only view, at any depth, would keep the trial from being copied or sent."""
    view: Any = MappingProxyType({"a": [MappingProxyType({"b": 1})]})
    grade, answer = truncated_grade(Grade("g", 1.0, "", details=view)), truncated_answer(Answer("", view))
    assert grade.details == answer.state == {"a": [{"b": 1}]}
    travels(grade)
    travels(answer)


@given(st.dictionaries(st.text(), st.integers()))
def test_a_frozen_map_is_a_dict_that_cannot_be_changed(content: dict[str, Any]) -> None:
    """Equal, and equal after every way of sending it; each way to change it is refused."""
    frozen = FrozenMap(content)
    assert frozen == content
    assert (
        pickle.loads(pickle.dumps(frozen))
        == copy.deepcopy(frozen)
        == json.loads(json.dumps(frozen))
        == content
    )
    assert hash(frozen) == hash(FrozenMap(content))
    changes: list[Any] = [
        lambda: frozen.update(a=1),
        lambda: frozen.__setitem__("a", 1),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.setdefault("a", 1),
        lambda: frozen.__ior__({"a": 1}),
        frozen.clear,
        frozen.popitem,
        lambda: frozen.pop("a"),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert (type(frozen.copy()), frozen.copy()) == (dict, content)
    assert {**NOTHING} == {}

"""A trial's digests tell what it was made of: each moves with its own part, and with no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.engine.digests import DigestCache
from pytest_agenteval.graders.grader import Judge, trait_of
from pytest_agenteval.records.evidence import Evidence, Grade
from pytest_agenteval.records.plan import Allowance, Conditions, Model, Plan, PlannedGrader, Variant
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.registry.registry import Registry
from tests.engine.executing import execute, plan, registry

ASKS = {"text": "Mina"}


def plan_with_grader(**more: Any) -> Plan:
    """Plan a trial whose one grader differs in these settings."""
    return plan("t", PlannedGrader("answer_contains", "answer", more.pop("config", ASKS), **more))


def changed_digests(*plans: Plan) -> set[str]:
    """Carry out two plans in one process, and give the digests in which they differ."""
    one, other = (asdict(trial.digests) for trial in execute(registry(), *plans))
    return {name for name in one if one[name] != other[name]}


CHANGES = {
    "input": (plan(input={"content": "Say hello to Omar."}), {"input"}),
    "agent's settings": (plan(settings={"system": "Be brief."}), {"settings", "sent"}),
    "clock": (plan(clock="2026-09-17T20:30:00+00:00"), {"settings"}),
    "limits": (plan(limits=Allowance(steps=11)), {"settings"}),
    "on_miss": (plan(on_miss="tool_error"), {"settings"}),
    "a task's prompt": (plan(prompts={"system": "Be brief."}), {"prompt", "sent"}),
    "a variant's prompt": (
        replace(plan(), variant=Variant("v", {"system": "Be brief."})),
        {"prompt", "sent"},
    ),
    "a grader's configuration": (plan_with_grader(config={"text": "Hello"}), {"ruler", "graders"}),
    "a grader's threshold": (plan_with_grader(threshold=0.5), {"ruler", "graders"}),
    "a grader's weight": (plan_with_grader(weight=2.0), {"ruler", "graders"}),
    "a model's parameters": (
        replace(plan(), model=Model("scripted", "scripted", offline=True, params={"temperature": 0})),
        {"model"},
    ),
    "nothing but its names": (plan("other", tags=("x",), description="y"), set()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_moves_its_own_digest_and_no_other(what: str) -> None:
    """Runs are compared by what differs between them: a digest that stays or strays would lie about it."""
    changed, digests = CHANGES[what]
    assert changed_digests(plan(), changed) == digests


def test_a_starting_tree_moves_the_fixture_digest_by_its_content(tmp_path: Path) -> None:
    """Where a tree lies does not matter; what it holds does."""
    for name, text in (("a", "one"), ("same", "one"), ("other", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.md").write_text(text)

    def at(name: str) -> Plan:
        return plan(layers=(str(tmp_path / name),))

    assert changed_digests(at("a"), at("same")) == set()
    assert changed_digests(at("a"), at("other")) == {"fixture"}


class Asks:
    """A grader that is given judges, and needs none to say yes."""

    def with_judges(self, judges: Sequence[Judge]) -> Asks:
        """Take them."""
        return self

    def grade(self, evidence: Evidence) -> Grade:
        """Say yes."""
        return Grade("asks", 1.0, "yes")


@pytest.mark.parametrize(("grader", "expected"), [("asks", {"ruler", "graders"}), ("answer_contains", set())])
def test_judges_are_part_of_the_ruler_of_those_who_ask_them(grader: str, expected: set[str]) -> None:
    """Other judges are another ruler; a grader that asks nobody measures the same with any."""
    planned = PlannedGrader(grader, grader, ASKS if grader == "answer_contains" else {})
    one, other = (
        plan("t", planned, conditions=Conditions(judges=(Model("scripted", "scripted", True, params),)))
        for params in ({}, {"temperature": 0})
    )
    trials = execute(registry(asks=Asks), one, other)
    first, second = (asdict(trial.digests) for trial in trials)
    assert {name for name in first if first[name] != second[name]} == expected


class Third:
    """A grader of which there were two versions before."""

    version = "3"

    def grade(self, evidence: Evidence) -> Grade:
        """Say yes."""
        return Grade("third", 1.0, "yes")


def test_each_grader_has_its_version_and_a_digest_of_its_own() -> None:
    """A comparison names the grader that differs: the others' entries stay, and trials share one map."""
    mina, omar = (PlannedGrader("answer_contains", "name", {"text": text}) for text in ("Mina", "Omar"))
    third, no_grader = PlannedGrader("third", "third"), PlannedGrader("third", "none", {"odd": 1})
    known = registry(third=Third)
    one, same, other = execute(known, *(plan("t", name, third, no_grader) for name in (mina, mina, omar)))

    first, second = one.digests.graders, other.digests.graders

    assert {label: entry.partition(":")[0] for label, entry in first.items()} == {
        "name": mina_version(known),
        "third": "3",
        "none": "",
    }
    assert all(re.fullmatch("[^:]*:[0-9a-f]{12}", entry) for entry in first.values())
    assert same.digests.graders == first
    assert {label for label in first if first[label] != second[label]} == {"name"}


def mina_version(known: Registry) -> str:
    """Give the version of the shipped grader that looks for the name."""
    return str(trait_of(known.grader_factory("answer_contains"), "version"))


def test_what_trials_share_is_worked_out_once() -> None:
    """Each trial has a tuple of its own of the suite's tools; equal tools of another suite are others."""
    cache, worked_out = DigestCache(), list[str]()
    add, other = ToolSpec("add"), ToolSpec("add")

    def once(specs: tuple[ToolSpec, ...]) -> str:
        return cache.once("tools", specs, lambda: worked_out.append("again") or f"digest {len(worked_out)}")

    assert [once((add, other)), once((add, other))] == ["digest 1"] * 2
    assert [once((other, add)), once((add,)), once((other,))] == ["digest 2", "digest 3", "digest 4"]

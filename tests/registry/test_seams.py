"""What a benchmark can register beside agents, models, graders and tools, and how it is found again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.registry.lazy_names import NotImported, UnknownName
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import UsageMistake

RUBRIC = """---
name: {name}
version: 1
scale: {{low: 0, high: 1}}
dimensions: {{kind: is it kind?}}
combine: mean
shows: {{answer: the answer}}
output: answer
---
{{{{ answer }}}}
"""
LATE = "a_benchmark_of_nobody.parts:thing"
TAKES: dict[str, Callable[[Registry, Any], None]] = {
    "agent": lambda registry, claim: registry.agent("x", claim),
    "model": lambda registry, claim: registry.model("x", claim),
    "grader": lambda registry, claim: registry.grader("x", claim),
    "player of the tool": lambda registry, claim: registry.rules_player("x", claim),
    "file writer of the agent": lambda registry, claim: registry.file_writer("x", claim, path="p", text="t"),
    "importer": lambda registry, claim: registry.importer("x", claim),
    "report format": lambda registry, claim: registry.report_format("x", claim),
    "executor": lambda registry, claim: registry.executor("x", claim),
    "toolset": lambda registry, claim: registry.toolset("x", [claim]),
    "judge panel": lambda registry, claim: registry.judge_panel("x", [claim]),
    "scorecard": lambda registry, claim: registry.scorecard("x", claim, graders={"g"}),
}
FINDS: dict[str, Callable[[Registry], Any]] = {
    "agent": lambda registry: registry.agent_factory("x"),
    "model": lambda registry: registry.model_factory("x"),
    "grader": lambda registry: registry.grader_factory("x"),
    "player of the tool": lambda registry: registry.player_of(["x"]),
    "importer": lambda registry: registry.importer_named("x"),
    "report format": lambda registry: registry.report_format_named("x"),
    "executor": lambda registry: registry.executor_factory("x"),
    "scorecard": lambda registry: registry.scorecards()[0].load(),
}


@pytest.mark.parametrize("kind", TAKES)
def test_a_name_of_a_kind_is_taken_once(kind: str) -> None:
    """The second claim is refused, and both places are shown."""
    registry = Registry()
    TAKES[kind](registry, LATE)
    here = rf"{Path(__file__).name}:\d+"
    with pytest.raises(
        UsageMistake, match=rf"the {kind} name 'x' is taken: by .*{here}, and again by .*{here}"
    ):
        TAKES[kind](registry, LATE)


@pytest.mark.parametrize("kind", FINDS)
def test_a_text_is_imported_when_its_name_is_first_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then nothing of the benchmark is; what cannot be imported then is said with who registered it."""
    (tmp_path / "late_benchmark.py").write_text(
        "class Thing:\n    help = ''\n    def run(self): ...\n"
        "    def grade(self): ...\n    add_arguments = run\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late_benchmark", raising=False)
    registry, broken = Registry(), Registry()
    TAKES[kind](registry, "late_benchmark:Thing")
    TAKES[kind](broken, LATE)
    assert "late_benchmark" not in sys.modules
    thing = FINDS[kind](registry)
    assert "Thing" in (getattr(thing, "__name__", ""), type(thing).__name__)
    with pytest.raises(
        NotImported, match=rf"'{LATE}', which .*:\d+ registered as the {kind} 'x', to be imported"
    ):
        FINDS[kind](broken)


@pytest.mark.parametrize("kind", sorted(FINDS.keys() - {"player of the tool", "scorecard"}))
def test_an_unknown_name_says_which_are_known(kind: str) -> None:
    """And which one is near; where there are none, that."""
    with pytest.raises(UnknownName, match=rf"unknown {kind} 'x'; there are none"):
        FINDS[kind](Registry())


def test_what_installed_benchmarks_offer_is_asked_for_once_and_late() -> None:
    """Before the first look-up, not before; names that were registered meanwhile stand beside theirs."""
    asked: list[Registry] = []

    def discover(registry: Registry) -> None:
        asked.append(registry)
        registry.judge_panel("theirs", ["a/b"])
        assert "theirs" in registry.judge_panels

    registry = Registry(discover)
    registry.judge_panel("ours", ["c/d", "e/f"])
    assert asked == []
    assert registry.judge_panels == {"ours": ("c/d", "e/f"), "theirs": ("a/b",)}
    assert registry.offline_models == frozenset()
    assert asked == [registry]


def test_rubrics_of_a_folder_have_the_names_of_their_files(tmp_path: Path) -> None:
    """They are read when asked for by name; a name of two folders is refused."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kindness.jinja").write_text(RUBRIC.format(name="kindness"), encoding="utf-8")
    (tmp_path / "a" / "broken.jinja").write_text("no rubric", encoding="utf-8")
    registry = Registry()
    registry.rubrics(tmp_path / "a")
    assert registry.rubric_names == ("broken", "kindness")
    assert registry.rubric("kindness").names == ("kind",)
    with pytest.raises(UnknownName, match=r"unknown rubric 'kindnes'; .*did you mean 'kindness'"):
        registry.rubric("kindnes")
    registry.rubrics(tmp_path / "b")
    for _ in range(2):
        with pytest.raises(UsageMistake, match="the rubric name 'kindness' is taken"):
            _ = registry.rubric_names


def test_files_are_named_by_path_or_below_a_package(tmp_path: Path) -> None:
    """``package:path`` is found without importing the package; one that is not there is said."""
    registry = Registry()
    registry.toolset("both", [tmp_path / "t.yaml", "xdist:scheduler/t.yaml"])
    mine, theirs = registry.toolsets["both"]
    assert mine == tmp_path / "t.yaml"
    assert theirs.parts[-3:] == ("xdist", "scheduler", "t.yaml")
    registry.toolset("lost", ["no_such_package:t.yaml"])
    assert list(registry.toolsets) == list(registry.toolsets) == ["both"]
    (line,) = registry.broken_benchmarks
    assert "the toolset 'lost' cannot be used: expected a package in 'no_such_package:t.yaml'" in line


def test_a_name_that_a_benchmark_takes_again_is_said_at_every_look_up() -> None:
    """Not only at the first: who asks later must not take the names that are missing for misspelt ones."""

    def discover(registry: Registry) -> None:
        registry.judge_panel("mine", ["a/b"])

    registry = Registry(discover)
    registry.judge_panel("mine", ["c/d"])
    for _ in range(2):
        with pytest.raises(UsageMistake, match="the judge panel name 'mine' is taken"):
            registry.agent_factory("tiny")
    assert registry.broken_benchmarks == ()


@pytest.mark.parametrize("importer", [5, object, "textwrap:dedent"])
def test_what_is_no_importer_is_told_when_its_name_is_used(importer: Any) -> None:
    """In one line that says what is missing."""
    registry = Registry()
    registry.importer("x", importer)
    with pytest.raises(
        UsageMistake, match=r"expected an importer with help, add_arguments and run; found .* without help"
    ):
        registry.importer_named("x")


def test_a_reference_without_a_colon_is_told_as_such() -> None:
    """And not as a module that is missing."""
    registry = Registry()
    registry.grader("x", "textwrap.dedent")
    with pytest.raises(NotImported, match="found no ':' between the module and the name in it"):
        registry.grader_factory("x")

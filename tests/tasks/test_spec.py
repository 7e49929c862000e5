"""What authors may write, and what it means."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.tasks.documents import ParsedDocument
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_spec import FaultSpec, GraderSpec, Limits, ReferenceSolution, Task
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of

LEAST: dict[str, Any] = {"id": "a", "input": {"content": "x"}, "graders": [{"name": "n"}]}


def task(**more: Any) -> Task:
    """Give a task that is read."""
    return spec_of(Task, {**LEAST, **more})


def refusals(model: type[Any], value: Any) -> list[tuple[str | int, ...]]:
    """Give what is said of a text that is refused."""
    with pytest.raises(SpecRefused):
        spec_of(model, value)
    found = problems_of(model, value, ParsedDocument(Path("task.yaml"), "", value))
    return [problem.path for problem in found.problems]


def test_a_memex_task_is_read_with_its_meaning() -> None:
    """Every field that a Memex task.json has is accepted, and nothing of it is lost."""
    read = spec_of(
        Task,
        {
            "id": "card_event",
            "description": "A meeting.",
            "trials_per_run": 2,
            "timeout_seconds": 240,
            "metadata": {
                "failure_bucket": "template_event",
                "difficulty": 3,
                "live": True,
                "none": None,
                "of": [1],
            },
            "input": {"fact_id": "2026/05/25.md#ts_1", "content": "", "fixture_dir": "tasks/x/workspace"},
            "reference_solution": {
                "source": "manual",
                "expected_outcome": {"completed": True},
                "sampleTranscript": [{"role": "user"}],
            },
            "graders": [
                {"name": "card_completion"},
                {"name": "card_must_contain", "config": {"substrings": ["x"]}},
            ],
        },
    )

    assert (read.id, read.description, read.trials_per_run, read.timeout_seconds) == (
        "card_event",
        "A meeting.",
        2,
        240.0,
    )
    assert read.metadata == {
        "failure_bucket": "template_event", "difficulty": "3", "live": "true", "none": "null", "of": "[1]"
    }  # fmt: skip
    assert read.input["fixture_dir"] == "tasks/x/workspace"
    assert read.graders[1].config == {"substrings": ["x"]}
    assert read.reference_solution == ReferenceSolution(
        source="manual", expected_outcome={"completed": True}, sample_transcript=[{"role": "user"}]
    )


def test_a_memex_suite_is_read_with_its_meaning() -> None:
    """Every field that a Memex suite.json has is accepted, in Memex's spelling and in ours."""
    theirs = {"name": "s", "agent_name": "card", "requireReferenceSolution": True, "taskPassThreshold": 0.5}
    ours = {"name": "s", "agent": "card", "require_reference_solution": True, "task_pass_threshold": 0.5}

    assert spec_of(Suite, theirs) == spec_of(Suite, ours) == spec_of(Suite, {**theirs, **ours})
    assert spec_of(Suite, {"name": "s"}).kind == "mixed"


def test_two_spellings_that_differ_are_refused() -> None:
    """Which of the two counts is not guessed, and other mistakes of the file are still seen."""
    value = {"name": "s", "agent": "a", "agent_name": "b", "kind": "odd"}

    assert refusals(Suite, value) == [("agent_name",), ("kind",)]


def test_what_is_not_said_has_its_default() -> None:
    """The smallest task says who it is, what is given and how it is graded."""
    read = task()

    assert read.graders == (
        GraderSpec(name="n", config={}, weight=1.0, threshold=None, require=False, label=None),
    )
    assert (read.split, read.limits, read.trials_per_run, read.script) == ("dev", Limits(), None, None)
    assert read.reference_solution is None
    assert task(reference_solution=None).reference_solution is None


def test_a_script_says_what_the_model_answers_calls_and_costs() -> None:
    """Arguments are a map, or a text that the model sends in place of JSON."""
    entry = {
        "text": "hm",
        "calls": [{"tool": "t", "args": {"a": 1}}, {"tool": "u", "args": "{oops"}],
        "seconds": 1.5,
    }
    read = task(script=[entry, {"input_tokens": 3, "output_tokens": 0}]).script

    assert read is not None
    assert [call.args for call in read[0].calls] == [{"a": 1}, "{oops"]
    assert (read[0].seconds, read[1].input_tokens, read[1].text, read[1].calls) == (1.5, 3, "", ())


@pytest.mark.parametrize("source", ["manual", "captured", "synthesized", "dreamt"])
def test_an_unknown_source_means_manual(source: str) -> None:
    """Memex reads unknown sources as manual."""
    expected = "manual" if source == "dreamt" else source

    assert spec_of(ReferenceSolution, {"source": source}).source == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        *(("id", f"a{char}b") for char in " /\\:[]\n\u3000"),
        ("id", 3),
        ("input", " "),
        ("input", None),
        ("graders", []),
        ("graders", {"name": "n"}),
        ("graders", [{"name": "n", "weight": 0}]),
        ("graders", [{"name": "n", "weight": "2"}]),
        ("graders", [{"name": "n", "weight": True}]),
        ("graders", [{"name": "n", "threshold": 1.1}]),
        ("graders", [{"name": "n", "require": "true"}]),
        ("graders", [{"name": "n", "label": " "}]),
        ("graders", [{"name": "n", "config": []}]),
        ("trials_per_run", 0),
        ("trials_per_run", 2.0),
        ("trials_per_run", True),
        ("timeout_seconds", 0),
        ("limits", {"steps": 0}),
        ("limits", {"cost_usd": -1}),
        ("limits", {"minutes": 1}),
        ("clock", "2026-05-25"),
        ("clock", "2026-13-25T09:00:00"),
        ("clock", "yesterday"),
        ("tags", ["a b"]),
        ("tags", [""]),
        ("tags", "a"),
        ("split", "test"),
        ("script", [{"calls": [{"args": {}}]}]),
        ("script", [{"calls": [{"tool": "t", "args": [1]}]}]),
        ("script", [{"seconds": -1}]),
        ("script", [{"seconds": float("nan")}]),
        ("prompts", {"system": 3}),
        ("settings", None),
        ("reference_solution", {"turns": [{"seconds": 1}]}),
        ("metadata", ["x"]),
        ("unheard_of", 1),
    ],
)
def test_what_cannot_be_meant_is_refused(field: str, value: Any) -> None:
    """Nothing is converted in silence: text is no number, 2.0 no count, true no weight."""
    places = refusals(Task, {**LEAST, field: value})

    assert {place[0] for place in places} == {field}


@pytest.mark.parametrize(
    "clock",
    ["2026-05-25T09:00:00", "2026-05-25 09:00", "2026-05-25T09:00:00Z", "2026-05-25T09:00:00.250+09:00"],
)
def test_a_clock_is_kept_as_it_was_written(clock: str) -> None:
    """Only its form is checked here; who sets the clock reads it."""
    assert task(clock=clock).clock == clock


def test_graders_of_one_name_are_told_apart_by_label() -> None:
    """The same grader may look twice, with different settings, under different labels."""
    read = task(graders=[{"name": "n"}, {"name": "n", "label": "other"}])

    assert [one.title for one in read.graders] == ["n", "other"]


def test_tags_may_repeat() -> None:
    """Saying a thing twice is no mistake."""
    assert task(tags=["a", "a"]).tags == ("a", "a")


@pytest.mark.parametrize("model", ["claude", ["claude"]])
def test_a_suite_names_one_model_or_several(model: Any) -> None:
    """A single name needs no list."""
    assert spec_of(Suite, {"name": "s", "defaults": {"model": model}}).defaults.models == ("claude",)


def test_values_are_frozen() -> None:
    """A task cannot change under the trials that run it."""
    with pytest.raises(AttributeError):
        task().id = "b"  # type: ignore[misc]  # that is the point


def test_ten_thousand_tasks_are_cheap() -> None:
    """A task costs at most 40 microseconds and 2 KiB."""
    values = [{**LEAST, "id": f"task_{n}", "input": {"content": f"text {n}"}} for n in range(2000)]
    best = min(_seconds(values) for _ in range(3))
    tracemalloc.start()
    tasks = [spec_of(Task, value) for value in values]
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert best / len(values) < 40e-6
    assert used / len(tasks) < 2048


def _seconds(values: list[dict[str, Any]]) -> float:
    start = time.process_time()
    for value in values:
        spec_of(Task, value)
    return time.process_time() - start


def test_a_fault_strikes_from_the_first_call_on() -> None:
    """Calls are let through first only where the task says how many."""
    assert spec_of(FaultSpec, {"tool": "weather", "type": "timeout"}).after == 0

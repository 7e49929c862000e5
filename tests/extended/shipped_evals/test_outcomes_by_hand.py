"""Right outcomes of the card and PKM evals pass and wrong ones are seen, as people wrote both down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.plan import PlannedTask
from pytest_agenteval.records.trial import Trial
from tests.extended.shipped_evals.acting_out import (
    FACT_MARK,
    Acted,
    Turns,
    acted_out,
    call,
    calls,
    fact_of,
    new_text,
    tasks,
    turns_of,
)
from tests.yaml_files import read_yaml

RIGHT = read_yaml(Path(__file__).parent / "right_answers.yaml")
BY_HAND = read_yaml(Path(__file__).parent / "outcomes_by_hand.yaml")
ANY_INSIGHT = "A thought that ties this to what stood there before."


def _calls(outcome: Mapping[str, Any], task: PlannedTask) -> Iterator[dict[str, Any]]:
    fact = fact_of(task)
    if "title" in outcome:
        templates = [pair for pair_map in outcome["templates"] for pair in pair_map.items()]
        configs = [{"template_id": id, "data": data} for id, data in templates]
        yield call("save_timeline_card", fact_id=fact, title=outcome["title"], ui_configs=configs)
        return
    for change in outcome.get("do", ()):
        yield from _change(change, FACT_MARK.format(fact))
    insight = outcome.get("insight", None if "skip" in outcome else ANY_INSIGHT)
    if insight is not None:
        yield call("update_timeline_card_insight", fact_id=fact, insight_text=insight)
    if "skip" in outcome:
        yield call("skip_pkm_organization", evidence=outcome["skip"])


def _change(change: Mapping[str, str], mark: str) -> Iterator[dict[str, Any]]:
    for kind in ("in", "move", "remove"):
        if kind in change:
            yield call("Read", file_path=f"/{change[kind]}")
    if "in" in change:
        old = change.get("old", change.get("after", ""))
        new = change["new"] if "old" in change else old + change["add"]
        yield call("Edit", file_path=f"/{change['in']}", old_string=old, new_string=new.replace("@", mark))
    elif "write" in change:
        yield call("Write", file_path=f"/{change['write']}", content=change["text"].replace("@", mark))
    elif "move" in change:
        yield call("Move", source_path=f"/{change['move']}", destination_path=f"/{change['to']}")
    else:
        yield call("Remove", path=f"/{change['remove']}", confirm=True)


@pytest.fixture(scope="module")
def left_behind() -> list[tuple[Mapping[str, Any], Trial]]:
    """Act out every outcome."""
    by_id = {task.id: task for suite in ("card", "pkm") for task in tasks(suite)}
    acted = [
        Acted(task, [{"calls": [tool_call]} for tool_call in _calls(outcome, task)])
        for outcome in BY_HAND
        for task in [by_id[outcome["task"]]]
    ]
    return list(zip(BY_HAND, acted_out(acted), strict=True))


def test_outcomes_are_what_people_say_they_are(left_behind: list[tuple[Mapping[str, Any], Trial]]) -> None:
    """Every right outcome passes, in whatever words and spellings; every wrong one misses."""
    failed = [
        str(tool_call) for _, trial in left_behind for tool_call in trial.transcript.calls if tool_call.error
    ]
    wrong = {
        f"{number}: {outcome['task']}": [trial.ending, *_why(trial)]
        for number, (outcome, trial) in enumerate(left_behind)
        if trial.ending != {"right": "passed", "wrong": "missed"}[outcome["is"]]
    }

    assert len(left_behind) >= 200
    assert failed == []
    assert wrong == {}


def _why(trial: Trial) -> list[str]:
    return [f"{grade.grader}: {grade.rationale}" for grade in trial.grades if grade.passed is False]


def _other_notes(task: PlannedTask, texts: Sequence[str]) -> Turns:
    turns, left = turns_of(task), iter(texts)
    mark = FACT_MARK.format(fact_of(task))
    for tool_call in calls(turns, "Edit", "Write"):
        text = next(left).replace("@", mark) if mark in new_text(tool_call) else ""
        if not text:
            # A second place in the same file, which no entry needs.
            tool_call["tool"], tool_call["args"] = "Read", {"file_path": tool_call["args"]["file_path"]}
        elif tool_call["tool"] == "Write":
            tool_call["args"]["content"] = text
        else:
            old = tool_call["args"]["old_string"]
            whole = old.strip() in text
            tool_call["args"]["new_string"] = (
                text if whole else old + ("" if old.endswith("\n") else "\n") + text
            )
    assert not [*left]
    return turns


@pytest.fixture(scope="module")
def right() -> list[tuple[str, Trial]]:
    """Act out right answers that no reference gives."""
    by_id = {task.id: task for suite in ("card", "pkm") for task in tasks(suite)}
    acted = []
    for outcome in RIGHT["notes"]:
        task = by_id[f"pkm_{outcome['task']}"]
        acted.append(Acted(task, _other_notes(task, outcome["texts"])))
    for outcome in RIGHT["cards"]:
        task = by_id[f"card_{outcome['task']}"]
        turns = turns_of(task)
        next(calls(turns, "save_timeline_card"))["args"].update(
            title=outcome["title"], ui_configs=outcome["templates"]
        )
        acted.append(Acted(task, turns))
    return [(outcome.task.id, trial) for outcome, trial in zip(acted, acted_out(acted), strict=True)]


def test_right_answers_in_other_words_pass(right: list[tuple[str, Trial]]) -> None:
    """Other words, spellings of dates and numbers, orders and forms: what is right is not taken for wrong."""
    wrong = {
        id: [f"{grade.grader}: {grade.rationale}" for grade in trial.grades if grade.passed is False]
        or [trial.ending, trial.message]
        for id, trial in right
        if trial.ending != "passed"
    }

    assert len(right) >= 50
    assert wrong == {}

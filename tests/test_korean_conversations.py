"""The Korean tasks with faults and conversations: right runs of other kinds pass, and hedging does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.cassettes import Library
from pytest_agenteval.cassettes.interaction import text_of
from pytest_agenteval.graders.outcome import AnswerMatches
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.sets import packaged
from pytest_agenteval.tools.tape import ToolTape
from tests.graders.sample_evidence import left

ROOT = Path(__file__).parent.parent
LEVELS = ("L5", "L6", "L7")
TOOLS = packaged("ko_agentbench")
HELD = Library(ROOT)
AROUND = re.compile(r"/(?:category|keyword|around)\b.*[?&]radius=([1-9]\d*)")
DISTANCE = re.compile(r'"(?:distance|radius)": "(\d[\d.]*)"')


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


SAID = _read(Path(__file__).parent / "ko_evals" / "later_answers.yaml")
ASKED = _read(Path(__file__).parent / "ko_evals" / "later_calls.yaml")
NAMES = sorted(file.stem for level in LEVELS for file in (ROOT / "evals" / "ko" / level).iterdir())


@cache
def _task(name: str) -> Any:
    return _read(ROOT / "evals" / "ko" / name[:2] / f"{name}.yaml")


def _tape(name: str) -> ToolTape:
    held = HELD.open(Path("cassettes", "ko", name[:2], f"{name}.yaml"), "none", "tool")
    return ToolTape(held, retry_command="")


def _passes(name: str, answer: str) -> bool:
    (facts,) = (one for one in _task(name)["graders"] if one["name"] == "answer_matches")
    return AnswerMatches(**facts["config"]).grade(left(answer=answer)).score == 1.0


def test_each_of_these_tasks_has_answers_in_other_words() -> None:
    """A task without them is a task whose words nobody tried."""
    assert sorted(SAID) == NAMES


@pytest.mark.parametrize("name", SAID)
def test_a_fact_is_found_in_other_words(name: str) -> None:
    """Units, honorifics, tables, bold type, other orders: the fact is the same."""
    assert [answer for answer in SAID[name]["right"] if not _passes(name, answer)] == []


@pytest.mark.parametrize("name", SAID)
def test_another_fact_is_not_found(name: str) -> None:
    """Nor do the wrong direction, all candidates in place of one, what was guessed, and giving up pass."""
    assert [answer for answer in SAID[name]["wrong"] if _passes(name, answer)] == []


@pytest.mark.parametrize("name", ASKED)
def test_a_call_of_a_right_run_is_answered(name: str) -> None:
    """Other search words, radii and sizes, and all defaults written out, find a recording."""
    tape, missing = _tape(name), []
    for number, (tool, args) in enumerate(item for call in ASKED[name] for item in call.items()):
        assert tool in _task(name)["settings"]["tools"]
        found = tape.play(ToolCall("c", 1, number, tool, args), TOOLS[tool])
        if found is None or found.error is not None:
            missing.append((tool, args))
    assert missing == []


def _given(name: str) -> Iterator[dict[str, Any]]:
    """Give the calls that the conversation holds already."""
    yield from (call for turn in _task(name)["input"].get("turns", ()) for call in turn.get("calls", ()))


@pytest.mark.parametrize("name", [name for name in NAMES if any(_given(name))])
def test_what_a_conversation_holds_is_what_its_tools_say(name: str) -> None:
    """Asking again gives the very same: who trusts the conversation, and who asks, know one thing."""
    tape = _tape(name)
    for given in _given(name):
        call = ToolCall("c", 1, 0, given["tool"], given["args"])
        found = tape.play(call, TOOLS[call.tool])
        assert found is not None, call
        assert found.value == given["result"]


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_around_a_place_is_within_the_radius(name: str) -> None:
    """A search around a place finds nothing that is farther than it was asked to look."""
    for item in _tape(name).own.cassette.interactions:
        asked = AROUND.search(item.request.uri)
        told = DISTANCE.findall(text_of(item.response.body)) if asked else []
        assert [one for one in told if asked and float(one) > float(asked[1])] == [], item.request.uri

"""The Korean tasks take a fact in whichever words it is said, and answer who asks in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
TOOLS = packaged("ko_agentbench")
HELD = Library(ROOT)
LEVELS = ("L1", "L2", "L3", "L4")
KAKAO, TMAP = r'"distance": "(\d+)"', r'"radius": "([\d.]+)"'
DISTANCE = {"category": KAKAO, "keyword": KAKAO, "around": TMAP}


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


SAID = _read(Path(__file__).parent / "ko_evals" / "answers.yaml")
ASKED = _read(Path(__file__).parent / "ko_evals" / "calls.yaml")


def _task(name: str) -> Any:
    return _read(ROOT / "evals" / "ko" / name.split("-")[0] / f"{name}.yaml")


def _score(name: str, answer: str) -> float | None:
    """Give the score of the facts in an answer; nothing else of a task is asked."""
    graders = [one for one in _task(name)["graders"] if one["name"] == "answer_matches"]
    assert all(one["require"] for one in graders)
    scores = [AnswerMatches(**one["config"]).grade(left(answer=answer)).score for one in graders]
    return min(score or 0.0 for score in scores)


def test_each_task_of_the_first_four_levels_has_such_answers() -> None:
    """A task without answers in other words is a task whose words nobody tried."""
    named = {
        file.stem for level in ("L1", "L2", "L3", "L4") for file in (ROOT / "evals/ko" / level).iterdir()
    }
    assert set(SAID) == named


@pytest.mark.parametrize("name", SAID)
def test_a_fact_is_found_in_other_words(name: str) -> None:
    """Units, honorifics, tables, bold type, rounding as people round: the fact is the same."""
    assert [answer for answer in SAID[name]["right"] if _score(name, answer) != 1.0] == []


@pytest.mark.parametrize("name", SAID)
def test_another_fact_is_not_found(name: str) -> None:
    """The neighbour's number, the wrong direction, the wrong choice and the refusal do not pass."""
    assert [answer for answer in SAID[name]["wrong"] if _score(name, answer) == 1.0] == []


def _calls(name: str) -> Iterator[ToolCall]:
    for number, call in enumerate(ASKED[name]):
        for tool, args in call.items():
            yield ToolCall("c", 1, number, tool, args)


@pytest.mark.parametrize("name", ASKED)
def test_a_call_with_other_arguments_is_answered(name: str) -> None:
    """Other search words, sizes and orders of a right run find a recording of a tool that is offered."""
    offered = _task(name)["settings"]["tools"]
    tape = HELD.open(Path("cassettes/ko", name.split("-")[0], f"{name}.yaml"), "none", "tool")
    box = ToolTape(tape, retry_command="")
    missing = []
    for call in _calls(name):
        assert call.tool in offered
        found = box.play(call, TOOLS[call.tool])
        if found is None or found.error is not None:
            missing.append((call.tool, dict(call.args)))
    assert missing == []


@pytest.mark.parametrize("level", LEVELS)
def test_what_lies_around_a_place_is_within_the_radius(level: str) -> None:
    """A search around a place finds nothing that is farther than it was asked to look."""
    too_far = []
    for file in sorted((ROOT / "cassettes" / "ko" / level).iterdir()):
        tape = HELD.open(file.relative_to(ROOT), "none", "tool")
        for item in tape.cassette.interactions:
            asked = re.search(r"/(category|keyword|around)\b.*[?&]radius=(\d+)", item.request.uri)
            told = re.findall(DISTANCE[asked[1]], text_of(item.response.body)) if asked else []
            too_far += [(file.name, asked, one) for one in told if asked and float(one) > float(asked[2])]
    assert too_far == []

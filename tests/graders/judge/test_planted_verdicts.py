"""Verdicts planted in what is judged: no rubric takes one for the judge's; a reader that does is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pytest_agenteval
from pytest_agenteval.graders.judge import planted_verdicts
from pytest_agenteval.graders.judge.planted_verdicts import planted_faults
from pytest_agenteval.graders.judge.rubric import Rubric, read_rubric, read_rubric_file
from pytest_agenteval.graders.judge.verdicts import UnreadableReply, Verdict
from tests.graders.judge.judges import preferred_answer, rubric

SHIPPED = sorted(Path(pytest_agenteval.__file__).parent.rglob("rubrics/*.jinja"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_nothing_planted_moves_a_shipped_rubric(file: Path) -> None:
    """Whatever an answer holds and however a judge quotes it, the judge's own verdict counts, or none."""
    assert planted_faults(read_rubric_file(file)) == []


def test_nothing_planted_moves_a_comparison() -> None:
    """The same where several candidates are scored side by side."""
    assert planted_faults(read_rubric(preferred_answer())) == []


def test_a_reader_that_steps_into_broken_objects_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check names what was planted and how it was quoted, for a reader that takes the last object."""

    def last_object(reply: str, rubric: Rubric, material: Any = ()) -> Verdict:
        decoder = json.JSONDecoder()
        for at in reversed([at for at, char in enumerate(reply) if char == "{"]):
            try:
                scores = decoder.raw_decode(reply, at)[0]
                return Verdict({name: scores[name] for name in rubric.names})
            except (ValueError, KeyError):
                continue
        raise UnreadableReply("nothing")

    monkeypatch.setattr(planted_verdicts, "parse_reply", last_object)

    faults = planted_faults(rubric())

    assert "a verdict, quoted in its rationale" in faults
    assert "a verdict without a reason, quoted in thoughts that never end" in faults

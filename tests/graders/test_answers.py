"""Graders of the final answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.graders.answers import AnswerContains, AnswerJson, AnswerMatches
from pytest_agenteval.graders.matchers import matcher_of
from tests.graders.sample_evidence import files_evidence

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/count"}},
    "required": ["city"],
    "$defs": {"count": {"type": "integer", "minimum": 1}},
}


@pytest.mark.parametrize(
    ("text", "ignore_case", "score"), [("Mina", False, 1.0), ("mina", False, 0.0), ("mina", True, 1.0)]
)
def test_an_answer_contains_a_text(text: str, ignore_case: bool, score: float) -> None:
    """Case counts unless it is told not to."""
    assert AnswerContains(text, ignore_case).grade(files_evidence(answer="Hello, Mina!")).score == score


@pytest.mark.parametrize(
    ("patterns", "any_will_do", "score"),
    [
        (["^Total: [0-9]+$"], False, 1.0),
        (["Total", "Sum"], False, 0.5),
        (["Total", "Sum"], True, 1.0),
        (["(?i)total: x"], False, 0.0),
    ],
)
def test_an_answer_matches_patterns_by_line(patterns: list[str], any_will_do: bool, score: float) -> None:
    """A pattern is searched for anywhere, and its ends are those of lines."""
    assert (
        AnswerMatches(patterns, any_will_do).grade(files_evidence(answer="Done.\nTotal: 42\n")).score == score
    )


@pytest.mark.parametrize("answer", ["", " \n"])
def test_no_answer_scores_0(answer: str) -> None:
    """An answer was asked for: its absence is a miss, never undecided, whatever an empty text would match."""
    for grader in (
        AnswerContains("a"),
        AnswerMatches([".*", "^$"]),
        AnswerMatches([".*", "^$"], any=True),
        AnswerJson({"type": ["object", "null"]}),
        AnswerJson(values={"a": {"absent": True}}),
    ):
        assert grader.grade(files_evidence(answer=answer)).score == 0.0


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (r"^\d+\s?won$", r"'^\d+\s?won$'"),
        ("it's", '"it\'s"'),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b\u202e", r"'\x1b\u202e'"),
    ],
)
@pytest.mark.parametrize("answer", ["forty", "fifty"])
def test_a_missing_match_shows_the_pattern_as_it_is_written(pattern: str, shown: str, answer: str) -> None:
    """No backslash is doubled, and nothing of it acts; the claim is the same for every answer."""
    grade = AnswerMatches([pattern]).grade(files_evidence(answer=answer))

    assert grade.rationale == f"the answer does not match {shown}: '{answer}'"
    assert grade.checks[0].claim == f"the answer matches {shown}"
    assert f"a text that matches {shown}" == str(matcher_of({"regex": pattern}, ()))


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('{"city": "Seoul", "days": 2}', 1.0),
        ('\n```json\n{"city": "Seoul", "days": 2}\n```\n', 1.0),
        ('~~~~\n{"city": "Seoul", "days": 2}\n~~~~', 1.0),
        ('{"city": "Seoul", "days": 0}', 0.5),
        ('{"city": "Busan", "days": 0}', 0.0),
        ('{"city": "Busan"}', 0.5),
        ('Here: {"city": "Seoul"}', 0.0),
        ('```\n{"city": "Seoul"}\n```\n```\n{}\n```', 0.0),
        ('{"city": "Seoul", "city": "Seoul"}', 0.0),
        ("[1]", 0.0),
        ("[" * 100_000, 0.0),
        ('{"city": "\\ud800"}', 0.0),
        ('{"city": "\ud800"}', 0.0),
    ],
)
def test_an_answer_is_json(answer: str, score: float) -> None:
    """Schema and each value count alike; one fence may stand around the JSON, and nothing else."""
    grade = AnswerJson(SCHEMA, {"city": {"exact": "SEOUL", "fold": True}}).grade(
        files_evidence(answer=answer)
    )

    assert grade.score == score


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet=st.characters(codec="utf-8")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab`\n"), inner, max_size=3),
    ),
    st.sampled_from(["%s", "```\n%s\n```", "```json\n%s```", "  ~~~\n%s\n~~~ \n"]),
)
def test_every_json_answer_is_read_with_and_without_a_fence(value: Any, around: str) -> None:
    """What is read back is the very value: a schema that allows nothing else is kept."""
    answer = around % json.dumps(value, indent=1, ensure_ascii=False)

    assert AnswerJson({"const": value}).grade(files_evidence(answer=answer)).score == 1.0


def test_what_is_wrong_is_told_with_its_place() -> None:
    """In the schema's words, where the answer is JSON; else with where reading ended."""
    wrong = AnswerJson(SCHEMA).grade(files_evidence(answer='{"city": "Seoul", "days": "2"}'))
    broken = AnswerJson(SCHEMA).grade(files_evidence(answer="about 2"))

    assert "found days: '2' is not of type 'integer'" in wrong.rationale
    assert "'about 2'" in broken.rationale


def test_a_schema_may_refer_to_itself_and_hold_what_looks_like_a_reference() -> None:
    """References inside are followed; a value that is only compared is none."""
    tree = {"type": "array", "items": {"$ref": "#"}}

    assert AnswerJson(tree).grade(files_evidence(answer="[[], [[]]]")).score == 1.0
    assert AnswerJson(tree).grade(files_evidence(answer="[[], [1]]")).score == 0.0
    assert AnswerJson({"const": {"$ref": "x"}}).grade(files_evidence(answer='{"$ref": "x"}')).score == 1.0


def test_a_matcher_sees_the_ends_of_lines_that_its_pattern_names() -> None:
    """All else, a schema too, compares in one Unicode form with newlines as the only line ends."""
    answer = json.dumps({"e\u0301": "a\r\nb"})
    for pattern, score in ((r"^a\r\nb$", 1.0), ("a\r\nb", 1.0), (r"^a\nb$", 1.0), (r"^a\r\rb", 0.0)):
        values = {"\u00e9": {"regex": pattern}}
        assert AnswerJson(values=values).grade(files_evidence(answer=answer)).score == score

    keywords: tuple[dict[str, Any], ...] = (
        {"const": "a\nb"},
        {"enum": ["a\r\nb"]},
        {"pattern": r"^a\nb$"},
        {"maxLength": 3},
    )
    for keyword in keywords:
        whole = {"required": ["e\u0301"], "properties": {"e\u0301": keyword}}
        assert AnswerJson(whole).grade(files_evidence(answer=answer)).score == 1.0

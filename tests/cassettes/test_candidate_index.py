"""Looking a call up by its rules costs the same in a large recording, and finds what comparing all finds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Interaction, Request, Response, tool_call, tool_request
from pytest_agenteval.cassettes.request_matching import CallMatcher, CandidateIndex, ParamMatchers

WORDS = ("서울", "서울역", "서울 역 맛집", "Café", "café 2", "역", "", "맛집", "ＡＢ", "ab c")
VALUES: tuple[Any, ...] = (*WORDS, 1, 1.0, True, None, "1.05", "x", 1.1, 1.2, [1], "-0.05", 0)


def index(matchers: ParamMatchers, calls: list[Mapping[str, Any]]) -> CandidateIndex:
    """Index recorded calls of one tool."""

    def read(request: Request) -> Mapping[str, Any]:
        return tool_call(request)[1]

    made = CandidateIndex(CallMatcher("t", read, matchers))
    made.take_in([Interaction(tool_request("t", args), Response(200)) for args in calls])
    return made


@pytest.mark.parametrize(
    "matching", [{"a": "contains"}, {"a": {"number": 0.1}}, {"a": "contains", "b": {"number": 0.05}}]
)
def test_nothing_that_the_rules_accept_is_left_out(matching: Mapping[str, Any]) -> None:
    """Whatever is recorded and asked for: texts, numbers and neither, and with one of them missing."""
    draw = random.Random(0)

    def some() -> dict[str, Any]:
        return {name: draw.choice(VALUES) for name in "abc" if draw.random() < 0.8}

    matchers, calls = ParamMatchers(matching), [some() for _ in range(200)]
    made = index(matchers, calls)
    for asked in (some() for _ in range(200)):
        all_of_them = [slot for slot, args in enumerate(calls) if matchers.accepts(args, asked)]
        assert [
            slot for slot in made.candidates(asked) if matchers.accepts(calls[slot], asked)
        ] == all_of_them


@pytest.mark.parametrize(
    ("matching", "held", "asked"),
    [
        ({"a": "contains"}, lambda n: {"a": f"검색어 {n:05}"}, lambda n: {"a": f"검색어 {n:05} 맛집"}),
        ({"a": "contains"}, lambda n: {"a": f"검색어 {n:05} 맛집"}, lambda n: {"a": f"{n:05}맛"}),
        ({"a": {"number": 0.1}}, lambda n: {"a": n}, lambda n: {"a": n + 0.05}),
        (
            {"a": {"number": 0.1}, "b": {"number": 0.1}},
            lambda n: {"a": 1, "b": n},
            lambda n: {"a": 1, "b": f"{n}.0"},
        ),
    ],
)
def test_few_are_compared_of_many(matching: Mapping[str, Any], held: Any, asked: Any) -> None:
    """Of 1,000 calls that differ in what is searched for, or in a number, next to none is looked at."""
    made = index(ParamMatchers(matching), [held(n) for n in range(1000)])
    for n in range(0, 1000, 100):
        found = made.candidates(asked(n))
        assert n in found
        assert len(found) < 100

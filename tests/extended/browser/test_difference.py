"""The page and the terminal find the same differences: two languages, one result, over many cases."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, FileText, Grade, Outcome, Tree
from pytest_agenteval.records.transcript import Event, Message, ToolCall, ToolError, Transcript
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.html_report import page_file
from pytest_agenteval.reports.text_difference import align, compare_texts, fold_runs, words_of
from pytest_agenteval.reports.trial_difference import (
    Step,
    change_text,
    compare_steps,
    compare_trials,
    steps_of,
)
from pytest_agenteval.reports.trial_view import TrialView, trial_view
from tests.reports.runs import trial

SIGNS = (
    "a", "b", "ab", "the ", " ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "_", "1", "2.5", ",", ".", "'",
    "가", "나", "。", "東", "ゃ", "é", "e\u0301", "\u1112\u1161\u11ab", "İ", "ß", "𝒳",
    "👩\u200d👧", "👍\U0001f3fd", "\u202e", "</script>", "\u0001",
)  # fmt: skip
WRITTEN = (
    ("", ""), ("", "a"), ("a", ""), ("\n", "\n\n"), ("a", "a"),
    ("I am sorry, it was refunded", "I am glad, it was not refunded"),
    ("환불이 완료되었습니다. 3일 안에 입금됩니다.", "환불이 접수되었습니다. 5일 안에 입금됩니다."),
    ("東京の天気は晴れです。", "東京の天気は雨でした。"),
    ("cafe\u0301 👩\u200d👩\u200d👧 ok", "cafe 👩\u200d👩\u200d👦 ok"),
    ("".join(f"line {at}\n" for at in range(90)), "".join(f"line {at + at // 40}\n" for at in range(90))),
    ("word " * 300 + "old " + "word " * 300, "word " * 300 + "new " + "word " * 300),
    ("가나다 " * 300 + "old", "가나다 " * 300 + "new"), ("😀" * 500 + "a", "😀" * 500 + "b"),
    ("x " * 40_000, "y " * 40_000), ("😀" * 64_000, "😁" * 64_000), ("a" * 64_001, "b"),
    ("x\n" * 12_000, "".join(f"{at}\n" for at in range(12_000))),
)  # fmt: skip
RANDOM = 3000


def texts(chance: random.Random) -> Iterator[tuple[str, str]]:
    """Give pairs of texts: by hand, alike but for a few places, and with nothing in common but letters."""
    yield from WRITTEN
    for _ in range(RANDOM):
        old = chance.choices(SIGNS, k=chance.choice((0, 1, 3, 10, 40, 300)))
        new = changed(chance, old, SIGNS) if chance.random() < 0.8 else chance.choices(SIGNS, k=40)
        yield "".join(old), "".join(new)


def changed(chance: random.Random, items: list[Any], others: Any) -> list[Any]:
    """Give a list with a few items put in, taken out and replaced."""
    items = list(items)
    for _ in range(chance.randint(0, 6)):
        at, size = chance.randint(0, len(items)), chance.choice((0, 1, 1, 2))
        items[at : at + size] = [chance.choice(others)] * chance.choice((0, 1))
    return items


CALLS = [
    ToolCall("c", 1, 0, tool, args, result=result, error=error)
    for tool in ("find", "save", "constructor")
    for args in ({"q": "tea and bread"}, {"q": "tea", "at": [1, {"x": None}], "on": True}, {"→": "odd"})
    for result, error in (
        (None, None), ("some tea", None), ({"n": [], "s": "가"}, None), ("x", ToolError("E", "m")),
    )
]  # fmt: skip
LINES = ["one", "two", "", "세 번째", "4 </script>"]


def trials(chance: random.Random) -> Iterator[tuple[TrialView, TrialView]]:
    """Give pairs of trials that have steps, grades, checks, files and events in common, or nothing."""
    messages = [
        *(
            Message(role, text)
            for role in ("user", "system", "assistant")
            for text in ("tea", "more tea", "")
        ),
        *(Message("assistant", text, calls=(call,), turn=1) for text in ("", "so") for call in CALLS),
    ]
    for _ in range(RANDOM // 5):
        said = chance.choices(messages, k=chance.randint(0, 12))
        grades = [graded(chance, name) for name in ("kept", "__proto__", "style 1")]
        lines = chance.choices(LINES, k=8)
        both = []
        for _ in range(2):
            own = changed(chance, said, messages) if chance.random() < 0.9 else said
            chosen = [grade if chance.random() < 0.6 else graded(chance, grade.grader) for grade in grades]
            own_lines = changed(chance, lines, LINES)
            both.append(made(chance, own, chosen[: chance.randint(0, 3)], own_lines))
        yield both[0], both[1]


def graded(chance: random.Random, name: str) -> Grade:
    """Give a grade with checks of which some claim the same."""
    claims = chance.choices(("it is kept", "0 is left", "__proto__"), k=chance.randint(0, 4))
    checks = tuple(Check(claim, chance.random() < 0.5, "x", "y") for claim in claims)
    return Grade(name, chance.choice((None, 0.0, 0.5, 1.0)), "said", checks)


def made(chance: random.Random, said: list[Message], grades: list[Grade], lines: list[str]) -> TrialView:
    """Make a trial; its answer is the last message, its state and events vary."""
    ends = said[-1].content if said and chance.random() < 0.6 else chance.choice(("tea", " tea\n", ""))
    before = {"a.md": file(LINES), "gone.md": file(["x"])}
    after = {"a.md": file(lines), chance.choice(("gone.md", "came.md", "constructor")): file(["x", "y"])}
    events = tuple(
        Event(chance.random(), kind, chance.choice(("x", "y")))
        for kind in chance.choices(("retry", "prompt_read", "hasOwnProperty"), k=3)
    )
    digests = Digests(
        prompt=chance.choice("pq"), model="m", sent=chance.choice(({}, {"1": "x"}, {"1": "x", "2": "y"}))
    )
    whole: Trial = trial("a", 1, 0.5, grades=tuple(grades), digests=digests)
    state = {"n": chance.choice((1, 2))}
    outcome = Outcome(Answer(ends, state), Tree(before), Tree(after))
    calls = tuple(call for message in said for call in message.calls)
    return trial_view(
        replace(whole, outcome=outcome, transcript=Transcript(tuple(said), calls, events=events))
    )


def file(lines: list[str]) -> FileText:
    """Give a file of these lines."""
    text = "\n".join(lines)
    return FileText(text, len(text), text)


@pytest.fixture(scope="module")
def script(browser: Any) -> Iterator[Any]:
    """A page with nothing but the script; it is given cases, and gives what the script makes of each."""
    page = browser.new_page()

    def run(expression: str, cases: Any) -> Any:
        body = f"{page_file('difference.js')}\nreturn JSON.stringify(JSON.parse(cases).map({expression}))"
        return json.loads(page.evaluate(f"(cases) => {{ {body} }}", json.dumps(cases)))

    yield run
    page.close()


def test_both_languages_compare_texts_alike(script: Any) -> None:
    """Words, runs, what is left out, and what is too long: to the last character, in every script."""
    cases = list(texts(random.Random(33)))
    expected = []
    for old, new in cases:
        found = compare_texts(old, new)
        expected.append([words_of(old), found.runs, found.is_coarse, fold_runs(found.runs)])

    made = script(
        "([old, now]) => { const found = compareTexts(old, now); "
        "return [wordsOf(old), found.runs, found.is_coarse, foldRuns(found.runs)]; }",
        cases,
    )

    for case, one, other in zip(cases, json.loads(json.dumps(expected)), made, strict=True):
        assert one == other, case
    assert {len(each[1]) > 3 for each in expected} == {True, False}
    assert {each[2] for each in expected} == {True, False}


def test_both_languages_align_alike(script: Any) -> None:
    """Also where several alignments are as long, and where one would take too much."""
    chance = random.Random(33)
    cases = [
        (
            chance.choices("abcd", k=chance.randint(0, 70)),
            chance.choices("abcd", k=chance.randint(0, 70)),
            most,
        )
        for _ in range(RANDOM)
        for most in (100, 10_000)
    ]
    expected = []
    for old, new, most in cases:
        found = align(old, new, most)
        blocks = [
            [each.is_equal, each.old.start, each.old.stop, each.new.start, each.new.stop]
            for each in found.blocks
        ]
        expected.append([blocks, found.cells, found.is_coarse])

    made = script(
        """([old, now, most]) => {
            const found = alignSequences(old, now, most);
            const blocks = found.blocks.map((block) => [block.equal, ...block.old, ...block.now]);
            return [blocks, found.cells, found.coarse];
        }""",
        cases,
    )

    assert made == expected
    assert {each[2] for each in expected} == {True, False}


def rows(old: TrialView, new: TrialView) -> Iterator[tuple[Step, Step]]:
    """Give the steps that are compared word by word."""
    sides = steps_of(old), steps_of(new)
    for stretch in compare_trials(old, new).stretches:
        for at, by in stretch.rows:
            if at is not None and by is not None and sides[0][at].kind == sides[1][by].kind:
                yield sides[0][at], sides[1][by]


def test_both_languages_compare_trials_alike(script: Any) -> None:
    """Steps in rows, flipped checks, files, events, what the trials are made of, and the parts of steps."""
    cases = list(trials(random.Random(33)))
    expected = [
        [
            compare_trials(old, new),
            [compare_steps(*pair) for pair in rows(old, new)],
            [change_text(each) for each in new.files],
        ]
        for old, new in cases
    ]

    made = script(
        """([old, now]) => {
            const found = compareTrials(old, now), sides = [trialSteps(old), trialSteps(now)];
            const pairs = found.stretches.flatMap((stretch) => stretch.rows)
                .map(([at, by]) => [sides[0][at], sides[1][by]])
                .filter(([at, by]) => at && by && at.kind === by.kind);
            return [found, pairs.map((pair) => compareSteps(...pair)), now.files.map(changeText)];
        }""",
        msgspec.to_builtins(cases),
    )

    for case, one, other in zip(cases, json.loads(msgspec.json.encode(expected)), made, strict=True):
        assert one == other, case
    found = [each[0] for each in expected]
    assert all(
        any(getattr(each, name) for each in found)
        for name in ("made_of", "grades", "has_answer", "has_state")
    )
    assert any(row.is_same for each in found for row in each.stretches)
    assert any(flip.old is not None for each in found for grade in each.grades for flip in grade.flips)

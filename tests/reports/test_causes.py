"""Misses and errors are grouped by what failed, with true counts, whatever the texts are."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.causes import (
    LEAST_CAUSES,
    MOST_ALONE,
    MOST_REASON,
    Cause,
    cause_json,
    cause_lines,
    causes_markdown,
    causes_of,
    causes_title,
    likeness,
)
from pytest_agenteval.reports.exports.json_report import report_figures
from pytest_agenteval.reports.markdown_report import (
    annotation_lines,
    comment_markdown,
    report_markdown,
    summary_markdown,
)
from pytest_agenteval.reports.page_index import page_index
from pytest_agenteval.reports.report_source import report_source
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.store.journal_entry import MOST_CLAIMS, SHORT_CLAIM
from pytest_agenteval.text.formatting import cell_width, escape_markdown, printable
from tests.reports.runs import store_run, trial

HOSTILE = (
    "\x1b[31mred\x1b[0m \u202e turned",
    "::error::a command\n##[group]x",
    "| a | `b` | <img src=x onerror=y> @octocat",
    "'" * 400,
    '"' + "\\" * 399,
    "a/" * 200,
    "0" * 400,
    "1,2 or 3 and " * 40,
    "\ud800 half a pair",
    "(expected " * 50,
    "no: " * 100,
    "…" * 300,
)
"""Texts that somebody's agent or grader may bring."""


def missed(task: str, score: float, *grades: Grade, repetition: int = 1, **fields: Any) -> Trial:
    """Give a trial that these grades made miss."""
    return trial(task, repetition, score, grades=grades, **fields)


def wrong(grader: str, *claims: str, passed: int = 0) -> Grade:
    """Give a grade of which these checks failed."""
    checks = [Check(claim, passed=False, expected="one thing", found="another") for claim in claims]
    return Grade.from_checks(grader, [*checks, *[Check("fine", passed=True)] * passed])


def causes(root: Path, *sides: Iterable[Trial]) -> list[Cause]:
    """Give the causes of runs that were written to disk and read back."""
    return causes_of([store_run(root / str(at), trials).entries for at, trials in enumerate(sides)])


def rows(causes: Iterable[Cause]) -> list[tuple[str, int, int]]:
    """Give the words of each cause, its trials and its tasks."""
    return [(cause.words, cause.trials, cause.tasks) for cause in causes]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the card says 'cabin'", "the card says 'don\\'t'"),
        ('found "a", "b"', 'found "c"'),
        ("step 2 took 1.5s", "step 11 took 0.25s"),
        ("at 2026-11-29T10:00:00Z: late", "at 2026-11-30T10:00:00Z: late"),
        ("call toolu_01A9xZ was lost", "call toolu_77B2q8 was lost"),
        ("request 6f1c0d3e-1b2a-4c5d-8e9f-001122334455", "request 00000000-1b2a-4c5d-8e9f-001122334455"),
        ("<Agent object at 0x7f00aa>", "<Agent object at 0x1>"),
        ("cannot open /tmp/a/b.txt: gone", "cannot open C/d.txt: gone"),
        ("Areas/Finance/Monthly Spending.md matches '4'", "Areas/Sleep.md matches 'x'"),
        ("see https://a.example/x?y=1", "see https://b.example"),
        ("  it   broke\n at 3", "it broke at 4"),
        # Values count for nothing in the length from which a reason is cut.
        (f"cassettes/a.yaml: {'word ' * 80}", f"cassettes/{'long/' * 20}b.yaml: {'word ' * 80}"),
    ],
)
def test_texts_that_differ_in_values_are_alike(one: str, other: str) -> None:
    """Numbers, dates, ids, addresses, paths and quoted texts say nothing of the reason."""
    assert likeness(one).pattern == likeness(other).pattern
    assert likeness(one).values != likeness(other).values or one.split() == other.split()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("find_order was called", "refund was called"),
        ("search_v1 was called", "search_v2 was called"),
        ("HTTP 429 from the provider", "HTTP 500 from the provider"),
        ("status code: 404", "status code: 503"),
        ("don't panic, it isn't late", "don't panic, it is late"),
        ("no answer", "no reference"),
    ],
)
def test_texts_that_differ_in_words_are_not_alike(one: str, other: str) -> None:
    """Names of tools and the status of a reply are reasons of their own."""
    assert likeness(one).pattern != likeness(other).pattern


def test_misses_are_grouped_by_grader_check_and_reason(tmp_path: Path) -> None:
    """Most trials first, then those that are furthest below; a trial that missed for two is in both."""
    both = missed(
        "a", 0.0, wrong("says it was refunded", "answer contains 'refunded'"), wrong("tools", "x was called")
    )
    trials = [
        both,
        missed("a", 0.1, wrong("says it was refunded", "answer contains 'refunded'"), repetition=2),
        missed("b", 0.3, wrong("says it was refunded", "answer contains 'refunded'")),
        missed("c", 0.5, wrong("tools", "y was called", passed=1)),
        missed("d", 0.6, wrong("tools", "x was called", "x was called twice", passed=6)),
        missed("e", 0.5, Grade("polite", 0.5, "too short: 3 words")),
        missed("f", 0.2, Grade("polite", 0.2, "too short: 14 words"), limit="20 steps"),
        missed("g", 0.9, Grade("hidden", 1.0, "fine"), wrong("lenient", "z", passed=1)),
        trial("h", 1, 1.0),
    ]
    trials[7] = replace(trials[7], grades=(trials[7].grades[0], replace(trials[7].grades[1], threshold=0.4)))
    found = causes(tmp_path, trials)

    assert rows(found) == [
        ("says it was refunded: answer lacks 'refunded'", 3, 2),
        ("polite: too short: … words", 2, 2),
        ("tools: x was not called", 2, 2),
        ("limit reached: 20 steps", 1, 1),
        ("tools: y was not called", 1, 1),
        ("tools: not met: x was called twice", 1, 1),
        ("below its threshold", 1, 1),
    ]
    first = found[0]
    assert (first.kind, first.grader, first.check, first.reason) == (
        "missed",
        "says it was refunded",
        "answer contains 'refunded'",
        "",
    )
    assert (found[1].check, found[1].reason) == ("", "too short: … words")
    assert first.worst.key == both.key
    assert [entry.key.task for entry in found[2].entries] == ["a", "d"]


def test_a_claim_that_was_cut_is_denied_like_a_whole_one(tmp_path: Path) -> None:
    """Long patterns are cut in the journal, short ones are not: they are one cause, in one wording."""
    claims = (f"the answer matches '{text}'" for text in ("a", "b" * 200, r"\d"))
    found = causes(tmp_path, [missed(f"t{at}", 0.0, wrong("g", claim)) for at, claim in enumerate(claims)])

    assert rows(found) == [("g: the answer does not match …", 3, 3)]


def test_errors_are_grouped_by_cause_and_message(tmp_path: Path) -> None:
    """One traceback stands for all of them; what is the same in all messages stays readable."""
    broken = [
        trial(
            task,
            1,
            None,
            cause="crash",
            message=f"KeyError: 'order' in call {number}\nsecond line {task}",
            traceback=f"  File a.py\nKeyError of {task}",
        )
        for number, task in enumerate("cab")
    ]
    found = causes(tmp_path, [*broken, trial("d", 1, None, cause="provider", message="HTTP 503")])

    assert rows(found) == [("crash: KeyError: 'order' in call …", 3, 3), ("provider: HTTP 503", 1, 1)]
    assert (found[0].kind, found[0].grader, found[0].reason) == ("errored", "", found[0].words)
    assert found[0].worst.key.task == "a"
    assert found[0].traceback == broken[1].traceback


def test_crashes_at_one_place_have_one_traceback_in_markdown(tmp_path: Path) -> None:
    """In the job's summary, in the comment and in annotations: the others are named with the first."""
    frame = 'Traceback (most recent call last):\n  File "/x/bot.py", line {}, in answer\nKeyError: {}'
    places = {"a": 3, "b": 3, "c": 3, "d": 9}
    crashes = [
        trial(task, 1, None, cause="crash", message=f"KeyError: '{task}'", traceback=frame.format(line, task))
        for task, line in places.items()
    ]
    run = store_run(tmp_path, [*crashes, trial("e", 1, 0.5)])
    assert [(cause.words, cause.trials) for cause in causes_of([run.entries])][:2] == [
        ("crash: KeyError: … (bot.py:3)", 3),
        ("crash: KeyError: 'd' (bot.py:9)", 1),
    ]
    summary = summary_markdown(view_of(run))
    assert summary.count("Traceback") == 2
    assert r"KeyError: 'a'; 2 more trials like it: s/b\[rules-1\], s/c\[rules-1\]" in summary
    comment = comment_markdown(run, view_of(run), TaskFileLines(tmp_path))
    assert comment.count("**ERROR**") == 2
    assert "`2 more tasks like it: s/b[rules-1], s/c[rules-1]`" in comment
    _, *errors = sorted(annotation_lines(run, tmp_path), reverse=True)
    assert [line.count("like it: s/b[rules-1], s/c[rules-1]") for line in errors] == [0, 1]


def test_many_misses_stand_below_their_causes_in_markdown(tmp_path: Path) -> None:
    """A page and a comment say first what most trials lack; a few misses say it themselves."""
    trials = [missed(f"t{at}", 0.0, wrong("g", f"it holds '{at}'")) for at in range(6)]
    for text in (
        summary_markdown(view_of(store_run(tmp_path / "many", trials))),
        comment_markdown(
            many := store_run(tmp_path / "again", trials), view_of(many), TaskFileLines(tmp_path)
        ),
    ):
        assert "**why trials missed (6 of 6)**" in text
        assert r"| g: not met: it holds … | 6 | 6 | s/t0\[rules-1\] 0.00 |" in text
    assert "why trials" not in summary_markdown(view_of(store_run(tmp_path / "few", trials[:5])))


def test_trials_are_counted_for_each_side(tmp_path: Path) -> None:
    """A cause that one side does not have counts 0 there; each side's own trials can be looked up."""
    old = [missed("a", 0.0, wrong("g", "it holds 1")), missed("b", 0.0, wrong("g", "it holds 2"))]
    new = [missed("a", 0.0, wrong("g", "it holds 3"), wrong("h", "new")), trial("b", 1, 1.0)]
    shared, only_new = causes(tmp_path, old, new)

    assert (shared.words, [len(side) for side in shared.sides]) == ("g: not met: it holds …", [2, 1])
    assert (only_new.words, [[e.key.task for e in side] for side in only_new.sides]) == (
        "h: not met: new",
        [[], ["a"]],
    )
    assert (shared.trials, shared.tasks) == (3, 2)


def test_reasons_in_words_of_their_own_are_one_cause(tmp_path: Path) -> None:
    """A judge's reasons are as many as there are tasks: told one by one they would hide all others."""
    few = [
        missed(f"t{at}", 0.0, Grade("judge", 0.0, f"{word} is missing")) for at, word in enumerate("abcde")
    ]
    assert len(few) == MOST_ALONE
    assert len(causes(tmp_path / "few", few)) == MOST_ALONE

    words = ("rude", "wrong", "late", "empty", "vague", "long")
    many = [
        missed(
            f"t{at}",
            0.0,
            Grade("judge", 0.0, f"it was {word} in the end"),
            wrong("tool", f"{word} was called"),
        )
        for at, word in enumerate(words)
    ]
    assert rows(causes(tmp_path / "many", many)) == [
        ("judge: it was … in the end", 6, 6),
        ("tool: … was not called", 6, 6),
    ]
    free = [missed(f"t{at}", 0.0, Grade("judge", 0.0, word)) for at, word in enumerate(words)]
    (cause,) = causes(tmp_path / "free", free)
    assert (cause.words, cause.reason) == ("judge: another reason in each task", "")
    assert (cause.trials, cause.tasks, len({*map(id, cause.entries)})) == (6, 6, 6)


def test_a_journal_without_claims_has_the_same_causes(tmp_path: Path) -> None:
    """Runs that were stored before are grouped by what their rationales say of checks."""
    grades = [
        wrong("g", "the card says 'a' (or b)", "it has a heading"),
        Grade("free", 0.0, "no: not a check"),
    ]
    run = store_run(tmp_path, [missed(task, 0.0, *grades) for task in "ab"])
    before = [replace(entry, failed_checks=()) for entry in run.entries]

    assert all(entry.failed_checks for entry in run.entries)
    assert rows(causes_of([before])) == rows(causes_of([run.entries]))
    assert rows(causes_of([before, run.entries]))[0][1] == 4


def test_the_journal_has_bounded_claims_of_grades_that_are_too_low(tmp_path: Path) -> None:
    """Only of checks that failed; a grade that passed in spite of one has none."""
    long, many = "x" * 1000, [f"claim {at}" for at in range(50)]
    lenient = replace(wrong("lenient", "unimportant", passed=1), threshold=0.5)
    run = store_run(tmp_path, [missed("a", 0.0, wrong("g", long, *many), lenient, Grade("h", 0.0, "why"))])
    (entry,) = run.entries

    claims, *others = entry.failed_checks
    assert others == [(), ()]
    assert claims == (f"{long[: SHORT_CLAIM - 1]}…", *many[: MOST_CLAIMS - 1])
    assert [len(grade.checks) for grade in run.trial(entry).grades] == [51, 2, 0]


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_hostile_texts_stay_in_their_lines(tmp_path: Path, width: int) -> None:
    """In the table on a terminal, in Markdown and in JSON: nothing acts, and nothing is without bounds."""
    trials = [
        each
        for at, text in enumerate(HOSTILE)
        for each in (
            missed(f"m{at}", 0.0, wrong(f"g{text}", text, text), Grade(text, 0.0, text)),
            trial(f"e{at}", 1, None, cause="crash", message=text, traceback=text),
        )
    ]
    found = causes(tmp_path, trials)
    assert {entry.key for cause in found for entry in cause.entries} == {each.key for each in trials}
    for cause in found:
        assert len(cause.words) <= MOST_REASON
        assert cause.words == printable(cause.words)
        assert "\n" not in cause.words
    lines = [line.text for line in cause_lines(found, width, 100, most=100)]
    assert lines == [printable(line) for line in lines]
    names = {f"{entry.key.label}" for cause in found for entry in cause.entries}
    assert all(cell_width(line) <= width or any(name in line for name in names) for line in lines)
    table = causes_markdown(found, 100)
    assert "<img" not in table
    assert "@octocat" not in table
    assert all(line.count("|") >= 5 for line in table.splitlines()[: len(found) + 2])
    assert [cause_json(cause)["words"] for cause in found] == [cause.words for cause in found]


def test_twenty_thousand_trials_are_grouped_without_reading_a_transcript(tmp_path: Path) -> None:
    """Each trial that did not pass is in a cause, and no cause holds one twice."""
    draw = random.Random(3)
    entries = []
    run = store_run(tmp_path, [missed("a", 0.0, wrong("g", "x"), Grade("j", 0.0, "y"))])
    (sample,) = run.entries
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    for number in range(20_000):
        text = " ".join(draw.choices(words, k=6))
        grades = tuple(replace(grade, rationale=f"{text} {number}") for grade in sample.grades)
        key = sample.key._replace(task=f"t{number % 5000}", repetition=number // 5000 + 1)
        claims = (f"the answer names '{number}'", f"{draw.choice(words)} was called"), ()
        entries.append(replace(sample, key=key, grades=grades, failed_checks=claims))
    found = causes_of([entries])

    assert rows(found)[0] == ("g: not met: the answer names …", 20_000, 5_000)
    assert ("j: another reason in each task", 20_000, 5_000) in rows(found)
    assert len(found) == 2 + len(words)
    for cause in found:
        assert len({id(entry) for entry in cause.entries}) == cause.trials


def test_a_screen_counts_trials_and_says_that_they_may_have_several_causes(tmp_path: Path) -> None:
    """The counts of causes add up to more than the title's: it says why."""
    two = [missed(task, at / 10, wrong("a", "one"), wrong("b", "two")) for at, task in enumerate("tuv")]
    run = store_run(tmp_path, [*two, trial("w", 1, 1.0)])
    found = causes_of([run.entries])

    assert causes_title(found, len(run.entries)) == "why trials missed (3 of 4; some for several causes)"
    assert causes_title(found[:1], len(run.entries)) == "why trials missed (3 of 4)"
    assert [line.text for line in cause_lines(found, 60, 9)] == [
        "                   trials  tasks  worst",
        "  a: not met: one       3      3  s/t[rules-1] 0.00",
        "  b: not met: two       3      3  s/t[rules-1] 0.00",
    ]
    assert causes_markdown(found, 1).splitlines() == [
        "| cause | trials | tasks | worst |",
        "| --- | ---: | ---: | --- |",
        "| a: not met: one | 3 | 3 | s/t\\[rules-1\\] 0.00 |",
        "",
        "and 1 more cause",
    ]


def test_a_few_sides_have_a_column_each(tmp_path: Path) -> None:
    """Which of them fails for what is seen at once; JSON and the page's index have the same counts."""
    old = [missed(f"t{at}", 0.0, wrong("g", f"it holds {at}")) for at in range(6)]
    new = [missed(f"t{at}", 0.5, wrong("h", "x", passed=1)) for at in range(7)]
    source = report_source([store_run(tmp_path / "old", old), store_run(tmp_path / "new", new)])
    labels = [side.label for side in source.sides.sides]
    found = causes_of([side.entries for side in source.sides.sides])

    assert [line.text.split() for line in cause_lines(found, 80, 9, labels=["old", "a new one"])] == [
        ["old", "a", "new", "one", "trials", "tasks", "worst"],
        ["h:", "not", "met:", "x", "0", "7", "7", "7", "s/t0[rules-1]", "0.50"],
        ["g:", "not", "met:", "it", "holds", "…", "6", "0", "6", "6", "s/t0[rules-1]", "0.00"],
    ]
    assert cause_lines(found, 80, 9, labels=["x"] * 7)[0].text.split() == ["trials", "tasks", "worst"]
    heads = " | ".join(map(escape_markdown, labels))
    assert f"| cause | {heads} | trials | tasks | worst |" in report_markdown(source)
    document = report_figures(source, ())
    index, trials = page_index(source)
    assert [(row["words"], row["sides"], row["worst"]["side"]) for row in document["causes"]] == [
        ("h: not met: x", [0, 7], 1),
        ("g: not met: it holds …", [6, 0], 0),
    ]
    for row, cause in zip(document["causes"], index["causes"], strict=True):
        assert {**row, "worst": 0} == {**cause, "worst": 0}
        assert trials[cause["worst"]].entry.key.label == row["worst"]["trial"]
    assert [row["causes"] for row in index["trials"]].count([1]) == 6
    run = source.sides.sides[0].run
    assert run is not None
    twice, _ = page_index(report_source([run, run]))
    assert [(row["side"], row["causes"]) for row in twice["trials"]] == [(0, [0]), (1, [0])] * 6


def test_a_list_of_causes_has_as_many_lines_as_there_is_room_for(tmp_path: Path) -> None:
    """But three causes in any case; where lines are narrow, the worst trial stands below."""
    trials = [missed(task, 0.0, wrong(task * 30, "it holds")) for task in "abcdefghi"]
    found = causes(tmp_path, trials)

    def shown(width: int, room: int) -> Sequence[int]:
        lines = cause_lines(found, width, room)
        return len(lines), sum(" not met: it" in line.text or "…" in line.text for line in lines)

    assert shown(100, 100) == (10, 8)
    assert shown(100, 6) == (6, 4)
    assert shown(100, 0) == (5, LEAST_CAUSES)
    # Names have a line of their own there.
    assert shown(60, 11) == (11, 3)


def test_words_of_a_cause_are_whole_where_figures_of_sides_leave_no_room(tmp_path: Path) -> None:
    """They stand above their figures; where not even these have room, all sides are added up."""
    word = "the order was looked up before anything was promised to anybody"
    trials = [missed(f"t{at}", 0.0, wrong("g", word)) for at in range(6)]
    found = causes(tmp_path, *[trials] * 6)
    labels = [f"model-{at}@short" for at in range(6)]

    wide, narrow = (
        [line.text.split() for line in cause_lines(found, width, 9, labels=labels)] for width in (120, 80)
    )
    assert wide[0] == [*labels, "trials", "tasks"]
    assert (" ".join(wide[1]), wide[2]) == (f"g: not met: {word}", [*["6"] * 6, "36", "6"])
    assert (narrow[0], " ".join(narrow[1])) == (["trials", "tasks"], f"g: not met: {word}")


def test_values_that_stand_for_many_tasks_are_named(tmp_path: Path) -> None:
    """Which words answers lack is the reason; a value for each task is none, nor is a long one."""

    def words(values: Sequence[str]) -> str:
        claims = enumerate(f"answer contains '{value}'" for value in values)
        (cause,) = causes(
            tmp_path / values[0], [missed(f"t{at}", 0.0, wrong("g", each)) for at, each in claims]
        )
        assert cause.check == "answer contains …"
        return cause.words

    assert words(["Friday", "refunded"] * 2) == "g: answer lacks 'Friday' or 'refunded'"
    assert words(["a", "b", "c"] * 2) == "g: answer lacks 'a', 'b' or 'c'"
    assert words(["d", "e", "f"]) == words([*"ghij"] * 2) == words(["k", "x" * 40] * 2) == "g: answer lacks …"

"""Which trial is meant: as reports, people and pytest name it."""

from __future__ import annotations

import pytest

from pytest_agenteval.records.plan import TrialKey, trial_name
from pytest_agenteval.records.trial import Ending
from pytest_agenteval.reports.run_view import worst_first
from pytest_agenteval.reports.trial_choice import (
    TrialQuery,
    choose_trials,
    counterpart,
    parse_query,
    task_filter,
    whole_name_matches,
)
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.text.errors import UsageMistake


def entry(
    task: str, score: float | None, suite: str = "pkm", model: str = "rules", **more: object
) -> JournalEntry:
    """Give a journal's entry; below 1 it is missed, without a score errored."""
    variant, repetition = str(more.get("variant", "")), int(str(more.get("repetition", 1)))
    ending: Ending = "errored" if score is None else "passed" if score == 1 else "missed"
    key = TrialKey(suite, task, "agent", model, variant, repetition)
    file = f"evals/{suite}/{task}/task.json"
    return JournalEntry(
        key,
        1,
        ending,
        score,
        (),
        TranscriptLocation("t.jsonl", 0, 1),
        file=file,
        limit=str(more.get("limit", "")),
    )


ENTRIES = [
    entry("route_book", 0.5),
    entry("route_book", 0.25, repetition=2),
    entry("route_book_zh", 1.0, variant="short"),
    entry("route_book_zh", None, model="클로드"),
    entry("route_book", 0.75, suite="card", model="gpt"),
    entry("Quote", 0.0, suite="card", limit="steps"),
]
QUOTE, ZH, KOREAN = ENTRIES[5], ENTRIES[2], ENTRIES[3]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pkm/route_book[rules-2]", ENTRIES[1]),
        ("route_book[gpt-1]", ENTRIES[4]),
        ("card/route_book", ENTRIES[4]),
        ("Quote", QUOTE),
        ("uot", QUOTE),
        ("qUO", QUOTE),
        ("@short", ZH),
        ("evals/card/Quote/task.json", QUOTE),
        ("evals/card/Quote/task.json::Quote[rules-1]", QUOTE),
        ("FAILED evals/card/Quote/task.json::Quote[rules-1]", QUOTE),
        ("/home/mina/repo/evals/card/Quote/task.json::Quote[rules-1]", QUOTE),
        ("../../repo/evals/card/Quote/task.json::Quote", QUOTE),
        ("card/Quote/task.json::Quote[rules-1]", QUOTE),
        ("./task.json::Quote[rules-1]", QUOTE),
        ("evals\\card\\Quote\\task.json::Quote[rules-1]", QUOTE),
        ("::route_book_zh[rules@short-1]", ZH),
        (r"::route_book_zh[\ud074\ub85c\ub4dc-1]", KOREAN),
        ("::route_book_zh[클로드-1]", KOREAN),
    ],
)
def test_a_name_means_one_trial(name: str, meant: JournalEntry) -> None:
    """As reports write it, in part, in any case, as a file, and as an item's id seen from anywhere."""
    assert choose_trials(ENTRIES, parse_query(name)) == [meant]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("worst", TrialQuery(word="worst")),
        ("latest:worst", TrialQuery(word="worst", run="latest")),
        ("claude@20261121:missed", TrialQuery(word="missed", run="claude@20261121")),
        ("x.json::worst", TrialQuery("x.json::worst")),
        ("::missed", TrialQuery("::missed")),
        ("latest:wurst", TrialQuery("latest:wurst")),
    ],
)
def test_a_word_for_an_ending_is_told_from_a_name(text: str, query: TrialQuery) -> None:
    """Alone or behind a run; behind two colons stands an item's name."""
    assert parse_query(text) == query


def test_worst_is_one_and_an_ending_is_all_worst_first() -> None:
    """As misses are ordered everywhere; of a run without misses the lowest score is the worst."""
    assert choose_trials(ENTRIES, parse_query("worst")) == [QUOTE]
    assert choose_trials(ENTRIES, parse_query("missed")) == [QUOTE, ENTRIES[1], ENTRIES[0], ENTRIES[4]]
    assert choose_trials(ENTRIES, parse_query("latest:errored")) == [KOREAN]
    assert choose_trials([ZH], parse_query("worst")) == [ZH]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "pkm/route_book",
            [
                "2 trials could be",
                "  MISSED 0.25  pkm/route_book[rules-2]",
                "  MISSED 0.50  pkm/route_book[rules-1]",
            ],
        ),
        ("route", ["5 trials could be", "  MISSED 0.25  pkm/route_book[rules-2]", *["  "] * 4]),
        ("rout_boook", ["there is no trial 'rout_boook'; the nearest:", "  route_book", "  route_book_zh"]),
        ("route_bok[rules-2]", ["there is no trial", "  pkm/route_book[rules-2]", *["  "] * 4]),
        ("zzz", ["there is no trial 'zzz'; agenteval show worst shows the worst"]),
        ("elsewhere/task.json::Quote", ["there is no trial", "  card/Quote[rules-1]", *["  "] * 3]),
        ("latest:failed", ["no trial of 6 trials is failed: 1 passed, 4 missed, 1 errored"]),
    ],
)
def test_what_is_not_one_trial_is_told_with_names_that_are(name: str, lines: list[str]) -> None:
    """Several are listed worst first, each as it can be typed; for none the nearest are named."""
    with pytest.raises(UsageMistake) as mistake:
        choose_trials(ENTRIES, parse_query(name))

    told = str(mistake.value).splitlines()
    assert len(told) == len(lines), told
    assert all(line.startswith(start) for line, start in zip(told, lines, strict=True)), told


def test_the_same_trial_of_another_run_may_have_another_model() -> None:
    """Its own model and prompt first, then the only ones there are; several are listed."""
    old = [entry("route_book", 1.0, model="opus"), entry("route_book", 1.0, model="opus", repetition=2)]

    assert counterpart(ENTRIES, ENTRIES[1]) == ENTRIES[1]
    assert counterpart(old, ENTRIES[1]) == old[1]
    assert counterpart([old[0]], ENTRIES[1]) == old[0]
    with pytest.raises(UsageMistake, match="2 trials could be"):
        counterpart([old[0], entry("route_book", 0.5)], entry("route_book", 0.5, model="nop"))
    with pytest.raises(UsageMistake, match="there is no trial"):
        counterpart(old, QUOTE)


def test_names_are_whole_however_odd() -> None:
    """A task's id of 300 characters, or with an escape in it, is found as it is printed and as it is."""
    odd = [entry("x" * 300, 0.5), entry("a\x1b[31mb", 0.5)]

    for each in odd:
        assert choose_trials(odd, parse_query(trial_name(each.key))) == [each]
        assert choose_trials(odd, parse_query(each.key.task)) == [each]


@pytest.mark.parametrize("task", ["q7", "a  b", " a", "미나 é", "tab\there", "x" * 190, "x" * 400, "q[7]"])
def test_no_trial_is_left_out_unread_that_has_the_whole_name(task: str) -> None:
    """Names are written out only for tasks that pass a quick test."""
    found = entry(task, 1.0)
    name = trial_name(found.key)
    for typed in (name, found.key.label, name.removeprefix("pkm/"), f"pkm/{task}", task, f" {name} "):
        if whole_name_matches([found], typed):
            assert task_filter(typed)(task), typed
    assert whole_name_matches([found, entry("other", 1.0)], name) == [found]
    assert not task_filter("q77")("other")


def test_equally_bad_trials_stand_in_the_order_of_their_names() -> None:
    """Whatever the order in which they are given."""
    same = [entry("b", 0.5), entry("c", None), entry("a", 0.5), entry("a", None)]
    assert [each.key.task for each in worst_first(same)] == ["a", "b", "a", "c"]

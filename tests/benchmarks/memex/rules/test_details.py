"""Every rule of the rule-based model, pinned by what it does: whoever changes one changes first figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.rules import (
    best_file,
    files_of,
    fill_template,
    hashtags,
    is_trivial,
    name,
    new_file,
    number,
    opt_out,
    paths_in,
    sentence,
    telling_words,
    template_cues,
    title,
    unique_end,
)
from pytest_agenteval.chat.offline import rules as rules_model
from pytest_agenteval.records.tool_spec import ToolSpec

PUBLISHED = "Thursday, 2026-09-17 20:30:00"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("see https://a.example/b", ["link"]),
        ("see http://a.example", ["link"]),
        ("that was $ 9", ["transaction", "metric"]),
        ("that was 9€", ["transaction", "metric"]),
        ("nine and 9.50 euros, 1,20 pounds", ["transaction", "metric"]),
        ("9 dollar", ["transaction", "metric"]),
        ("at 7:05 there", ["event", "metric"]),
        ("at 23:59 there", ["event", "metric"]),
        ("at 24:10 there", ["metric"]),
        *((f"on {day}day", ["event"]) for day in ["mon", "tues", "wednes", "thurs", "fri", "satur", "sun"]),
        *((f"it is {when}", ["event"]) for when in ("today", "tonight", "tomorrow", "next week")),
        ("yesterday", []),
        ("counted 12 birds", ["metric"]),
        ("birds12", []),
        ("a 4/5 from me", ["metric", "rating"]),
        ("a 9 out of 10 from me", ["metric", "rating"]),
        ("four stars", ["rating"]),
        ("a 4/6 from me", ["metric"]),
        *((f"so {cue} then", ["routine"]) for cue in ("every", "daily", "habit")),
        ('she said "a bird in the hand is it"', ["quote"]),
        ("she said \u201ca bird in the hand\u201d", ["quote"]),
        ('she said "a bird in a row"', ["quote"]),
        ('she said "a bird in a ro"', []),
        *(
            (f"I {cue} go", ["task"])
            for cue in (
                "must",
                "need to",
                "have to",
                "has to",
                "should",
                "remember to",
                "don't forget",
                "todo",
            )
        ),
        *((f"so {cue} then", ["progress"]) for cue in ("progress", "finished", "halfway")),
        ("that is 8% done", ["metric", "progress"]),
        ("that is 8 % done", ["metric", "progress"]),
        *(
            (f"so {cue} then", ["mood"])
            for cue in (
                *("happy", "sad", "angry", "proud", "annoyed", "worried", "anxious", "excited", "tired"),
                *("relieved", "lonely", "grateful"),
            )
        ),
        *((f"I {cue} Bo", ["person"]) for cue in ("met", "introduced to", "talked to", "spoke with")),
        *(
            (f"I {cue} it", ["place"])
            for cue in (
                "visited",
                "went to",
                "stopped by",
                "cafe",
                "caf\u00e9",
                "restaurant",
                "museum",
                "park",
            )
        ),
        ("saddle up, parking, metal", []),
        ("HAPPY", ["mood"]),
        ("proud, and must go at 7:05", ["mood", "task", "event", "metric"]),
        ("every day until tomorrow", ["routine", "event"]),
    ],
)
def test_a_cue_brings_its_template_to_mind(text: str, ids: list[str]) -> None:
    """Each cue of each rule, at a word's beginning and end, the earliest first, then by rule."""
    assert template_cues(text) == ids


@pytest.mark.parametrize(
    ("id", "text", "fields"),
    [
        ("link", "see https://a.example/b now", {"url": "https://a.example/b"}),
        ("link", "nothing", None),
        ("transaction", "paid Bo Ek 9,50 EUR", {"merchant": "Bo Ek", "amount": "9,50 EUR"}),
        ("transaction", "paid $12.50, a lot", {"merchant": "paid $12.50, a lot", "amount": "$12.50"}),
        ("transaction", "nothing", None),
        ("routine", "walk the dog each day", {"habit_name": "walk the dog each", "streak": 1}),
        ("rating", "I gave Copper Canals 7/10", {"subject": "Copper Canals", "score": 7}),
        ("rating", "nothing", None),
        ("quote", "so \u201cit is\u201d", {"content": "it is"}),
        ("quote", "nothing", None),
        ("metric", "run 6.25 km", {"items": [{"title": "run 6.25 km", "value": 6.25}]}),
        ("metric", "nothing", None),
        ("event", "tea at 7:05", {"title": "tea at 7:05", "start_time": "2026-09-17T07:05:00"}),
        ("event", "tea at some time", {"title": "tea at some time", "start_time": "2026-09-17T09:00:00"}),
        ("task", "call him", {"title": "call him", "is_completed": False}),
        ("progress", "3 of 20 ribs", {"current": 3, "total": 20, "title": "3 of 20 ribs"}),
        ("progress", "nothing", None),
        ("mood", "so sad", {"mood_name": "so sad", "color_hex": "#8888AA"}),
        ("person", "there I met Wanda Brisk", {"name": "Wanda Brisk"}),
        ("place", "tea in the Box", {"name": "Box"}),
    ],
)
def test_a_template_is_filled_in_the_simplest_way(
    id: str, text: str, fields: Mapping[str, Any] | None
) -> None:
    """Each template's fields, and nothing where the entry has not what they need."""
    assert fill_template(id, text, PUBLISHED) == fields


def test_an_event_without_a_day_is_none() -> None:
    """An entry that does not say when it was published gives no event."""
    assert fill_template("event", "tea at 7:05", "some day") is None


def test_pieces_are_taken_out_of_a_text() -> None:
    """Four words are a title; names, numbers, sentences and hashtags are the first ones."""
    assert (title("one two three four five"), title(" \n")) == ("one two three four", "Empty note")
    assert name("Today Wanda Brisk came, then Bo") == "Today Wanda Brisk"
    assert name("Sold to Bo. It was cheap") == "Bo"
    assert name("It was cheap") == "It was cheap"
    assert (number("no"), number("a 12 b 3"), number("3.50")) == (None, 12, 3.5)
    assert isinstance(number("12"), int)
    assert sentence("It is. It was! So?") == "It is."
    assert hashtags("#Trip to https://a.example/#no #Fun") == ["Trip", "Fun"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"So. {asks} {verb} this. Bye."
            for asks in ("Do not", "Don't", "Don\u2019t", "Dont", "No need to", "Please never")
            for verb in ("save", "store", "keep", "file", "remember", "record")
        ),
        "So. Off the record. Bye.",
        *(
            f"好。这个{words}。再见。"
            for words in ("不要保存", "不要记", "不要存", "别保存", "别记", "别存", "不用保存", "不用记")
        ),
        *(f"응. 이건 {verb}하지 마. 끝." for verb in ("저장", "기록", "기억", "보관")),
        *(f"응. 이건 {verb}하지말아. 끝." for verb in ("저장", "기록")),
        *(f"はい。{verb}しないで。では。" for verb in ("保存", "記録", "メモ")),
        *(f"はい。{verb}ないで。では。" for verb in ("覚え", "残さ")),
    ],
)
def test_the_sentence_that_asks_not_to_keep_it_is_quoted(text: str) -> None:
    """Each wording in four languages; of the entry only the sentence that says so."""
    quote = opt_out(text)

    assert quote is not None
    assert quote in text
    assert quote not in (text, "")
    assert not quote.startswith(("So.", "好", "응", "はい"))


def test_an_entry_that_only_sounds_like_it_is_kept() -> None:
    """To save and to record are no opt-outs by themselves."""
    assert opt_out("I want to save more and record it. We don't see why.") is None
    assert (is_trivial("... 12 !"), is_trivial("🥱"), is_trivial("a"), is_trivial("睡")) == (
        True,
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        *((f"the {cue} of it", f"/Projects/the {cue} of it.md") for cue in ["project", "deadline", "launch"]),
        *(
            (f"a {cue} now", f"/Projects/a {cue} now.md")
            for cue in ["milestone", "draft", "prototype", "release", "plan"]
        ),
        *(
            (f"a {cue} now", f"/Areas/a {cue} now.md")
            for cue in ["health", "doctor", "sleep", "habit", "money", "family"]
        ),
        *((f"a {cue} now", f"/Areas/a {cue} now.md") for cue in ["team", "manager"]),
        *(
            (f"tea every {when}", f"/Areas/tea every {when}.md")
            for when in ["day", "morning", "night", "week"]
        ),
        ("Planning for the doctor", "/Projects/Planning for the doctor.md"),
        ("airplane tickets", "/Resources/airplane tickets.md"),
        ("one two three four five", "/Resources/one two three four.md"),
        ("a" * 30 + " " + "b" * 30, f"/Resources/{'a' * 30} {'b' * 9}.md"),
    ],
)
def test_a_new_file_stands_where_a_keyword_says(text: str, path: str) -> None:
    """Projects before areas before resources; four words, forty letters."""
    assert new_file(text) == path


def test_a_file_is_chosen_by_the_words_of_its_path() -> None:
    """Its own name counts twice, an ending may differ, short and common words do not count."""
    files = ["/Areas/Health/Sleep.md", "/Areas/Sleep/Health.md", "/Resources/Recipes.md", "/Projects/ab.md"]

    assert best_file("bad sleep", files) == "/Areas/Health/Sleep.md"
    assert best_file("health first", files) == "/Areas/Sleep/Health.md"
    assert best_file("sleep and health", files) == "/Areas/Health/Sleep.md"
    assert best_file("a new recipe", files) == "/Resources/Recipes.md"
    assert best_file("ab resources areas", files) is None
    assert best_file("昨晚睡眠不好", ["/A/运动.md", "/A/睡眠.md"]) == "/A/睡眠.md"
    assert best_file("眠", ["/A/眠.md"]) is None
    assert best_file("asleep", ["/A/Sleep.md"]) is None
    assert best_file("planning", ["/A/Plans.md"]) == "/A/Plans.md"
    assert best_file("a cat sat", ["/A/Cat.md"]) is None
    assert best_file("tide pole again", ["/B/Tide Tables.md", "/B/Tide Pole.md"]) == "/B/Tide Pole.md"


def test_the_longest_words_are_looked_for() -> None:
    """Three of them, of five letters and more, each once, the earlier of two that are as long."""
    assert telling_words("four fiver sixsix seveneight fiver seventy") == ["seveneight", "seventy", "sixsix"]
    assert telling_words("four five three") == ["three"]


def test_trees_and_lists_are_read() -> None:
    """Indentation makes folders, only Markdown files count, the end of a file stands there once."""
    assert files_of("/\n  A/\n    B/\n      c.md\n    d.md\n  e.md\n  f.txt") == [
        "/A/B/c.md",
        "/A/d.md",
        "/e.md",
    ]
    assert paths_in("/a.md\n  /b.md \n/c.txt\nFound 2") == ["/a.md", "/b.md"]
    assert unique_end(["a", "x", "b", "x", ""]) == "b\nx"
    assert unique_end(["x"]) == "x"
    assert unique_end([]) is None


def test_what_stands_in_quotes_is_what_a_tool_is_asked_for() -> None:
    """A title in quotes goes to the tool as it is, and not the words around it."""
    query = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    search = ToolSpec("search_books", "Searches books.", query)
    message = {"role": "user", "content": "Please search books for 'The Old Mill' now."}

    move = rules_model.call_likeliest_tool([message], [search])

    assert move is not None
    assert [(tool, dict(args)) for tool, args in move.calls] == [("search_books", {"query": "The Old Mill"})]

"""Short answers are found (prices, times, names of files), and words that any prompt needs are free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.loop.contamination.search import prompt_leaks, read_files
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import write

FILE = "Boats/Harbour Dues.md"


def expecting(id: str, content: str, *facts: Any, **config: Any) -> dict[str, Any]:
    """Give a task that asks something, and the facts that its grader looks for."""
    graders = [{"name": "facts", "config": {"facts": [*facts], **config}}]
    return {"id": id, "input": {"content": content}, "graders": graders}


def suite_of(folder: Path, *tasks: dict[str, Any]) -> Path:
    """Write a suite of these tasks."""
    write(folder, {"suite.yaml": "name: s", **{f"{each['id']}.json": each for each in tasks}})
    return folder


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite in English and Japanese."""
    schema = {
        "mode": {"enum": ["cheapestRouteOnly", "fastestRouteOnly"]},
        "centerLongitude": {"type": "number"},
    }
    replies = ["before answering", "afterwards"]
    month = expecting("harbour_close_the_month", "Close it.", "2,386", "655", "201")
    return suite_of(
        tmp_path_factory.mktemp("suite"),
        {**month, "metadata": {"failure_bucket": "close_the_books"}},
        expecting("harbour_ferry_time", "When?", "18:45", "20:26", "18:00", "8:21.4"),
        expecting("harbour_dues_filed", "Where do they go?", "ledger", files=[FILE]),
        expecting("harbour_manners", "How is it said?", replies, "polite", ["independently", "alone"]),
        expecting("harbour_day", "The pilot comes on Tuesday, it seems.", "Tuesday"),
        expecting("harbour_route", "Which way is it?", "harbourmaster", arg_schema=schema),
        expecting("harbour_count", "How many?", "10,000", "48,091", ["3 seconds", "three seconds"]),
        expecting("harbour_toll", "What is it?", "6,100", "1,700", "2031-12-24"),
        expecting("harbour_fault", "What then?", error_type="malformed", arg={"type": "boolean"}),
        expecting("harbour_folder", "In which folder?", folders=["Resources/Lightships/"]),
        expecting("harbour_card", "何が要りますか。", "ふじいろカード"),
        expecting("harbour_book", "《渡口账簿》：押出去的不是船钱，是习惯。", files=["Books/渡口账簿.md"]),
    )


LEAKING = {
    "It is 2.386 in all.": ["2.386"],
    "It is 2386 in all.": ["2386"],
    "Leave at ١٨:٤٥.": ["١٨:٤٥"],
    "A time such as 8:21.4 stays.": ["8:21.4"],
    "Write 12,386 or 23861.": [],
    "1. Take 8\n2. Take 21.4": [],
    "It is the year 2026.": [],
    "At 20:26 it leaves.": ["20:26"],
    "Close at 18:00.": [],
    "Ports p2386 and 0x2386.": [],
    "Of that, food 655 and transport 201.": ["655 … 201"],
    "No more than 655 signs.": [],
    "Put it in Harbour Dues.": ["Harbour Dues"],
    "Put it in `harbour-dues.md`.": ["harbour-dues.md"],
    "例：渡口账簿": ["渡口账簿"],
    "close_the_month fails": ["close_the_month"],
    "close the month first": [],
    "close_the_books is the bucket": [],
    "ふじいろ カードを もってくる": ["ふじいろ カード"],
    "押出去的不是船钱是习惯": ["押出去的不是船钱是习惯"],
    "Think before answering.": [],
    "Be polite.": [],
    "Work independently.": [],
    "Ask on Tuesday.": [],
    "Take the cheapestRouteOnly, set centerLongitude.": [],
    "Call the harbourmaster.": ["harbourmaster"],
    "Search Resources/Lightships.": [],
    "A toll of 6,100.": [],
    "A toll of 6,100, in all 1,700 metres.": ["6,100 … 1,700"],
    "It is due on 24/12/2031 or 24. 12. 2031.": ["24. 12. 2031", "24/12/2031"],
    "Due 12/24/2031.": ["12/24/2031"],
    "No more than 10,000 signs.": [],
    "It is 48.091, or 4 8 0 9 1.": ["4 8 0 9 1", "48.091"],
    "| 48 | 091 |": [],
    "Wait 3 seconds.": [],
    "Say so where a result is malformed, or no boolean.": [],
}
"""What a prompt says, and what of it is a leak."""


@pytest.fixture(scope="module")
def leaks(suite: Path) -> dict[str, list[str]]:
    """What leaks of each prompt, all looked at together: no prompt makes another's words leak."""
    found = prompt_leaks({}, {prompt: prompt for prompt in LEAKING}, suite)
    return {prompt: [leak.text for leak in found if leak.file == prompt] for prompt in LEAKING}


@pytest.mark.parametrize("prompt", LEAKING)
def test_short_answers_leak_and_words_of_every_prompt_do_not(
    leaks: dict[str, list[str]], prompt: str
) -> None:
    """An answer is told in any format; what a good engineer writes about a whole bucket is no leak."""
    assert leaks[prompt] == LEAKING[prompt]


def test_where_every_noun_has_a_capital_it_makes_no_name(tmp_path: Path) -> None:
    """As in German: what says that a word is a name elsewhere says nothing there."""
    asked = "Bitte lege die Rechnung vom Bäcker zu den Belegen für das Finanzamt."
    told = "Ich habe den Schlüssel für den Keller in der Schublade neben dem Fenster."
    suite = suite_of(
        tmp_path,
        expecting("eins", asked, ["Rechnung", "Quittung"]),
        expecting("zwei", told, ["Schlüssel", "Schloss"]),
    )
    assert prompt_leaks({}, {"p": "Lies jede Rechnung zuerst."}, suite) == ()


def test_a_line_with_many_leaks_costs_no_more_than_its_length(tmp_path: Path) -> None:
    """Minified texts are one line: what stands there is read once and not for every leak again."""
    suite = suite_of(tmp_path, expecting("pots", "How many?", "48091"))
    assert len(prompt_leaks({}, {"p": "48091 " * 4_000}, suite)) == 1


def test_a_prompt_in_utf_16_is_read_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some editors write it; byte for byte it would hide everything."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.md").write_bytes("Runa Fjeld".encode("utf-16"))

    assert read_files(["*.md"]) == {"p.md": "Runa Fjeld"}


def test_a_glob_that_names_a_folder_says_how_its_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files below it are what was meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").mkdir()

    with pytest.raises(UsageMistake, match=r"prompts: a folder; .* 'prompts/\*\*'"):
        read_files(["prompts"])

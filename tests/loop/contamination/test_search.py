"""What counts as a leak: texts that only one task has, and words that nobody writes by chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.loop.contamination.search import prompt_leaks
from pytest_agenteval.loop.contamination.task_texts import pattern_literals
from tests.suites import task, write

SHARED = "Answer the following question about our harbour in one short sentence, please:"


def expecting(id: str, content: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Give a task with an input and the settings of its grader."""
    graders = [{"name": "facts", "config": config}]
    return {**task(id), "input": {"content": content}, "graders": graders, "script": None, **more}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite of five tasks, of which the last two start from one tree."""
    folder = tmp_path_factory.mktemp("suite")
    calls = {"turns": [{"calls": [{"tool": "post_ledger", "args": {"memo": "Paid by Ottilie in cash"}}]}]}
    rent = {"facts": ["lobster", ["quayside", "jetty"], "kelp-beds"]}
    greet = {"total": 1250000.0, "share": 0.5, "facts": ["mainsail"]}
    tide = {"patterns": [r"(?i)half\s+past\s+(?:nine|9:30)|Svartholm\b", r"(?!never this)"]}
    tasks = [
        expecting("quay_rent", f"{SHARED} who pays?", rent),
        expecting("pots", f"{SHARED} how many pots has Runa Fjeld?", {"facts": ["Runa Fjeld", "lobster"]}),
        expecting("greet", f"{SHARED} who greets?", greet),
        expecting("tides", "Which tide?", tide, reference_solution=calls),
        expecting("tree", "What is there?", {"needle_path": "a/b"}),
    ]
    for number in (3, 4):
        tasks[number]["input"]["base_fixture"] = "tree"
    tree = "The old pilot keeps his charts in a drawer below the barometer, sorted by wreck.\n"
    for each in tasks[:3]:
        each["graders"][0]["config"] |= {"files": ["Harbour/Boats", "Harbour/Boats/Small Ones.md"]}
    write(folder, {"suite.yaml": "name: s", "tree/notes.md": tree, "pytest.ini": "[pytest]"})
    write(folder, {f"{each['id']}.json": each for each in tasks})
    (folder / "tree" / "photo.png").write_bytes(b"\x89PNG\xff\xfe")
    return folder


LEAKING: dict[str, list[str]] = {
    "Think of lobster pots.": [],
    "At the jetty, the lobster pots are counted.": ["quay_rent: jetty … lobster"],
    "At the jetty or the quayside.": [],
    "The jetty is long. " + "It goes on and on, as all of them do. " * 3 + "Lobster is served.": [],
    "Reef the mainsail.": ["greet: mainsail"],
    "Kelp beds are no place.": ["quay_rent: Kelp beds"],
    "Runa Fjeld's pots": ["pots: Runa Fjeld"],
    "A total of 1 250 000.": ["greet: 1 250 000"],
    "Half of it: 0.50.": [],
    "Say it is half past nine.": [],
    "Sail to Svartholms Sund.": [],
    "Never this, never that.": [],
    "Call post_ledger once.": [],
    "Write: paid by OTTILIE, in cash.": ["tides: paid by OTTILIE, in cash"],
    "Greet the user politely.": [],
    "File it in Harbour/Boats.": [],
    "File it in `Harbour/Boats/Small Ones.md`.": ["greet: Harbour/Boats/Small Ones.md"],
    "See quay-rent for more.": ["quay_rent: quay-rent"],
    SHARED: [],
    "He keeps his charts in a drawer below one.": [],
    "The old pilot keeps his charts in a drawer.": ["tides: The old pilot keeps his charts in a drawer"],
    "": [],
}
"""What a prompt says, and what of it is a leak, of which task."""


@pytest.fixture(scope="module")
def leaks(suite: Path) -> dict[str, list[str]]:
    """What leaks of each prompt, all looked at together: no prompt makes another's words leak."""
    found = prompt_leaks({}, {prompt: prompt for prompt in LEAKING}, suite)
    return {
        prompt: [f"{leak.task}: {leak.text}" for leak in found if leak.file == prompt] for prompt in LEAKING
    }


@pytest.mark.parametrize("prompt", LEAKING)
def test_a_leak_is_what_one_task_has_and_nobody_writes_by_chance(
    leaks: dict[str, list[str]], prompt: str
) -> None:
    """Names, numbers, rows of words; of ordinary words a rare one, or two of a task near each other."""
    assert leaks[prompt] == LEAKING[prompt]


def test_what_stands_in_an_old_file_is_not_added(suite: Path) -> None:
    """Whichever file it stood in, and however it was written there."""
    new = {"a": "Reef the mainsail.\nMAIN-SAIL and Runa Fjeld.", "b": "nothing"}
    leaks = prompt_leaks({"z": "the\nmainsail"}, new, suite)

    assert [(leak.file, leak.line, leak.text, leak.added) for leak in leaks] == [
        ("a", 1, "mainsail", False),
        ("a", 2, "MAIN-SAIL", False),
        ("a", 2, "Runa Fjeld", True),
    ]


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        (r"pier\s*(?:nine|9)[^,]*until\s+half past", ["pier ", "nine", "9", "until half past"]),
        (r"4,?187,?000원", ["4,187,000원"]),
        (r"(?<!\d)48091(?![\d,])", ["48091"]),
        (r"hours?\b|^# days$", ["hour", " # days "]),
        (r"\A(?!.*(?:no|none))yes{2,3}", ["yes"]),
        (r"BX[- ]?907\.x", ["BX 907.x"]),
        (r"(?P<name>one)(?=two)\1[abc]three\d+", ["one", "two", "three"]),
        ("plain text", ["plain text"]),
    ],
)
def test_a_pattern_gives_what_it_finds_letter_by_letter(pattern: str, pieces: list[str]) -> None:
    """Alternatives apart, without what may be missing and what must not be there."""
    assert list(pattern_literals(pattern)) == pieces

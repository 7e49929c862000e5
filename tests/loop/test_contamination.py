"""What of tasks counts as a leak in a prompt, whatever way it is written there."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.cli.validate import read_files
from pytest_agenteval.loop.contamination import SearchedFile, compact, prompt_leaks
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.text.errors import UsageMistake
from tests.suites import task, write

SHARED = "Answer the following question about our harbour in one short sentence, please:"


def expecting(id: str, content: str, facts: list[Any], **more: Any) -> dict[str, Any]:
    """Give a task with an input and the facts that its grader looks for."""
    config = {"facts": facts, **more.pop("config", {})}
    graders = [{"name": "facts", "config": config}]
    return {**task(id), "input": {"content": content}, "graders": graders, "script": None, **more}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite in several languages; the last two tasks start from one tree, of which one may be named."""
    folder = tmp_path_factory.mktemp("suite")
    calls = {"turns": [{"calls": [{"tool": "post_ledger", "args": {"memo": "Paid by Ottilie in cash"}}]}]}
    patterns = [
        r"(?i)half\s+past\s+(?:nine|9:30)|Svartholm\b",
        r"(?!never this)",
        r"(?:pier|quay)\s*BX[- ]?907\.x",
    ]
    folders = {"files": ["Harbour/Boats", "Harbour/Boats/Small Ones.md"]}
    schema = {"mode": {"enum": ["cheapestRouteOnly", "fastestRouteOnly"]}, "arg": {"type": "boolean"}}
    tasks = [
        expecting("quay_rent", f"{SHARED} who pays?", ["lobster", ["quayside", "jetty"]], config=folders),
        expecting(
            "pots", f"{SHARED} how many pots has Runa Fjeld?", ["Runa Fjeld", "lobster"], config=folders
        ),
        expecting("greet", f"{SHARED} who greets?", ["mainsail", 1250000.0, 0.5], config=folders),
        expecting("tides", "Which tide?", [], config={"patterns": patterns}, reference_solution=calls),
        expecting("month", "Close it.", ["2,386", "655", "18:45", "20:26", "18:00", "10,000", "48,091"]),
        expecting("manners", "How is it said?", [["before answering", "afterwards"], "polite"]),
        expecting("route", "Which way is it on a Tuesday?", ["harbourmaster", "Tuesday"], config=schema),
        expecting("folder", "Where?", ["Resources/Lightships/"], metadata={"canary": "kelp-4417"}),
        expecting("card", "何が要りますか。", ["ふじいろカード"]),
        expecting("book", "渡口账簿里写着押出去的不是船钱是习惯。", []),
        expecting("tree", "What is there?", []),
    ]
    tasks.append(expecting("also_tree", "What else?", ["48,091"], split="held_out"))
    for each in tasks[-2:]:
        each["input"]["base_fixture"] = "tree"
    tree = "The old pilot keeps his charts in a drawer below the barometer, sorted by wreck.\n"
    write(folder, {"suite.yaml": "name: s", "tree/notes.md": tree, "pytest.ini": "[pytest]"})
    write(folder, {f"{each['id']}.json": each for each in tasks})
    (folder / "tree" / "photo.png").write_bytes(b"\x89PNG\xff\xfe")
    return folder


LEAKING: dict[str, list[str]] = {
    "At the jetty, think of lobster pots.": [],
    "Reef the mainsail.": ["greet: mainsail"],
    "Reef the main sail.": [],
    "Runa Fjeld's pots": ["pots: Runa Fjeld"],
    "A total of 1 250 000.": ["greet: 1 250 000"],
    "Half of it: 0.50.": [],
    "Sail to Svartholms Sund.": [],
    "Half past nine.": [],
    "Never this, never that.": [],
    "Go to BX 907 x.": ["tides: BX 907 x"],
    "Call post_ledger once.": [],
    "Write: paid by OTTILIE, in cash.": ["tides: paid by OTTILIE, in cash"],
    "Greet the user politely.": [],
    "File it in Harbour/Boats, or in Resources/Lightships.": [],
    "See quay-rent for more.": ["quay_rent: quay-rent"],
    SHARED: [],
    "He keeps his charts in a drawer below one.": [],
    "The old pilot keeps his charts in a drawer.": ["tree: The old pilot keeps his charts in a drawer"],
    "It is 2.386 in all, or 2386.": ["month: 2.386", "month: 2386"],
    "Leave at ١٨:٤٥.": ["month: ١٨:٤٥"],
    "Write 12,386 or 23861, in ports p2386 and 0x2386.": [],
    "It is the year 2026; close at 18:00; no more than 655 signs of 10,000.": [],
    "At 20:26 it leaves.": ["month: 20:26"],
    "It is 48.091, or 4 8 0 9 1.": ["month: 4 8 0 9 1", "month: 48.091"],
    "ふじいろ カードを もってくる": ["card: ふじいろ カード"],
    "账簿里写着，押出去的不是船钱，是习惯": ["book: 账簿里写着，押出去的不是船钱，是习惯"],
    "Think before answering. Be polite. Ask on Tuesday.": [],
    "Take the cheapestRouteOnly; no boolean.": [],
    "Call the harbourmaster.": ["route: harbourmaster"],
    "Kelp 4417 it is.": ["folder: Kelp 4417"],
    "": [],
}
"""What a prompt says, and what of it is a leak, of which task."""


@pytest.fixture(scope="module")
def leaks(suite: Path) -> dict[str, list[str]]:
    """What leaks of each prompt, all looked at together: no prompt makes another's words leak."""
    found = prompt_leaks({}, {prompt: prompt for prompt in LEAKING}, [suite_with_tasks(suite / "suite.yaml")])
    return {
        prompt: [f"{leak.task}: {leak.text}" for leak in found if leak.file == prompt] for prompt in LEAKING
    }


@pytest.mark.parametrize("prompt", LEAKING)
def test_a_leak_is_what_one_task_has_and_nobody_writes_by_chance(
    leaks: dict[str, list[str]], prompt: str
) -> None:
    """Ids, numbers, rows of words, and rare words that an answer needs; not tools, folders and categories."""
    assert leaks[prompt] == LEAKING[prompt]


def test_what_stands_in_an_old_file_is_not_added(suite: Path) -> None:
    """Whichever file it stood in, and however it was written there."""
    new = {"a": "Reef the mainsail.\nMAIN-SAIL and Runa Fjeld.", "b": "nothing"}
    leaks = prompt_leaks({"z": "the\nmainsail"}, new, [suite_with_tasks(suite / "suite.yaml")])

    assert [(leak.file, leak.line, leak.text, leak.added) for leak in leaks] == [
        ("a", 1, "mainsail", False),
        ("a", 2, "MAIN-SAIL", False),
        ("a", 2, "Runa Fjeld", True),
    ]


ALPHABETS = {
    "Latin": "abcxyzäößéñłø0123456789",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяё",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψωάέήίόύώς",
    "Hangul": "가나다라마바사힣글꽃뷁",
    "Han": "上下左右渡口水位石头茶窖",
    "kana": "あいうがぎぐぱんゃっアイウガギグパンャッー",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويأإآ",
    "Devanagari": "कखगघचजतदनपबमयरलवशसहािीुूेैोौ्",
    "Thai": "กขคงจชซตทนบปพมยรลวสหอะาิีึืุูเแโใไ่้",
}
BETWEEN = ("\u200b", "\u00ad", "\u2060", "\u202e", " ", "-", "_", "**", "\n", "\r\n", "·", "、", "<")


def letters(text: str) -> list[str]:
    """Take a text apart, each mark with the letter that it belongs to."""
    apart: list[str] = []
    for char in text:
        if apart and unicodedata.category(char)[0] == "M":
            apart[-1] += char
        else:
            apart.append(char)
    return apart


def wide(text: str) -> str:
    """Write ASCII in full width."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def escaped(text: str) -> str:
    """Write what is not ASCII as JSON does, line for line."""
    pairs = text.encode("utf-16-be")
    codes = (int.from_bytes(pairs[place : place + 2], "big") for place in range(0, len(pairs), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def entities(text: str) -> str:
    """Write everything as HTML may, but for ends of lines."""
    return "".join(char if char in "\r\n" else f"&#x{ord(char):x};" for char in text)


SPELLINGS: list[Callable[[str], str]] = [
    str, str.upper, str.title, wide, lambda text: unicodedata.normalize("NFD", text), escaped, entities,
]  # fmt: skip
needles = st.sampled_from(sorted(ALPHABETS)).flatmap(
    lambda script: st.text(ALPHABETS[script], min_size=12, max_size=30).filter(
        lambda text: len(compact(text)) >= 8 and unicodedata.category(text[0])[0] != "M"
    )
)


@given(needles, st.sampled_from(BETWEEN), st.integers(1, 5), st.sampled_from(SPELLINGS))
def test_a_text_is_found_however_it_is_written(
    needle: str, between: str, each: int, spelling: Callable[[str], str]
) -> None:
    """In any case, width, form and escape, over several lines: its first line is reported."""
    parts = letters(needle)
    groups = ["".join(parts[place : place + each]) for place in range(0, len(parts), each)]
    prompt = SearchedFile("p", f"first line\nand then {spelling(between.join(groups))} behind\nlast line")

    spans = list(prompt.spans(compact(needle)))

    assert spans
    assert {prompt.line_of(start) for start, _ in spans} == {2}
    assert compact(prompt.words(*spans[-1])) == compact(needle)


@pytest.mark.parametrize(
    ("value", "prompt", "stands"),
    [
        ("gravel", "eyes like gravel.", True),
        ("gravel", "two gravels", True),
        ("gravel", "gravelly voices", True),
        ("gravel", "engraveled", False),
        ("gravel", "ungravel", False),
        ("harrowjunction", "theharrowjunctionstation", True),
        ("48091", "148091", False),
        ("48091", "480915", False),
        ("水位四十二", "记下水位四十二厘米", True),
        ("풀잎테이블", "서면풀잎테이블에서", True),
        ("النخيل", "بوادي والنخيل", True),
    ],
)
def test_short_texts_are_no_part_of_other_words(value: str, prompt: str, stands: bool) -> None:
    """Where words stand apart a short one begins where a word does, and a number is whole."""
    assert bool(list(SearchedFile("p", prompt).spans(compact(value)))) == stands


def test_a_glob_that_names_a_folder_says_how_its_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files below it are what was meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").mkdir()

    with pytest.raises(UsageMistake, match=r"prompts: a folder; .* 'prompts/\*\*'"):
        read_files(["prompts"])

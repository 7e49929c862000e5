"""What the PKM agent's tools do, call by call (calls.yaml), and what no table can say of them."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.pkm_agent import reading_tools
from pytest_agenteval.benchmarks.memex.pkm_agent.agent import pkm_tools
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import lines_of
from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import (
    MOST_BYTES_TOGETHER,
    REMINDER,
    excerpt,
    overview,
)
from pytest_agenteval.benchmarks.memex.rules import files_of
from pytest_agenteval.records.limits import Clock
from pytest_agenteval.text import patterns
from pytest_agenteval.text.errors import FixtureBroken
from pytest_agenteval.text.patterns import read_pattern
from pytest_agenteval.tools.tool import ToolFailed
from tests.yaml_files import read_yaml

from .called import FACT, FILES, NOW, Called

CASES = read_yaml(Path(__file__).with_name("calls.yaml"))
INSIGHT, CARD = "update_timeline_card_insight", "Cards/2026/09/17_ts_1.yaml"
PENDING = {"fact_id": FACT, "timestamp": 1789635600, "status": "pending", "tags": [], "ui_configs": []}
careful = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def tools(tmp_path: Path) -> Called:
    """A small knowledge base."""
    return Called(tmp_path)


def repeated(value: Any) -> Any:
    """Write out texts that a case gives by the number of copies."""
    if isinstance(value, dict) and "copies" in value:
        return repeated(value["of"]) * value["copies"] + value.get("end", "")
    return {key: repeated(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"])
def test_a_tool_does_what_its_cases_say(tools: Called, case: dict[str, Any]) -> None:
    """Results, refusals and files are those of the table; a call that is refused changes no file."""
    for path, content in repeated(case.get("put", {})).items():
        tools.put(f"PKM/{path}", content if isinstance(content, bytes) else content.encode())
    for call in case["calls"]:
        tool, args = next(iter(call.items()))
        before = tools.tree()
        result = tools.call(tool, repeated(args))
        if "refused" in call:
            assert result.error is not None, (call, result.value)
            assert result.error.type == call["refused"][0], result.error
            assert call["refused"][1] in result.error.message
            assert tools.tree() == before
            continue
        assert result.error is None, (call, result.error)
        assert result.value == call.get("gives", result.value)
        assert [part for part in call.get("has", ()) if part not in result.value] == [], result.value
        assert [part for part in call.get("lacks", ()) if part in result.value] == [], result.value
    for path, content in case.get("files", {}).items():
        assert tools.file(path) == (content if isinstance(content, bytes) else content.encode())
    there = sorted(path.removeprefix("PKM/") for path in tools.tree() if path.startswith("PKM/"))
    assert there == case.get("paths", there)


@given(st.text(st.sampled_from("a\n\r\u2028\x0b ")))
def test_lines_end_where_editors_end_them(text: str) -> None:
    """A line ends at a line feed, with a carriage return before it or without, and nowhere else."""
    lines, ended = lines_of(text), text.replace("\r\n", "\n")
    assert not any("\n" in line for line in lines)
    assert "".join(f"{line}\n" for line in lines) == (ended if ended[-1:] in ("", "\n") else f"{ended}\n")


@given(st.lists(st.text(max_size=9)), st.integers(1, 12), st.integers(1, 12))
def test_an_excerpt_goes_on_where_the_last_one_ended(lines: list[str], first: int, limit: int) -> None:
    """Excerpt after excerpt gives every line once, each under its own number."""
    lines = [line.replace("\n", "") for line in lines]
    seen: list[str] = []
    at = first
    while at <= len(lines):
        shown = excerpt(lines, at, limit)[0].split("\n")
        seen += shown
        at += len(shown)
    assert seen == [f"{n:6}\t{line}" for n, line in enumerate(lines, 1) if n >= first]


@pytest.mark.parametrize(
    ("name", "dated"),
    [
        *((name, True) for name in ("2026-09-17.md", "Kayak 2026-9-17.md", "Kayak 20260917.md")),
        *((name, True) for name in ("Kayak_2026_09_17_hull.md", "Spending 2026-09.md", "17.09.2026.md")),
        *((name, True) for name in ("2026年9月17日.md", "2026년 9월.md")),
        *((name, False) for name in ("Year Review 2025.md", "Kayak 2026-13-01.md", "Part 12026-09-17.md")),
        *((name, False) for name in ("Route 66.md", "Room 1234567.md", "1-2-3.md")),
    ],
)
def test_a_date_in_the_name_comes_with_a_reminder(tools: Called, name: str, dated: bool) -> None:
    """A file is named by its subject: a day or a month in its name is told, a year is not."""
    tools.put(f"PKM/{name}", b"text\n")
    assert (REMINDER in tools.ok("Read", file_path=name)) == dated


def test_long_results_have_an_end_and_say_what_is_left_out(tools: Called) -> None:
    """Of a batch half a megabyte and 100 files, of a glob 100 paths, of a search a quarter of a megabyte."""
    for name in "abcde":
        tools.put(f"PKM/{name}.md", (("x" * 1000 + "\n") * 200).encode())
    for number in range(130):
        tools.put(f"PKM/Many/{number:03}.md", b"x\n")
    tools.put("PKM/Wide.json", (b"x" * 3000 + b"\n") * 500)

    large = tools.ok("BatchRead", file_patterns=["?.md"])
    assert len(large.encode()) < MOST_BYTES_TOGETHER + 1000
    assert "=== /b.md (200 lines)" in large
    assert large.endswith(
        "left out, as this is long already: /c.md, /d.md, /e.md. Read them in another call."
    )
    many = tools.ok("BatchRead", file_patterns=["/Many/*"])
    assert many.count("\n     1\tx") == 100
    assert "/Many/100.md, " in many
    assert "/Many/119.md and 10 more. Read them" in many
    listed, _, note = tools.ok("Glob", pattern="/Many/*").partition("\n\n")
    assert listed.split("\n") == [f"/Many/{number:03}.md" for number in range(100)]
    assert note == "(The first 100 of 130. A narrower pattern shows others.)"
    wide = tools.ok("Grep", pattern="x", type="json", output_mode="content")
    assert "(1000 more characters)" in wide
    assert 250_000 < len(wide.encode()) < reading_tools.MOST_BYTES + 100


@pytest.mark.parametrize(
    ("files", "entries", "truncated"),
    [
        ({}, 0, False),
        ({"PKM/.keep": ""}, 0, False),
        ({"Facts/2026/09/17.md": "x"}, 0, False),
        ({f"PKM/{number:04}.md": "" for number in range(1000)}, 1000, False),
        ({f"PKM/{number:04}.md": "" for number in range(1001)}, 1000, True),
        ({"PKM/" + "a/" * 100 + "Note.md": "x"}, 101, False),
    ],
)
def test_the_overview_shows_everything_up_to_a_thousand_names(
    tmp_path: Path, files: dict[str, str], entries: int, truncated: bool
) -> None:
    """The first message's tree goes all the way down, and counts the names it shows."""
    view = overview(Called(tmp_path / "t", files).workspace, Clock(NOW))
    assert (view.entries, view.truncated, view.tree == "/") == (entries, truncated, entries == 0)


def test_a_tree_is_cut_level_by_level(tools: Called) -> None:
    """Above a thousand names the upper levels are shown, and what is missing is counted instead."""
    for number in range(600):
        tools.put(f"PKM/Many/{number:03}.md")
        tools.put(f"PKM/More/{number:03}.md")

    listed = tools.ok("LS", path="/")
    # 6 names at the root, 1 in Areas and 600 in Many leave room for 393 of More's 600.
    assert listed.count("\n  ") - listed.count("… ") == 1000
    assert "    … 207 more\n" in listed
    assert listed.endswith("\n\n(Stopped at 1000 names. List a folder by itself to see more of it.)")
    for number in range(1100):
        tools.put(f"PKM/Areas/Choir/Songs/{number:04}.md")
    assert "  Resources/\n    Bread.md" in tools.ok("LS", path="/", ignore=["M*"], depth=9)


def test_an_overview_of_no_folder_is_the_fixtures_fault(tmp_path: Path) -> None:
    """A file in the knowledge base's place is a broken fixture, not the agent's doing."""
    with pytest.raises(FixtureBroken, match="the knowledge base is no folder"):
        overview(Called(tmp_path, {"PKM": "x"}).workspace, Clock(NOW))


names = st.text(st.sampled_from("ab 한"), min_size=1, max_size=3).map(lambda name: f"n{name}n")


@settings(careful, max_examples=50)
@given(st.sets(st.lists(names, min_size=1, max_size=4).map(tuple), max_size=8))
def test_a_drawn_tree_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]]
) -> None:
    """Whoever is shown the tree can tell every file's path from it, as the offline model does."""
    files = {"PKM/" + "/".join(path) + ".md": "" for path in paths}
    drawn = overview(Called(tmp_path_factory.mktemp("drawn"), files).workspace, Clock(NOW)).tree
    assert sorted(files_of(drawn)) == sorted(path[3:] for path in files)


@careful
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_written_is_there_byte_by_byte(tools: Called, content: str) -> None:
    """No line end, no Unicode form and no white space is changed on the way to the disk."""
    tools.ok("Write", file_path="/Any.md", content=content)
    assert tools.file("Any.md") == content.encode("utf-8")


def test_the_first_entry_of_a_new_user_makes_the_knowledge_base(tmp_path: Path) -> None:
    """There is no folder at all."""
    tools = Called(tmp_path, {})
    assert tools.ok("LS", path="/") == "/ is empty."
    tools.ok("Write", file_path="/Inbox.md", content="x\n")
    assert tools.file("Inbox.md") == b"x\n"


words = st.text(st.sampled_from("ab \n"), max_size=6)


@careful
@given(words, words.filter(bool), words, words)
def test_an_edit_changes_exactly_what_it_names(
    tools: Called, before: str, old: str, after: str, new: str
) -> None:
    """Whatever the texts: one place is replaced and nothing else, or the file stays as it was."""
    text = before + old + after
    tools.put("PKM/Any.md", text.encode())
    result = tools.call("Edit", {"file_path": "Any.md", "old_string": old, "new_string": new})

    if result.error is None:
        assert text.count(old) == 1
        assert tools.file("Any.md").decode() == text.replace(old, new)
    else:
        assert old == new or text.count(old) > 1
        assert tools.file("Any.md").decode() == text


def card(tools: Called) -> Any:
    """Read the card with another reader than ours."""
    return yaml.safe_load((tools.root / CARD).read_text(encoding="utf-8"))


FINISHED = {
    "fact_id": FACT,
    "timestamp": 1,
    "status": "completed",
    "tags": ["Project"],
    "ui_configs": [{"template_id": "snippet", "data": {"text": "a: b"}}],
    "title": "Varnish",
    "user_fixed_address": "Pier 3",
    "insight": {"text": "old", "related_facts": [{"id": "2026/08/02.md#ts_3"}], "character_id": "4"},
    "comments": [{"text": "한글 #1"}],
}


@pytest.mark.parametrize("before", [None, "", "\n", PENDING, FINISHED], ids=range(5))
@pytest.mark.parametrize(
    ("given_ids", "related"),
    [
        (None, []),
        ("2026/08/01.md#ts_2", ["2026/08/01.md#ts_2"]),
        (
            ["2026/08/02.md#ts_3", FACT, "2026/08/01.md#ts_2", "2026/08/02.md#ts_3"],
            ["2026/08/02.md#ts_3", "2026/08/01.md#ts_2"],
        ),
    ],
)
def test_the_insight_goes_on_the_card(tools: Called, before: Any, given_ids: Any, related: list[str]) -> None:
    """Text, other entries once each, and the speaker are added; all else stays; a missing card is begun."""
    if before is not None:
        text = (
            before if isinstance(before, str) else yaml.safe_dump(before, allow_unicode=True, sort_keys=False)
        )
        tools.put(CARD, text.encode())
    others = {path: tools.tree().text(path) for path in FILES}

    result = tools.ok(INSIGHT, fact_id=FACT, insight_text=" It holds. ", related_fact_ids=given_ids)

    tied = {0: "", 1: ", tied to 1 other fact", 2: ", tied to 2 other facts"}[len(related)]
    assert result == f"The insight is on the card of {FACT}{tied}."
    facts = [{"id": id} for id in related]
    kept = before if isinstance(before, dict) else PENDING
    insight = {"text": "It holds.", "related_facts": facts, "character_id": "0"}
    assert card(tools) == {**kept, "insight": insight}
    assert {path: tools.tree().text(path) for path in FILES} == others


@pytest.mark.parametrize("broken", ["- a list\n", "a: [b\n", "just words\n"])
def test_a_card_that_cannot_be_read_is_not_written_over(tools: Called, broken: str) -> None:
    """What is no map of fields cannot be kept, and so it is left alone."""
    tools.put(CARD, broken.encode())
    assert tools.refused(INSIGHT, fact_id=FACT, insight_text="x")[0] == "card_broken"
    assert (tools.root / CARD).read_text() == broken


@careful
@given(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip))
def test_any_insight_is_read_back_as_it_was_given(tools: Called, text: str) -> None:
    """Whatever the insight says, the card says the same, but for space around it."""
    tools.ok(INSIGHT, fact_id=FACT, insight_text=text)
    assert card(tools)["insight"]["text"] == text.strip()


@pytest.mark.parametrize("multiline", [False, True])
def test_a_search_is_given_up_in_time_and_other_trials_go_on(
    tools: Called, monkeypatch: pytest.MonkeyPatch, multiline: bool
) -> None:
    """A pattern may try more ways than there is time for: the agent is told, and the loop stays free."""
    monkeypatch.setattr(patterns, "SECONDS", 0.5)
    tools.put("PKM/Long.txt", b"a" * 5000 + b"b")
    grep = {tool.spec.name: tool for tool in pkm_tools(tools.workspace, Clock())}["Grep"]
    longest = 0.0

    async def both() -> BaseException | None:
        nonlocal longest
        args = {"pattern": "(a|aa)+$", "multiline": multiline}
        search = asyncio.ensure_future(grep.function(args))  # type: ignore[arg-type]  # a coroutine
        while not search.done():
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
        return search.exception()

    with pytest.raises(ToolFailed, match=r"did not end within .* write a simpler pattern") as failed:
        raise asyncio.run(both()) or AssertionError
    assert failed.value.type == "too_slow"
    assert longest < 0.4


@pytest.mark.filterwarnings("error")
def test_a_link_between_notes_is_a_pattern_without_a_warning(tools: Called) -> None:
    """Python warns of a bracket within brackets, which a run would show to the user."""
    assert tools.ok("Grep", pattern="[[Bread]]").startswith("No match")


def test_later_calls_of_a_reply_do_not_change_what_is_searched(tools: Called) -> None:
    """Calls run side by side, and still a search sees the files as they were when it was its turn."""
    functions = {tool.spec.name: tool.function for tool in pkm_tools(tools.workspace, Clock())}

    async def search_then_remove() -> str:
        search = asyncio.ensure_future(functions["Grep"]({"pattern": "varnish"}))  # type: ignore[arg-type]  # as above
        await asyncio.sleep(0)
        functions["Remove"]({"path": "/Projects", "confirm": True})
        return str(await search)

    assert asyncio.run(search_then_remove()) == "Found in 1 file:\n/Projects/Kayak.md"


lines = st.lists(st.text(st.sampled_from("ab \r"), max_size=5), max_size=6)
PATTERNS = ["a", "^b", "b$", "", "a|b", "^$", "a+b", r"a\nb", r"\n", r"a\n*b", r"b\n", r"\s+", r"[^a]+"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(lines, st.sampled_from(PATTERNS), st.booleans())
@example(["b", "", "b"], r"b\n", True)
def test_a_match_covers_the_lines_that_it_touches(texts: list[str], pattern: str, across: bool) -> None:
    """Across lines, from the line of a match's first character to that of its last; else line by line."""
    flags = re.MULTILINE | (re.DOTALL if across else 0)
    (spans,) = reading_tools._search(read_pattern(pattern, flags), across, [texts])
    if not across:
        found = (number for number, line in enumerate(texts) if re.search(pattern, line))
        assert spans == [(number, number) for number in found]
        return
    owner = [number for number, line in enumerate(texts) for _ in f"{line}\n"]
    matches = re.finditer(pattern, "\n".join(texts), flags) if texts else ()
    assert spans == [(owner[m.start()], owner[max(m.start(), m.end() - 1)]) for m in matches]

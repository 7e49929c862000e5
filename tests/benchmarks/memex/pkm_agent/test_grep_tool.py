"""Looking for text in files."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.pkm_agent import grep_tool
from pytest_agenteval.benchmarks.memex.pkm_agent.grep_process import find_matches as scanned
from pytest_agenteval.benchmarks.memex.pkm_agent.tools import pkm_tools
from pytest_agenteval.records.limits import Clock
from pytest_agenteval.text.errors import TrialBroken

from .called import Called, search_in_this_process

HANGS = "(a|aa)+$"
FOR_EVER = "a" * 5000 + "b"


@pytest.fixture
def processes(tmp_path: Path) -> Called:
    """A small knowledge base, where each search is a process of its own."""
    return Called(tmp_path)


@pytest.fixture
def tools(processes: Called, monkeypatch: pytest.MonkeyPatch) -> Called:
    """The same, searched in this process."""
    search_in_this_process(monkeypatch)
    return processes


def test_files_with_a_match_are_listed(processes: Called) -> None:
    """Unless asked otherwise, each file with a match is a line, by path, case aside."""
    assert processes.ok("Grep", pattern="VARNISH|madrigal") == (
        "Found in 2 files:\n/Areas/Choir/Repertoire.md\n/Projects/Kayak.md"
    )
    assert "missing )" in processes.refused("Grep", pattern="(")[1]


def test_no_match_is_no_error(tools: Called) -> None:
    """An answer of nothing says how much was searched."""
    assert tools.ok("Grep", pattern="paddle") == "No match for 'paddle' in 5 files."
    assert tools.ok("Grep", pattern="paddle", path="/Projects") == "No match for 'paddle' in 1 file."


@pytest.mark.parametrize(
    ("args", "result"),
    [
        ({}, "/Projects/Kayak.md:3:- bought the varnish"),
        ({"n": False}, "/Projects/Kayak.md:- bought the varnish"),
        ({"A": 1}, "/Projects/Kayak.md:3:- bought the varnish\n/Projects/Kayak.md-4-- sanded the hull"),
        ({"B": 1}, "/Projects/Kayak.md-2-\n/Projects/Kayak.md:3:- bought the varnish"),
        ({"B": 1, "n": False}, "/Projects/Kayak.md-\n/Projects/Kayak.md:- bought the varnish"),
        (
            {"C": 1},
            "/Projects/Kayak.md-2-\n/Projects/Kayak.md:3:- bought the varnish\n"
            "/Projects/Kayak.md-4-- sanded the hull",
        ),
        ({"C": 9, "A": 0, "B": 1}, "/Projects/Kayak.md-2-\n/Projects/Kayak.md:3:- bought the varnish"),
    ],
)
def test_lines_are_shown_with_what_is_around_them(
    tools: Called, args: dict[str, object], result: str
) -> None:
    """In content mode a match has colons and its context dashes; A and B say more than C."""
    assert tools.ok("Grep", pattern="bought", output_mode="content", **args) == result


def test_groups_are_parted(tools: Called) -> None:
    """Where context is shown, a line of dashes stands wherever lines are left out, also between files."""
    tools.put("PKM/Notes/a.md", b"x\n1\n2\n3\nx\ny\nx\n")
    tools.put("PKM/Notes/b.md", b"x\n")

    lines = tools.ok("Grep", pattern="x", path="/Notes", output_mode="content", A=1, n=False).split("\n")

    a, b = "/Notes/a.md", "/Notes/b.md"
    assert lines == [f"{a}:x", f"{a}-1", "--", f"{a}:x", f"{a}-y", f"{a}:x", "--", f"{b}:x"]


def test_wide_context_costs_no_more_than_the_file(tools: Called) -> None:
    """However much context is asked for around however many matches, each line is looked at once."""
    tools.put("PKM/Many.txt", b"x\n" * 50_000)
    began = time.monotonic()

    result = tools.ok("Grep", pattern="x", type="txt", output_mode="content", C=10**9, head_limit=1)

    assert result == "/Many.txt:1:x\n\n(Stopped after 1 line. There is more.)"
    assert time.monotonic() - began < 30


def test_matches_are_counted(tools: Called) -> None:
    """In count mode each file says how many of its lines match."""
    assert tools.ok("Grep", pattern="^- ", output_mode="count") == (
        "6 matches in 5 files:\n/Areas/Choir/Repertoire.md:1\n/Areas/Choir/Voice.md:1\n"
        "/Inbox.md:1\n/Projects/Kayak.md:2\n/Resources/Bread.md:1"
    )


@pytest.mark.parametrize(
    ("args", "files"),
    [
        ({"pattern": "KAYAK"}, 1),
        ({"pattern": "KAYAK", "i": False}, 0),
        ({"pattern": "Kayak", "i": False}, 1),
        ({"pattern": ".", "include": "*.md"}, 5),
        ({"pattern": ".", "include": "V*.md"}, 1),
        ({"pattern": ".", "include": "*.{txt,json}"}, 0),
        ({"pattern": ".", "include": "/Areas/**"}, 2),
        ({"pattern": ".", "include": "Choir/*.md", "path": "/Areas"}, 2),
        ({"pattern": ".", "path": "/Areas"}, 2),
        ({"pattern": ".", "path": "/Inbox.md"}, 1),
        ({"pattern": ".", "path": "/Inbox.md", "include": "*.txt"}, 0),
        ({"pattern": ".", "type": "md"}, 5),
        ({"pattern": ".", "type": "yaml"}, 0),
        ({"pattern": "hull$"}, 1),
        ({"pattern": r"Kayak\n\n- bought"}, 0),
        ({"pattern": r"Kayak\n\n- bought", "multiline": True}, 1),
        ({"pattern": "Kayak.*hull"}, 0),
        ({"pattern": "Kayak.*hull", "multiline": True}, 1),
        ({"pattern": "^- bought.*hull$", "multiline": True}, 1),
        ({"pattern": "(?-i:KAYAK)"}, 0),
    ],
)
def test_options_say_where_and_how_to_look(tools: Called, args: dict[str, object], files: int) -> None:
    """Case, folder, glob, kind of file and matches across lines are as they are asked for."""
    result = tools.ok("Grep", **args)

    match = re.match("Found in ([0-9]+) file", result)
    assert (int(match[1]) if match else 0) == files


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("md", "a.markdown"),
        ("txt", "a.TXT"),
        ("yaml", "a.yml"),
        ("json", "a.json"),
        ("csv", "a.csv"),
        ("html", "a.htm"),
    ],
)
def test_a_kind_of_file_is_known_by_its_endings(tools: Called, kind: str, name: str) -> None:
    """A kind may have several endings, in any case."""
    tools.put(f"PKM/New/{name}", b"needle\n")

    assert tools.ok("Grep", pattern="needle", type=kind) == f"Found in 1 file:\n/New/{name}"


def test_a_match_across_lines_shows_all_of_them(tools: Called) -> None:
    """Every line that a match touches is one of its lines; it counts once."""
    args = {"pattern": r"Kayak\n\n- bought", "multiline": True, "path": "/Projects"}

    assert tools.ok("Grep", output_mode="content", n=False, **args) == (
        "/Projects/Kayak.md:# Kayak\n/Projects/Kayak.md:\n/Projects/Kayak.md:- bought the varnish"
    )
    assert tools.ok("Grep", output_mode="count", **args).startswith("1 match in 1 file:")


def test_a_head_limit_cuts_the_result(tools: Called) -> None:
    """No more lines than wanted are shown, and that there is more is said."""
    result = tools.ok("Grep", pattern="^- ", output_mode="content", head_limit=2, n=False)

    assert result == (
        "/Areas/Choir/Repertoire.md:- two madrigals\n/Areas/Choir/Voice.md:- hum first\n\n"
        "(Stopped after 2 lines. There is more.)"
    )
    assert "Stopped" not in tools.ok("Grep", pattern="^- ", head_limit=5)


def test_a_result_has_an_end(tools: Called) -> None:
    """A pattern that fits everything gives a thousand lines, or a quarter of a megabyte, of cut lines."""
    tools.put("PKM/Many.txt", b"x\n" * 1500)
    tools.put("PKM/Wide.json", (b"x" * 3000 + b"\n") * 500)

    many = tools.ok("Grep", pattern="x", type="txt", output_mode="content")
    wide = tools.ok("Grep", pattern="x", type="json", output_mode="content")

    assert many.endswith("(Stopped after 1000 lines. There is more.)")
    assert "(1000 more characters)" in wide
    assert 250_000 < len(wide.encode()) < grep_tool.MOST_BYTES + 100


def test_files_that_are_not_text_are_passed_by_and_named(tools: Called) -> None:
    """What is no UTF-8 is not searched, does not stop the search, and stays as it is."""
    tools.put("PKM/Photo.jpg", b"varnish\xff\xd8")

    result = tools.ok("Grep", pattern="varnish")

    assert (
        result == "Found in 1 file:\n/Projects/Kayak.md\n\n(Not searched, as they are not text: /Photo.jpg)"
    )
    assert tools.refused("Grep", pattern="varnish", path="/Photo.jpg")[0] == "not_text"
    assert tools.file("Photo.jpg") == b"varnish\xff\xd8"


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        ({"pattern": "("}, "bad_arguments", "missing ), unterminated subpattern at position 0"),
        ({"pattern": "*x"}, "bad_arguments", "nothing to repeat at position 0"),
        ({"pattern": "(?P<a>x)(?P<a>y)"}, "bad_arguments", "redefinition of group name 'a'"),
        ({"pattern": "x{99999999999999}"}, "bad_arguments", "the repetition number is too large"),
        ({"pattern": "(" * 20000}, "bad_arguments", "pattern is no regular expression"),
        ({"pattern": ""}, "bad_arguments", "pattern must not be empty"),
        ({}, "bad_arguments", "pattern must be a text, not nothing"),
        ({"pattern": "x", "output_mode": "contents"}, "bad_arguments", "did you mean 'content'?"),
        ({"pattern": "x", "type": "yml"}, "bad_arguments", "type must be one of md, txt, yaml"),
        ({"pattern": "x", "A": -1}, "bad_arguments", "A must be a whole number from 0, not -1"),
        ({"pattern": "x", "head_limit": 0}, "bad_arguments", "head_limit must be a whole number from 1"),
        ({"pattern": "x", "i": 1}, "bad_arguments", "i must be true or false"),
        ({"pattern": "x", "path": "/Nothing"}, "not_found", "there is no /Nothing"),
        ({"pattern": "x", "path": "/.."}, "outside", ".. leads out of the root"),
        ({"pattern": "x", "include": "../*"}, "outside", "a pattern cannot go up"),
    ],
)
def test_a_search_that_makes_no_sense_is_an_error(
    tools: Called, args: dict[str, object], kind: str, words: str
) -> None:
    """A broken pattern is quoted with what is wrong with it, and so is every other argument."""
    error_type, message = tools.refused("Grep", **args)

    assert (error_type, words in message) == (kind, True), message


def test_a_pattern_that_never_ends_is_given_up(processes: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern may try more ways than there is time for: the search ends, and the agent is told."""
    monkeypatch.setattr(grep_tool, "SECONDS", 0.2)
    processes.put("PKM/Long.txt", FOR_EVER.encode())

    assert processes.refused("Grep", pattern=HANGS) == (
        "too_slow",
        "the search did not end within 0.2 seconds; write a simpler pattern",
    )


def test_other_trials_go_on_during_a_search(processes: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one trial's search takes its time, the loop on which the others run is free."""
    start, sleeper = grep_tool.start_process, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(2)"]
    monkeypatch.setattr(grep_tool, "start_process", lambda command: start(sleeper))
    grep = {tool.spec.name: tool for tool in pkm_tools(processes.workspace, Clock())}["Grep"]
    longest = 0.0

    async def both() -> None:
        nonlocal longest
        search = asyncio.ensure_future(grep.function({"pattern": "a"}))  # type: ignore[arg-type]  # a coroutine
        while not search.done():
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
        assert isinstance(search.exception(), Exception)

    asyncio.run(both())
    assert longest < 1.8


def test_later_calls_of_a_reply_do_not_change_what_is_searched(processes: Called) -> None:
    """Calls run side by side, and still a search sees the files as they were when it was its turn."""
    functions = {tool.spec.name: tool.function for tool in pkm_tools(processes.workspace, Clock())}

    async def search_then_remove() -> str:
        search = asyncio.ensure_future(functions["Grep"]({"pattern": "varnish"}))  # type: ignore[arg-type]  # as above
        await asyncio.sleep(0)
        functions["Remove"]({"path": "/Projects", "confirm": True})
        return str(await search)

    assert asyncio.run(search_then_remove()) == "Found in 1 file:\n/Projects/Kayak.md"


lines = st.lists(st.text(st.sampled_from("ab \r"), max_size=5), max_size=6)


@given(lines, st.sampled_from(["a", "^b", "b$", "a b", "", "a|b", "^$", "a+b"]), st.booleans())
def test_each_line_is_asked_by_itself(texts: list[str], pattern: str, across: bool) -> None:
    """Where no match can span lines, both ways of looking find the lines in which the pattern is found."""
    request = {"pattern": pattern, "ignore_case": False, "across_lines": across, "texts": [texts]}

    spans = scanned(request)["found"][0]

    matching = {line for first, last in spans for line in range(first, last + 1)}
    expected = {number for number, line in enumerate(texts) if re.search(pattern, line)}
    assert matching == expected
    assert all(0 <= first <= last < len(texts) for first, last in spans)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(lines, st.sampled_from([r"a\nb", r"\n", r"a\n*b", r"b\n", r"\s+", r"[^a]+"]))
def test_a_match_across_lines_covers_the_lines_it_touches(texts: list[str], pattern: str) -> None:
    """The first and last line of a match are those of its first and last character."""
    request = {"pattern": pattern, "ignore_case": False, "across_lines": True, "texts": [texts]}
    whole = "\n".join(texts)
    owner = [number for number, line in enumerate(texts) for _ in f"{line}\n"]

    expected = [(owner[m.start()], owner[m.end() - 1]) for m in re.finditer(pattern, whole)] if texts else []

    assert [tuple(span) for span in scanned(request)["found"][0]] == expected


@pytest.mark.posix
def test_a_process_that_does_not_come_up_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment in which the system can start nothing is nobody's mistake, and nobody hears of it."""
    program = tmp_path / "program"
    monkeypatch.setattr(time, "sleep", lambda seconds: program.symlink_to(sys.executable))

    process = grep_tool.start_process([str(program), "-c", ""])

    process.communicate()
    assert process.returncode == 0


def test_a_search_that_cannot_be_started_breaks_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is not told of it: it would look elsewhere, and be judged for that."""
    monkeypatch.setattr(grep_tool, "WAIT_S", 0.0)

    with pytest.raises(TrialBroken, match=r"the search of Grep could not be started: .*No such file"):
        grep_tool.start_process([str(tmp_path / "none")])

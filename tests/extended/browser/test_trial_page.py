"""A trial: its address, its reason, what was said and done, the old one beside it; texts nobody thinks of."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.transcript import Message, ToolCall, ToolError, Transcript
from tests.extended.browser.sample_reports import write
from tests.extended.browser.visit import PHONE, WIDE, Visit, trial_address
from tests.reports.runs import store_run, trial

Open = Callable[..., Visit]
NAME = "s/task_06[rules-2]"


def test_an_address_opens_a_trial(visit: Open, compared: Path) -> None:
    """A link to a trial can be shared: it opens that trial, and the back button goes where one came from."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.getElementById('conversation')")
    assert seen.title == "task_06"
    assert "repetition 2" in (seen.page.locator(".summary").text_content() or "")
    assert "task_06" in seen.page.title()
    seen.page.get_by_role("link", name="All tasks").click()
    seen.until("document.body.dataset.view === 'list'")
    seen.page.go_back()
    seen.until("document.body.dataset.view === 'trial'")
    assert seen.title == "task_06"


def test_the_back_button_returns_to_the_filtered_list(visit: Open, compared: Path) -> None:
    """Walking through trials leaves no trace: one step back is the list as it was."""
    seen = visit(compared, "#/?show=worse")
    seen.page.locator(".row.task .reason").first.click()
    seen.until("document.getElementById('conversation')")
    seen.press("j", "j", "j")
    seen.until("document.querySelector('.trial h1').textContent === 'task_06'")
    seen.page.go_back()
    seen.until("document.body.dataset.view === 'list'")
    assert seen.get("location.hash") == "#/?show=worse"
    seen.until("document.activeElement.textContent === 'task_06'")


def test_the_reason_comes_first(visit: Open, compared: Path) -> None:
    """Failed checks with both sides, then the conversation; what passed and nobody judged is folded."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.getElementById('conversation')")
    parts = seen.get("[...document.querySelectorAll('.part')].map(part => part.id)")
    assert parts == ["reason", "conversation", "workspace", "answer", "events"]
    sides = seen.get(
        "[...document.querySelectorAll('.grade.bad > .checks dd')].map(side => side.textContent)"
    )
    assert sides == ["one line", "no line"]
    assert seen.page.get_by_text("1 grader undecided: style").is_visible()
    assert not seen.page.get_by_text("nothing is lost").is_visible()


def test_judges_votes_are_shown(visit: Open, compared: Path) -> None:
    """Each judge with its scores and its words."""
    seen = visit(compared, trial_address("s/task_02[rules-1]"))
    seen.until("document.querySelector('.votes')")
    votes = seen.get("[...document.querySelectorAll('.votes > li')].map(vote => vote.textContent)")
    assert [vote.split() for vote in votes] == [
        ["strict", "tone", "0.25It", "is", "curt."],
        ["mild", "tone", "0.75It", "is", "short."],
    ]


def test_calls_are_one_line_and_open(visit: Open, compared: Path) -> None:
    """A call says tool, arguments, result and tape; opened, all of its JSON; a failed one its error."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.querySelector('.call')")
    first, second = seen.page.locator("details.call").all()
    assert "Read(/notes.md, 40)" in (first.text_content() or "")
    assert first.locator(".tape").text_content() == "replayed"
    assert "denied read only" in (second.locator("summary").text_content() or "")
    first.locator("summary").click()
    assert first.locator("dd").first.is_visible()


def test_changed_files_stand_side_by_side(visit: Open, compared: Path) -> None:
    """Lines of both sides in one row, and what differs in them marked."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.querySelector('.diff')")
    pair = seen.page.locator(".diff .pair").first
    assert pair.locator("del").text_content() == "old"
    assert pair.locator("ins").text_content() == "new"
    paths = seen.get("[...document.querySelectorAll('.file .path')].map(path => path.textContent)")
    assert paths == ["came.md", "notes.md", "gone.md"]


def test_the_old_trial_stands_beside_the_new_one(visit: Open, compared: Path) -> None:
    """The same repetition of the run before, from where they part; a second press puts it away."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.getElementById('conversation')")
    seen.press("o")
    seen.until("document.querySelector('.beside .stop')")
    endings = seen.get("[...document.querySelectorAll('.side-title .ending')].map(each => each.textContent)")
    assert endings == ["passed", "missed"]
    seen.press("o")
    seen.until("!document.querySelector('.beside')")


def test_an_errored_trial_says_what_broke_it(visit: Open, compared: Path) -> None:
    """Its message is the reason, its traceback is folded."""
    seen = visit(compared, trial_address("s/task_04[rules-2]"))
    seen.until("document.querySelector('.fold')")
    assert seen.page.locator(".text.error").text_content() == "429 after 3 attempts"
    assert seen.page.get_by_text("Traceback", exact=True).is_visible()


def test_a_trial_that_is_not_there_says_so(visit: Open, compared: Path) -> None:
    """An address of another report is no broken page."""
    seen = visit(compared, trial_address("s/other[rules-1]"))
    assert "No trial of this file is called s/other[rules-1]" in seen.get(
        "document.querySelector('main').textContent"
    )


KOREAN = "한글 " * 60_000
LONG = "name" * 60
SECONDS = 8
"""Half a minute was needed for it, and a twentieth of that on a quiet machine is."""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a long line, of a long name, and of names that differ in little."""
    folder = tmp_path_factory.mktemp("odd")
    call = ToolCall("c", 1, 0, LONG, {}, error=ToolError(LONG, LONG))
    said = Transcript(
        (Message("user", KOREAN), Message("assistant", "", calls=(call,), turn=1)), calls=(call,)
    )
    names = {"Case": 0.25, "case": 0.5, "\u00e9": 0.75, "e\u0301": 1.0, "a%41?run=0#b&c/d": 0.0}
    trials = [trial(name, 1, score, transcript=said) for name, score in names.items()]
    return write(folder, store_run(folder / "runs", [*trials, trial(LONG, 1, 0.5, LONG, transcript=said)]))


def test_a_long_line_of_korean_is_laid_out_at_once(visit: Open, odd: Path) -> None:
    """It is broken for the browser and not for the reader: the text is the same."""
    seen = visit(odd)
    begun = time.monotonic()
    seen.open_trial("s/Case[rules-1]")
    assert seen.get("document.querySelector('#conversation pre').scrollHeight") > 1000
    assert time.monotonic() - begun < SECONDS
    assert seen.get("document.querySelector('#conversation pre').textContent") == KOREAN


@pytest.mark.parametrize("name", ["Case", "case", "\u00e9", "e\u0301", "a%41?run=0#b&c/d"])
def test_names_that_differ_in_little_are_told_apart(visit: Open, odd: Path, name: str) -> None:
    """By case, by the form of their letters; and signs of addresses are no part of the address."""
    seen = visit(odd, trial_address(f"s/{name}[rules-1]"))
    assert seen.title == name


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_long_name_widens_no_page(visit: Open, odd: Path, viewport: Any) -> None:
    """Of a task, a bucket, a tool: it is broken, or cut, where there is no room."""
    seen = visit(odd, trial_address(f"s/{LONG}[rules-1]"), viewport=viewport)
    seen.until("document.getElementById('conversation')")
    assert seen.get("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("query", ["sort=constructor", "sort=__proto__", "show=__proto__", "show=toString"])
def test_an_address_asks_for_nothing_of_the_language(visit: Open, odd: Path, query: str) -> None:
    """An order or a filter that there is not is none, whatever it is called."""
    seen = visit(odd, f"#/?{query}")
    assert len(seen.rows) == (6 if query.startswith("sort") else 0)


def test_a_browser_that_cannot_unpack_is_told(visit: Open, odd: Path) -> None:
    """The reason and the command stay, and the sentence names browsers that can."""
    seen = visit(odd)
    seen.get("void delete window.DecompressionStream")
    seen.go(trial_address("s/Case[rules-1]"))
    warning = seen.until("document.querySelector('#reason .warning')?.textContent")
    assert "this browser is too old" in warning
    assert "agenteval show 's/Case[rules-1]'" in seen.get("document.body.innerText")

"""A trial: its address, its reason, what was said and done, and the old one beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.extended.browser.visit import Visit, trial_address

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
    first, second = seen.page.locator(".call").all()
    assert "Read(/notes.md, 40)" in (first.text_content() or "")
    assert first.locator(".tape").text_content() == "played"
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
    """The same repetition of the run before, part beside part; a second press puts it away."""
    seen = visit(compared, trial_address(NAME))
    seen.until("document.getElementById('conversation')")
    seen.press("o")
    seen.until("document.querySelectorAll('.side #conversation').length === 2")
    endings = seen.get("[...document.querySelectorAll('.side-title .ending')].map(each => each.textContent)")
    assert endings == ["passed", "missed"]
    seen.press("o")
    seen.until("document.querySelectorAll('.side').length === 0")


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

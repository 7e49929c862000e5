"""What an agent, a task, a grader or a model is called or says is shown, and never acts."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extended.browser.visit import Visit, trial_address
from tests.reports.html.pages import Page

Open = Callable[..., Visit]
MARKUP = "<img src=x onerror='window.PWNED=2'><!--<script>"


def open_first_trial(seen: Visit) -> None:
    """Click the only row, and open everything in it."""
    seen.page.locator(".row.task .reason").click()
    seen.until("document.getElementById('conversation')")
    seen.get("for (const fold of document.querySelectorAll('details')) fold.open = true")


@pytest.mark.parametrize("trial", [False, True], ids=["list", "trial"])
def test_hostile_texts_are_shown_and_never_act(visit: Open, hostile: Path, trial: bool) -> None:
    """No element, no link and no script comes of a text; writing direction cannot be turned by one."""
    seen = visit(hostile)
    if trial:
        open_first_trial(seen)
    shown = seen.get("document.getElementById('app').textContent")
    assert shown.count(MARKUP) >= (30 if trial else 3)
    assert not set(seen.get("document.body.innerText")) & {"\u202e", "\u2066"}
    assert "\\u202egnp.exe" in shown
    assert seen.count("img, iframe, object, embed, form, base") == 0
    links = seen.get("[...document.querySelectorAll('a')].map(link => link.getAttribute('href'))")
    assert [link for link in links if not link.startswith("#")] == []
    assert seen.get("document.scripts.length") == seen.get(
        "document.querySelectorAll('body > script').length"
    )
    seen.page.wait_for_timeout(200)
    assert seen.get("typeof window.PWNED") == "undefined"


def test_a_hostile_name_is_an_address_like_any_other(visit: Open, hostile: Path) -> None:
    """The trial's link opens it again, whatever its name is made of."""
    seen = visit(hostile)
    open_first_trial(seen)
    again = visit(hostile, seen.get("location.hash"))
    again.until("document.getElementById('conversation')")
    assert MARKUP in again.title
    assert again.get("typeof window.PWNED") == "undefined"


def test_a_hostile_name_is_one_word_of_the_command_to_copy(visit: Open, hostile: Path) -> None:
    """Who pastes the command into a terminal runs that command and no other."""
    seen = visit(hostile)
    open_first_trial(seen)
    words = shlex.split(seen.page.locator(".facts .command").text_content() or "")
    assert words[:2] == ["agenteval", "show"]
    assert (len(words), words[3]) == (5, "--run")
    assert MARKUP in words[2]


def test_hostile_addresses_are_only_read(visit: Open, compared: Path) -> None:
    """What stands in the address is text too."""
    seen = visit(
        compared, "#/?show=<img src=x onerror=window.PWNED=1>&q=<script>window.PWNED=2</script>&sort=x"
    )
    assert seen.count("img") == 0
    seen.go("#/t/%E0%A4%A<img src=x onerror=window.PWNED=3>?run=9")
    seen.until("document.querySelector('main').textContent.includes('No trial of this file')")
    assert seen.get("typeof window.PWNED") == "undefined"


def test_the_page_has_no_hold_on_the_browser(visit: Open, compared: Path) -> None:
    """Nothing is stored, and a script that gets in all the same is stopped by the policy."""
    seen = visit(compared)
    assert seen.get("document.cookie") == ""
    intruder = "Object.assign(document.createElement('script'), {text: 'window.PWNED = 1'})"
    seen.get(f"void document.body.append({intruder})")
    assert seen.get("typeof window.PWNED") == "undefined"
    assert len(seen.errors) == 1
    assert "Content Security Policy" in seen.errors.pop()


def test_a_file_that_is_cut_off_says_what_it_lacks(visit: Open, compared: Path, tmp_path: Path) -> None:
    """Cut in scripts, figures of suites stay; cut in transcripts, all figures do, and trials say why."""
    whole, cut = compared.read_bytes(), tmp_path / "cut.html"
    cut.write_bytes(whole[: whole.index(b"application/json") + 1_000])
    seen = visit(cut, java_script_enabled=False)
    note = "Tasks and trials appear here if your browser runs scripts and the file is complete."
    assert seen.page.locator("main").inner_text().startswith(note)
    assert seen.page.locator(".fallback tbody tr").count() == 7
    last_row = max(Page(compared).index["trials"], key=lambda row: row["chunk"])
    last = whole.rindex(b'<script type="text/plain"')
    for end, why in ((last + 100, "is cut off or damaged"), (last, "was the file copied as a whole?")):
        cut.write_bytes(whole[:end])
        seen = visit(cut)
        assert note not in seen.page.locator("main").inner_text()
        seen.go(f"{trial_address(last_row['name'])}?run={last_row['side']}")
        seen.until(f"document.querySelector('main').innerText.includes({why!r})")

"""A real run of 200 trials in the browser: it goes on, is killed, is resumed with workers, and ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.notes import write_notes
from pytest_agenteval.store.run_folder import list_runs
from pytest_agenteval.store.run_reader import load_run
from tests.extended.browser.served import ServedVisit, report, serving
from tests.extended.browser.visit import TALL, Visit, trial_address
from tests.extended.chaos.project import finished_lines, output, project, start, until
from tests.loopback.model_server import ModelServer, ReplyPlan

Open = Callable[..., ServedVisit]
TRIALS = 200
COUNTS = "document.querySelector('.kicker .counts')?.textContent"
STATE = "(document.querySelector('#live .state')?.textContent ?? 'ended')"
HEAD = "document.getElementById('head').innerText"
PROGRESS = "Number(document.querySelector('#live progress')?.value ?? -1)"


@pytest.fixture
def provider() -> Iterator[ModelServer]:
    """A provider that takes a second for each reply, so that there is something to watch."""
    with ModelServer(_reply, latency_s=1.0) as server:
        yield server


def _reply(request: Any, number: int) -> ReplyPlan:
    question = next(str(each["content"]) for each in request["messages"] if each["role"] == "user")
    # Every fourth answer is another's.
    return ReplyPlan(text="Hello!" if int(question[1:]) % 4 == 0 else f"Hello, {question}!")


def shown_trials(seen: ServedVisit) -> int:
    """Give the number of trials that the head of a report says."""
    words = seen.get(COUNTS) or ""
    return int(words.split(", ")[1].split()[0].replace(",", "")) if "trial" in words else 0


@pytest.mark.posix
def test_a_run_is_followed_through_a_kill_and_its_end(
    tmp_path: Path, provider: ModelServer, visit_served: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page follows by itself, and its figures at the end are those of ``agenteval report --json``."""
    root = project(tmp_path, provider, TRIALS)
    results = root / ".agenteval" / "runs"
    run = start(root, "-q")
    try:
        assert until(lambda: finished_lines(root) >= 1, run)
        (folder,) = [each.path for each in list_runs(results)]
        with serving(results) as served:
            listed = visit_served(served)
            listed.until("document.querySelector('tbody.running progress')")
            seen = visit_served(served, report(folder.name))
            assert seen.get(STATE) == "running"
            # What an end would mean is not said of a run that goes on.
            assert " not run" not in seen.get(HEAD)
            assert "never ended" not in seen.get("document.getElementById('app').innerText")
            first = shown_trials(seen)
            _opened_trial_stays_open(seen, folder)
            seen.until(f"{PROGRESS} > {first}")
            os.kill(run.pid, signal.SIGKILL)
            output(run)
            seen.until(f"{STATE} === 'not ended'")
            seen.until(f"{HEAD}.includes(' not run')")
            killed = load_run(folder)
            seen.until(f"{COUNTS}.includes(', {len(killed.entries)} trials')")
            assert 0 < len(killed.entries) < TRIALS
            listed.until("document.querySelector('tbody.not-ended')")

            again = start(root, "-q", "-n", "2", "--agent-resume")
            try:
                seen.until(f"{STATE} === 'running'")
                seen.until(f"{PROGRESS} > {len(killed.entries)}")
                listed.until("document.querySelector('tbody.running progress')")
                assert "INTERNALERROR" not in output(again)
            finally:
                again.kill()
            seen.until(f"{STATE} === 'ended'")
            assert shown_trials(seen) == TRIALS
            listed.until("!document.querySelector('.state')")
            _asks_no_more(seen)
            _has_the_figures_of_the_report(seen, folder, capsys)
    finally:
        run.kill()


def _opened_trial_stays_open(seen: ServedVisit, folder: Path) -> None:
    """A trial that is open stays as it is, scrolled and with a comment half written, while others end."""
    # The last one by name: others come before it.
    name = load_run(folder).entries[-1].key.label
    seen.until("document.querySelectorAll('.row.task').length > 0")
    seen.go(trial_address(name))
    seen.until("document.getElementById('conversation')")
    before = seen.get(PROGRESS)
    seen.press("c")
    seen.page.keyboard.type("half a")
    seen.until(f"{PROGRESS} > {before} + 8")
    assert seen.get("document.activeElement.id") == "comment"
    seen.page.keyboard.type(" comment")
    assert seen.get("document.getElementById('comment').value") == "half a comment"
    assert seen.count("#conversation .message") >= 2
    seen.page.click(".live-note button")
    seen.until("document.querySelector('.live-note').textContent.includes('saved')")
    assert [entry.note.comment for entry in load_run(folder).entries if entry.note] == ["half a comment"]
    seen.go("#/")


def _asks_no_more(seen: ServedVisit) -> None:
    """A run that has ended is not asked about: twice the time between two requests brings none."""
    before = seen.count_requests("/api/index")
    time.sleep(5)
    assert seen.count_requests("/api/index") == before


def _has_the_figures_of_the_report(
    seen: ServedVisit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["report", str(folder), "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["boards"][0]["rows"]
    figures = row["all"]
    assert (figures["planned"], figures["averaged"], figures["tasks_passed"]) == (TRIALS, TRIALS, 150)
    head = seen.get("document.getElementById('head').textContent")
    assert f"{figures['score']:.2f}" in seen.get("document.querySelector('h1').textContent")
    assert f"{figures['tasks_passed']} of {figures['tasks_decided']} tasks" in head
    assert f"{figures['spent']['tokens']:,.0f}" in head
    missed = seen.get("document.querySelector('.chip.missed b').textContent")
    assert int(missed) == TRIALS - figures["tasks_passed"]
    # A page that is opened now says the same.
    anew = seen.get("document.getElementById('head').textContent")
    seen.visit(report(folder.name))
    assert seen.get("document.getElementById('head').textContent") == anew


def test_transcripts_are_searched_as_in_a_file(
    compared: Path, visit: Callable[..., Visit], visit_served: Open
) -> None:
    """The server finds the trials that the page of a file finds, by whichever words."""
    results = compared.parent / "runs"
    names = [run.path.name for run in list_runs(results)][::-1]
    # The number and the words that the page shows once all is searched.
    done = "document.querySelector('.searching:not(:has(progress))')?.textContent"
    with serving(results) as served:
        live = visit_served(served, report(*names), viewport=TALL)
        in_file = visit(compared, viewport=TALL)
        for words in (
            "ferry",
            "notes.md",
            "answer read",
            '"read only"',
            "answer of 7",
            "nothing",
            "denied",
            "40",
        ):
            found = []
            for seen in (in_file, live):
                seen.go(f"#/?text={words.replace(' ', '%20').replace(chr(34), '%22')}")
                seen.until(f"{done} && document.querySelector('.searching b').textContent")
                found.append((seen.until(done), seen.rows))
            assert found[0] == found[1], words


def test_a_trial_is_marked_and_commented_by_keyboard(compared: Path, visit_served: Open) -> None:
    """``l`` marks it, ``c`` goes to the comment; both stand there when the page is opened again."""
    results = compared.parent / "runs"
    newest = list_runs(results)[0].path
    address = trial_address("s/task_02[rules-1]")
    with serving(results) as served:
        seen = visit_served(served, report(newest.name))
        seen.go(address)
        seen.until("document.getElementById('looked-at')")
        seen.press("l")
        seen.until("document.querySelector('.live-note').textContent.includes('saved')")
        seen.press("c")
        seen.page.keyboard.type("odd <b>tone</b>")
        seen.until("!document.querySelector('.live-note button').disabled")
        seen.press("Tab", "Enter")
        seen.until("document.querySelector('.live-note button').disabled")
        (entry,) = [each for each in load_run(newest).entries if each.note]
        assert (entry.note.comment, bool(entry.note.looked_at)) == ("odd <b>tone</b>", True)
        seen.go("#/?note=with%20a%20comment")
        seen.until("document.querySelectorAll('.row.task').length === 1")
        seen.page.reload()
        seen.until("document.querySelectorAll('.row.task').length === 1")
        seen.go(address)
        seen.until("document.getElementById('comment')?.value === 'odd <b>tone</b>'")
        # Somebody writes on a terminal, which the page of a run that has ended does not see.
        write_notes(newest, {entry.key: entry.attempt}, comment="from a terminal")
        seen.press("l")
        seen.until("document.getElementById('comment').value === 'from a terminal'")
        (entry,) = [each for each in load_run(newest).entries if each.note]
        assert (entry.note.comment, entry.note.looked_at) == ("from a terminal", "")
        seen.page.fill("#comment", "")
        seen.page.click(".live-note button")
        seen.until("document.querySelector('.live-note').textContent.includes('removed')")
        assert [each for each in load_run(newest).entries if each.note] == []


def test_where_the_server_ends_the_page_says_so(compared: Path, visit_served: Open, browser: Any) -> None:
    """What is there stays, and a trial that is opened says why it cannot be read."""
    results = compared.parent / "runs"
    with serving(results) as served:
        seen = visit_served(served, report(list_runs(results)[0].path.name))
        seen.until("document.querySelectorAll('.row.task').length > 0")
    seen.go(trial_address("s/task_02[rules-1]"))
    seen.until("document.getElementById('app').textContent.includes('agenteval view has ended')")
    seen.page.close()
    # That the server does not answer is told on the console, too.
    seen.errors = [each for each in seen.errors if "ERR_CONNECTION_REFUSED" not in each]

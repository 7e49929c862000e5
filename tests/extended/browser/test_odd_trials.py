"""Texts, names, addresses and browsers that nobody thinks of."""

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

"""A browser for all tests of this folder, and the reports that they open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.sample_reports import compared_report, hostile_report, large_report
from tests.extended.browser.served import Served, ServedVisit
from tests.extended.browser.sided_reports import SHARES, baseline_report, runs_report, sides_report
from tests.extended.browser.visit import Visit, launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: the one that playwright has installed, else the machine's own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright's Python package is not installed")
    with api.sync_playwright() as playwright:
        browser = launched(playwright)
        if browser is None:
            pytest.skip("there is no Chromium: playwright install chromium")
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open a report; where the test ends, it has asked for nothing else and nothing went wrong in it."""
    visits: list[Visit] = []

    def open_report(path: Path, address: str = "", **settings: Any) -> Visit:
        visits.append(Visit(browser, path.as_uri() + address, settings))
        return visits[-1]

    yield open_report
    for each in visits:
        each.end()


@pytest.fixture
def visit_served(browser: Any) -> Iterator[Callable[..., ServedVisit]]:
    """Open a page of a server; where the test ends, it has asked nobody else and nothing went wrong in it."""
    visits: list[ServedVisit] = []

    def open_page(served: Served, path: str = "/", **settings: Any) -> ServedVisit:
        visits.append(ServedVisit(browser, served, path, settings))
        return visits[-1]

    yield open_page
    for each in visits:
        each.end()


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs beside each other, with every kind of trial."""
    return compared_report(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one model."""
    return sides_report(tmp_path_factory.mktemp("one"), "fast")


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three models, of which the last is better."""
    return sides_report(tmp_path_factory.mktemp("three"), "fast", "mid", "slow")


@pytest.fixture(scope="session")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three models with two prompts each."""
    return sides_report(tmp_path_factory.mktemp("six"), *SHARES)


@pytest.fixture(scope="session")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of two models each."""
    return runs_report(tmp_path_factory.mktemp("lanes"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run beside a baseline's file."""
    return baseline_report(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every text tries to act."""
    return hostile_report(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 2,000 trials of 25 kB."""
    return large_report(tmp_path_factory.mktemp("large"))

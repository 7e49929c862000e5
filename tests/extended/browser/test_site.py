"""The site in a browser without a network: search in each language, light and dark, a phone, and keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.test_looks import LOOKS, faults_of
from tests.extended.browser.visit import PHONE, Visit
from tests.extended.docs.sites import build_site, translated_project

pytest.importorskip("furo", reason="the extra docs is not installed")
PAGES = ("index", "guides/graders", "reference/options", "project/limits", "ko/index")
WIDTHS = (390, 1440)


class SilentHandler(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Drop the line."""


class SiteVisit(Visit):
    """A tab with a page of the site; it may load files of the site and nothing else."""

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Wait for the page instead of for a report."""
        if "data" in expression:
            self.page.wait_for_load_state("load")
            return None
        return super().until(expression, seconds)

    def check_requests(self) -> None:
        """Hold the page to its own server, or to files."""
        origins = ("http://127.0.0.1:", "file:", "data:")
        assert [url for url in self.requests if not url.startswith(origins)] == []


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in three languages."""
    out = tmp_path_factory.mktemp("site")
    built = build_site(translated_project(tmp_path_factory.mktemp("project")), out)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Serve the site's files."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., SiteVisit]]:
    """Open a page; where the test ends it has loaded nothing from elsewhere, and nothing went wrong in it."""
    visits: list[SiteVisit] = []

    def open_one(page: str, **settings: Any) -> SiteVisit:
        visits.append(SiteVisit(browser, f"{address}/{page}", settings))
        return visits[-1]

    yield open_one
    for each in visits:
        each.end()


def results_of(seen: SiteVisit) -> list[str]:
    """Wait until a search has ended, and give the titles that it found."""
    seen.page.wait_for_load_state("networkidle")  # a summary of each page is loaded
    titles: list[str] = seen.get(
        "[...document.querySelectorAll('#search-results ul.search > li > a')].map(link => link.textContent)"
    )
    return titles


@pytest.mark.parametrize(
    ("language", "word", "title"),
    [
        ("", "threshold", "Scores"),
        ("ko/", "점수", ""),
        ("ja/", "変更", ""),
    ],
)
def test_search_finds_words(
    open_page: Callable[..., SiteVisit], language: str, word: str, title: str
) -> None:
    """Words of two letters with an ending, and words without spaces around them, too."""
    seen = open_page(f"{language}search.html?q={word}")
    seen.until("document.querySelector('#search-results ul.search > li')")
    assert any(title in found for found in results_of(seen))


def test_search_works_from_files(browser: Any, site: Path) -> None:
    """Who has a copy of the site needs no server."""
    seen = SiteVisit(browser, f"{(site / 'search.html').as_uri()}?q=threshold", {"offline": True})
    seen.until("document.querySelectorAll('#search-results ul.search > li').length > 3")
    seen.check_requests()
    seen.context.close()


def test_keys_alone_reach_search_and_a_result(open_page: Callable[..., SiteVisit]) -> None:
    """A slash leads to the search, Enter searches, Tab leads to results."""
    seen = open_page("index.html")
    seen.press("/")
    assert seen.get("document.activeElement.name") == "q"
    seen.page.keyboard.type("rubric")
    seen.press("Enter")
    seen.page.wait_for_url("**/search.html?q=rubric*")
    seen.until("document.querySelector('#search-results ul.search > li a')")
    seen.until("document.querySelector('.search-summary')")
    assert results_of(seen)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_the_window(open_page: Callable[..., SiteVisit], page: str, look: str) -> None:
    """On a phone and on a wide screen one scrolls down and never sideways; axe finds no serious fault."""
    settings = {"viewport": {"width": 1440, "height": 900}, **LOOKS[look]}
    seen = open_page(f"{page}.html", **settings)
    assert seen.get("document.scrollingElement.scrollWidth") <= settings["viewport"]["width"]
    assert faults_of(seen) == set()


def test_dark_and_light_follow_the_system_and_can_be_chosen(open_page: Callable[..., SiteVisit]) -> None:
    """The button changes from the system's choice to a fixed one."""
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page("index.html", color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.get(colour) != dark.get(colour)
    light.page.locator(".theme-toggle:visible").click()
    assert light.get(colour) == dark.get(colour)


def test_the_language_switch_leads_to_the_page_and_back(open_page: Callable[..., SiteVisit]) -> None:
    """On a phone it is in the menu."""
    seen = open_page("start/first-suite.html", viewport=PHONE)
    seen.page.locator("label.nav-overlay-icon").click()
    seen.page.get_by_role("link", name="한국어").click()
    seen.page.wait_for_url("**/ko/start/first-suite.html")
    assert seen.get("document.documentElement.lang") == "ko"
    seen.page.locator("label.nav-overlay-icon").click()
    seen.page.get_by_role("link", name="English").click()
    seen.page.wait_for_url("**/start/first-suite.html")
    assert seen.get("document.documentElement.lang") == "en"

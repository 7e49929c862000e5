"""The pages of ``agenteval view`` beside those of reports: the list of runs, and leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_agenteval.reports.html_report import (
    LIVE_SCRIPTS,
    page_environment,
    page_file,
    page_html,
    page_json,
    page_policy,
    script_of,
)
from pytest_agenteval.reports.trend import Trend
from pytest_agenteval.reports.trend_page import RunLink, trend_page
from pytest_agenteval.text.redaction import KNOWN_SECRETS

PAGES = (("Runs", "/"), ("Leaderboard", "/leaderboard"), ("Trend", "/trend"))
NO_FRAME = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SHARED_SCRIPTS = ("vendor/preact-htm.js", "text.js", "served/ask.js", "served/pace.js", "served/picks.js")


class SuiteChoice(NamedTuple):
    """Which suite and runs a page shows, and the addresses of others; ``says`` is a remark on the runs."""

    suite: str
    suites: Sequence[tuple[str, str]]
    choice: str
    choices: Sequence[tuple[str, str]]
    says: str


class ServedPage(NamedTuple):
    """A page and the Content-Security-Policy that it is served with."""

    text: str
    policy: str


def served_policy(script: str) -> str:
    """Give the policy that a page is served with: it may also be in no frame, which a page cannot say."""
    return f"{page_policy(script, may_ask=True)}; frame-ancestors 'none'"


def runs_page(document: Mapping[str, Any]) -> ServedPage:
    """Give the page of a list of runs, which asks its server for what changes."""
    return _page("runs.html.jinja", "served/runs.js", "Runs", document["results"], data=document)


def leaderboard_page(board: Mapping[str, Any] | None, place: str, choice: SuiteChoice) -> ServedPage:
    """Give the page of a leaderboard, of which None says that nothing is on it."""
    data = {"board": board}
    return _page(
        "leaderboard.html.jinja", "served/leaderboard.js", "Leaderboard", place, data=data, **choice._asdict()
    )


def _page(template: str, own_script: str, page: str, place: str, **shown: Any) -> ServedPage:
    script = script_of((*SHARED_SCRIPTS, own_script))
    data = KNOWN_SECRETS.value(shown.pop("data"))
    # HTML looks for `</script` and `<!--` in a script of any type; JSON has an escape for `<`.
    data_json = page_json(data).decode().replace("<", "\\u003c")
    style = page_file("kit.css") + page_file("served/head.css") + page_file("served/view.css")
    shared = {"style": style, "script": script, "pages": PAGES, "page": page, "place": place}
    text = page_environment().get_template(template).render(data=data, data_json=data_json, **shared, **shown)
    return ServedPage(text, served_policy(script))


def served_report(index: Mapping[str, Any]) -> ServedPage:
    """Give the page of a report, which asks its server for trials and for what changes."""
    return ServedPage(
        page_html(dict(index), ()) + "</body>\n</html>\n", served_policy(script_of(LIVE_SCRIPTS))
    )


def served_trend(trends: Sequence[Trend], link: RunLink, place: str, choice: SuiteChoice) -> ServedPage:
    """Give the page of suites over time, whose runs lead to their reports; it runs no script."""
    nav = {"pages": PAGES, "page": "Trend", "place": place, **choice._asdict()}
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {NO_FRAME}"
    return ServedPage(trend_page(trends, link, nav), policy)

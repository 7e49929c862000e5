"""What the addresses of ``agenteval view`` answer."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from pytest_agenteval.cli.view_reports import TrialName, ViewedReport, side_text
from pytest_agenteval.cli.view_runs import ViewedRuns
from pytest_agenteval.cli.view_server import HTML, JSON, ViewReply, ViewRequest, json_reply, text_reply
from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.reports.html_report import index_json, page_json
from pytest_agenteval.reports.leaderboard import LeaderboardRow, leaderboards_of
from pytest_agenteval.reports.leaderboard_page import board_document, newest_of_each
from pytest_agenteval.reports.run_view import suite_views
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.reports.trend import suite_names, trends_of
from pytest_agenteval.reports.view_pages import (
    ServedPage,
    SuiteChoice,
    leaderboard_page,
    runs_page,
    served_report,
    served_trend,
)
from pytest_agenteval.store.run_folder import RunHeader, whole_runs
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_REPORTS = 4
"""Reports that stay in memory."""

MOST_DIGITS = 6

TREND_RUNS = ("10", "20", "50")
"""How many of a suite's last runs its trend can show; by default the first of these."""

MOST_ON_BOARD = 50
"""Runs of one leaderboard: more of them would be read for long, and nobody looks at the rest."""

NEWEST, ALL, PICKED = "newest run of each model", "all runs", "picked runs"


class ViewSite:
    """Answers requests about the runs of a folder; several threads may ask at once."""

    def __init__(self, runs: ViewedRuns, scorecards: Sequence[RegisteredScorecard] = ()) -> None:
        self._runs, self._scorecards = runs, scorecards
        self._lock = Lock()
        self._reports: OrderedDict[tuple[str, ...], ViewedReport] = OrderedDict()
        self._pages: Mapping[str, Callable[[ViewRequest], ViewReply]] = {
            "/": self._list_page,
            "/leaderboard": self._leaderboard,
            "/report": self._report,
            "/trend": self._trend,
            "/api/runs": self._list,
            "/api/baselines": self._baselines,
            "/api/index": self._index,
            "/api/trial": self._trial,
            "/api/search": self._search,
        }
        # All that can be changed.
        self._forms: Mapping[str, Callable[[ViewRequest], ViewReply]] = {"/api/notes": self._note}

    def answer(self, request: ViewRequest) -> ViewReply:
        """Answer a request, also for what is not among the runs."""
        pages, others = self._pages, self._forms
        if request.posted is not None:
            pages, others = others, pages
        page = pages.get(request.path)
        if page is None and request.path in others:
            allowed = "GET, HEAD" if others is self._pages else "POST"
            return text_reply(405, "not by this method\n", {"Allow": allowed})
        if page is None:
            return text_reply(404, "there is no such page\n")
        try:
            return page(request)
        except UsageMistake as mistake:
            is_data = request.path.startswith("/api/")
            return json_reply({"problem": str(mistake)}, 404) if is_data else text_reply(404, f"{mistake}\n")

    def _list_page(self, request: ViewRequest) -> ViewReply:
        # At once, with the figures that are known; the page asks for the others.
        return _page_reply(runs_page(self._runs.list_document(budget=0.0)))

    def _list(self, request: ViewRequest) -> ViewReply:
        return _versioned(self._runs.list_document())

    def _baselines(self, request: ViewRequest) -> ViewReply:
        return _versioned({"baselines": list(self._runs.baselines())})

    def _report_of(self, request: ViewRequest) -> ViewedReport:
        """Give the report of the sides that are picked; those that were looked at last stay in memory."""
        sides = tuple(request.query.get("side", [""]))
        with self._lock:
            report = self._reports.pop(sides, None) or ViewedReport(self._runs, sides)
            self._reports[sides] = report
            while len(self._reports) > MOST_REPORTS:
                self._reports.popitem(last=False)
        return report

    def _report(self, request: ViewRequest) -> ViewReply:
        return _page_reply(served_report(self._report_of(request).state().data))

    def _index(self, request: ViewRequest) -> ViewReply:
        version, index, _ = self._report_of(request).state()
        # Nothing is written out where the browser has this version.
        body = b"" if request.etag == version else index_json(index)
        return ViewReply(body, JSON, etag=version)

    def _trial(self, request: ViewRequest) -> ViewReply:
        return ViewReply(self._report_of(request).trial(_trial_name(request)), JSON)

    def _search(self, request: ViewRequest) -> ViewReply:
        words, number = (request.query.get(name, [""])[0] for name in ("q", "search"))
        return json_reply(self._report_of(request).search(words, number))

    def _note(self, request: ViewRequest) -> ViewReply:
        return json_reply(self._report_of(request).write_note(_trial_name(request), request.posted or {}))

    def _leaderboard(self, request: ViewRequest) -> ViewReply:
        headers = {name: header for name, (_, header) in self._runs.folders().items()}
        suites = list(dict.fromkeys(suite.name for header in headers.values() for suite in header.suites))
        suite = next(iter(request.query.get("suite", suites)), "")
        if suites and suite not in suites:
            raise UsageMistake(f"no run has the suite {suite!r}")
        picked = request.query.get("run", ())
        choice = ALL if request.query.get("runs") == ["all"] else PICKED if picked else NEWEST
        having = [name for name, header in headers.items() if suite in {each.name for each in header.suites}]
        names = having if choice == ALL else _newest_of_each_model(having, headers)
        names = [name for name in headers if name in picked] if choice == PICKED else names
        shown = names[:MOST_ON_BOARD]
        some = f"the newest {len(shown)} of {len(names)}" if len(shown) < len(names) else ""
        says = some or f"{len(shown)} of {pluralize(len(having), 'run')}"
        choices = [(NEWEST, _address("/leaderboard", suite=suite))]
        choices += [(ALL, _address("/leaderboard", suite=suite, runs="all"))]
        choices += [(PICKED, "")] if choice == PICKED else []
        others = [(name, _address("/leaderboard", suite=name)) for name in suites]
        board = self._board(suite, shown, is_newest=choice == NEWEST)
        chosen = SuiteChoice(suite, others, choice, choices, says)
        return _page_reply(leaderboard_page(board, str(self._runs.results), chosen))

    def _trend(self, request: ViewRequest) -> ViewReply:
        folders = whole_runs(self._runs.results)
        suites = suite_names(folders)
        suite = request.query.get("suite", suites or [""])[0]
        if suites and suite not in suites:
            raise UsageMistake(f"no run has the suite {suite!r}")
        last = request.query.get("last", [TREND_RUNS[0]])[0]
        if last not in TREND_RUNS:
            raise UsageMistake(f"last={last}: expected one of {', '.join(TREND_RUNS)}")
        choices = [(f"last {each} runs", _address("/trend", suite=suite, last=each)) for each in TREND_RUNS]
        others = [(name, _address("/trend", suite=name, last=last)) for name in suites]
        chosen = SuiteChoice(
            suite, others, f"last {last} runs", choices, "" if suites else "There are no runs yet."
        )
        trends = list(trends_of(folders, [suite], int(last))) if suites else []

        def link(run: str) -> str:
            return _address("/report", side=side_text("run", run))

        return _page_reply(served_trend(trends, link, str(self._runs.results), chosen))

    def _board(self, suite: str, names: Sequence[str], *, is_newest: bool) -> Mapping[str, Any] | None:
        """Give the leaderboard of a suite over runs, which are named the newest first."""
        runs = {name: self._runs.read(name) for name in names}
        name_of = {str(run.folder): name for name, run in runs.items()}
        order = {path: at for at, path in enumerate(name_of)}
        several = {path for path, run in zip(name_of, runs.values(), strict=True) if _has_several(run)}

        def side_of(row: LeaderboardRow) -> str:
            who = (row.view.model, row.view.variant or BASE) if row.path in several else ()
            return side_text("run", name_of[row.path], *who)

        for board in leaderboards_of(runs.values(), self._scorecards):
            if board.suite == suite:
                return board_document(newest_of_each(board, order) if is_newest else board, side_of)
        return None


def _trial_name(request: ViewRequest) -> TrialName:
    side, name = (request.query.get(part, [""])[0] for part in ("of", "trial"))
    if not (side.isascii() and side.isdecimal() and len(side) < MOST_DIGITS):
        raise UsageMistake(f"{side!r} is no number of a side")
    return int(side), name


def _has_several(run: Run) -> bool:
    return len({(view.model, view.variant) for view in suite_views(run)}) > 1


def _newest_of_each_model(names: Sequence[str], headers: Mapping[str, RunHeader]) -> list[str]:
    """Give the runs, which come the newest first, that have a model and variant that no newer one has."""
    known: set[tuple[str, str]] = set()
    chosen = []
    for name in names:
        header = headers[name]
        own = {(model.name, variant) for model in header.models for variant in header.variants or ("",)}
        if not own <= known:
            chosen.append(name)
            known |= own
    return chosen


def _address(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def _page_reply(page: ServedPage) -> ViewReply:
    return ViewReply(page.text.encode(errors="backslashreplace"), HTML, policy=page.policy)


def _versioned(data: Mapping[str, Any]) -> ViewReply:
    """Give a document whose version is what it holds: a browser that has it gets none."""
    body = page_json(KNOWN_SECRETS.value(data))
    return ViewReply(body, JSON, etag=f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')

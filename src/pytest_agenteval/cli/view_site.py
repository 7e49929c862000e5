"""What the addresses of ``agenteval view`` answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote, urlencode

from pytest_agenteval.cli.view_runs import ViewedRuns
from pytest_agenteval.cli.view_server import HTML, JSON, ViewReply, ViewRequest, json_reply, text_reply
from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.reports.html_report import write_html
from pytest_agenteval.reports.leaderboard import LeaderboardRow, leaderboards_of
from pytest_agenteval.reports.leaderboard_page import board_document, newest_of_each
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import suite_views
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.reports.sides import SidePick, sides_of_picks
from pytest_agenteval.reports.view_pages import LeaderboardChoice, ServedPage, leaderboard_page, runs_page
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_ON_BOARD = 50
"""Runs of one leaderboard: more of them would be read for long, and nobody looks at the rest."""

NEWEST, ALL = "newest run of each model", "all runs"


class ViewSite:
    """Answers requests about the runs of a folder; several threads may ask at once."""

    def __init__(self, runs: ViewedRuns, scorecards: Sequence[RegisteredScorecard] = ()) -> None:
        self._runs, self._scorecards = runs, scorecards
        self._pages: Mapping[str, Callable[[ViewRequest], ViewReply]] = {
            "/": self._list_page,
            "/leaderboard": self._leaderboard,
            "/report": self._report,
            "/api/runs": self._list,
            "/api/baselines": self._baselines,
        }

    def answer(self, request: ViewRequest) -> ViewReply:
        """Answer a request, also for what is not among the runs."""
        page = self._pages.get(request.path)
        if page is None:
            return text_reply(404, "there is no such page\n")
        if request.posted is not None:
            return text_reply(405, "this page takes nothing\n", {"Allow": "GET, HEAD"})
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

    def _report(self, request: ViewRequest) -> ViewReply:
        sides = sides_of_picks([self._pick(side) for side in request.query.get("side", [""])])
        with TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            write_html(path, ReportSource(sides, self._scorecards))
            # The page has a policy of its own, which allows its script.
            return ViewReply(path.read_bytes(), HTML, policy="frame-ancestors 'none'; connect-src 'none'")

    def _pick(self, side: str) -> SidePick:
        """Give what an address names; raises UsageMistake for what is not listed."""
        kind, *parts = [unquote(part) for part in side.split("/")]
        if kind == "baseline" and len(parts) == 1:
            return SidePick(self._runs.baseline(parts[0]))
        if kind == "run" and len(parts) in (1, 3):
            name, model, variant = parts if len(parts) == 3 else (parts[0], "", "")
            return SidePick(self._runs.follower(name).run(), model, variant)
        raise UsageMistake(f"{side!r} is no side: run/NAME, run/NAME/MODEL/VARIANT or baseline/PATH")

    def _leaderboard(self, request: ViewRequest) -> ViewReply:
        headers = {name: header for name, (_, header) in self._runs.folders().items()}
        suites = list(dict.fromkeys(suite.name for header in headers.values() for suite in header.suites))
        suite = next(iter(request.query.get("suite", suites)), "")
        if suites and suite not in suites:
            raise UsageMistake(f"no run has the suite {suite!r}")
        choice = ALL if request.query.get("runs") == ["all"] else NEWEST
        having = [name for name, header in headers.items() if suite in {each.name for each in header.suites}]
        names = having if choice == ALL else _newest_of_each_model(having, headers)
        shown = names[:MOST_ON_BOARD]
        some = f"the newest {len(shown)} of {len(names)}" if len(shown) < len(names) else ""
        says = some or f"{len(shown)} of {pluralize(len(having), 'run')}"
        choices = [(NEWEST, _address(suite=suite)), (ALL, _address(suite=suite, runs="all"))]
        others = [(name, _address(suite=name)) for name in suites]
        board = self._board(suite, shown, is_newest=choice == NEWEST)
        chosen = LeaderboardChoice(suite, others, choice, choices, says)
        return _page_reply(leaderboard_page(board, str(self._runs.results), chosen))

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


def side_text(*parts: str) -> str:
    """Write a side as addresses have it: ``run/NAME``, ``run/NAME/MODEL/VARIANT``, ``baseline/PATH``."""
    return "/".join(quote(part, safe="") for part in parts)


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


def _address(**query: str) -> str:
    return f"/leaderboard?{urlencode(query)}"


def _page_reply(page: ServedPage) -> ViewReply:
    return ViewReply(page.text.encode(errors="backslashreplace"), HTML, policy=page.policy)


def _versioned(data: Mapping[str, Any]) -> ViewReply:
    """Give a document whose version is what it holds: a browser that has it gets none."""
    body = json.dumps(KNOWN_SECRETS.value(data), separators=(",", ":")).encode()
    return ViewReply(body, JSON, etag=f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')

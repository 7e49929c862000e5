"""The report of picked sides in ``agenteval view``: followed, searched, and where notes are written."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode

from pytest_agenteval.cli.view_runs import RunState, ViewedRuns, as_text, run_progress, run_state
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.reports.html_report import report_index, trial_json
from pytest_agenteval.reports.page_index import Fields, IndexedTrial
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.sides import SidePick, sides_of_picks
from pytest_agenteval.reports.trial_search import TranscriptSearch, TranscriptTexts
from pytest_agenteval.reports.trial_view import judges_disagree
from pytest_agenteval.reports.view_pages import PAGES
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.notes import write_notes
from pytest_agenteval.store.run_follower import RunFollower
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake

SCAN_S, SEARCH_S = 0.3, 0.4
"""Seconds that one request may spend on reading transcripts: for votes of judges, and to search them."""

MOST_SEARCHES = 8
"""Searches of a report that can be gone on with."""

MOST_COMMENT = 20_000

TrialName: TypeAlias = tuple[int, str]
"""A trial by the number of its side and its name."""


def side_text(*parts: str) -> str:
    """Write a side as addresses have it: ``run/NAME``, ``run/NAME/MODEL/VARIANT``, ``baseline/PATH``."""
    return "/".join(quote(as_text(part), safe="") for part in parts)


class FollowedRun(NamedTuple):
    """A run of a report as it is now."""

    name: str
    run: Run
    state: RunState


class ReportState(NamedTuple):
    """A report as it was made: its index as ``data``, and its trials by side and name."""

    version: str
    data: Fields
    trials: Mapping[TrialName, IndexedTrial]


class ViewedReport:
    """The report of some sides, which is made anew where a run or a baseline has changed.

    Several threads may use it.
    """

    def __init__(self, runs: ViewedRuns, sides: Sequence[str]) -> None:
        self._runs, self._sides = runs, tuple(sides)
        self._lock = Lock()
        self._state: ReportState | None = None
        self._followers: dict[str, RunFollower] = {}
        self._votes: dict[tuple[str, object], bool] = {}
        self._searches: OrderedDict[str, TranscriptSearch[TrialName]] = OrderedDict()
        self._texts = TranscriptTexts()

    def state(self) -> ReportState:
        """Give the report as it is now: what is new of its runs is read.

        Raises UsageMistake for a side that is not listed.
        """
        with self._lock:
            picks, followed, versions = self._picked()
            pending = self._scan_votes([each.run for each in followed])
            parts = (*versions, *(each.state for each in followed), len(self._votes), pending)
            version = f'"{hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()}"'
            if self._state is None or self._state.version != version:
                self._state = self._made(version, picks, followed, pending)
            return self._state

    def _picked(self) -> tuple[list[SidePick], list[FollowedRun], list[object]]:
        """Give the sides, the runs among them, and the version of each side."""
        picks, versions = [], list[object]()
        followed: dict[str, FollowedRun] = {}
        for side in self._sides:
            kind, *parts = [unquote(part) for part in side.split("/")]
            if kind == "baseline" and len(parts) == 1:
                baseline, version = self._runs.baseline(parts[0])
                picks.append(SidePick(baseline))
            elif kind == "run" and len(parts) in (1, 3):
                name, model, variant = parts if len(parts) == 3 else (parts[0], "", "")
                follower = self._follower(name)
                if name not in followed:
                    run = follower.run()
                    followed[name] = FollowedRun(name, run, run_state(run.folder, run.header))
                picks.append(SidePick(followed[name].run, model, variant))
                version = follower.version
            else:
                raise UsageMistake(f"{side!r} is no side: run/NAME, run/NAME/MODEL/VARIANT or baseline/PATH")
            versions.append((side, version))
        return picks, list(followed.values()), versions

    def _follower(self, name: str) -> RunFollower:
        # All of a report's runs stay in memory with it, however many others are looked at.
        known = self._followers.get(name)
        if known is None or not known.is_there:
            known = self._followers[name] = self._runs.follower(name)
        return known

    def _scan_votes(self, runs: Sequence[Run]) -> int:
        """Read whether judges disagree about trials, which their transcripts say, as far as there is time.

        Gives the number of trials that are left for the next time. No other transcript is read.
        """
        until, left = time.monotonic() + SCAN_S, 0
        for run in runs:
            for entry in filter(_has_votes, run.entries):
                key = str(run.folder), entry.location
                if key not in self._votes and time.monotonic() < until:
                    self._votes[key] = _judges_disagree(run, entry)
                left += key not in self._votes
        return left

    def _made(
        self, version: str, picks: Sequence[SidePick], followed: Sequence[FollowedRun], pending: int
    ) -> ReportState:
        index, trials = report_index(ReportSource(sides_of_picks(picks)))
        for row, trial in zip(index["trials"], trials, strict=True):
            if trial.run is not None:
                row["disagree"] = self._votes.get((str(trial.run.folder), trial.entry.location), False)
        index["live"] = {
            "query": urlencode([("side", side) for side in self._sides]),
            "version": version,
            "pending": pending,
            "pages": _pages(index, followed),
            "runs": [
                {"name": name, "state": state, "progress": run_progress(run)._asdict()}
                for name, run, state in followed
            ],
        }
        going_on = {name: run for name, run, state in followed if state == "running"}
        for head in index["runs"]:
            if run := going_on.get(head["name"]):
                head["warnings"] = [note.text for note in run_warnings(view_of(run)) if not note.of_an_end]
        by_name = {(trial.side, trial.entry.key.label): trial for trial in reversed(trials)}
        # Each run is there as it is followed, which knows where its texts are.
        runs = {each.run.folder: each.run for each in followed}
        whole = {
            name: trial._replace(run=runs[trial.run.folder]) if trial.run else trial
            for name, trial in by_name.items()
        }
        return ReportState(version, index, whole)

    def trial(self, name: TrialName) -> bytes:
        """Read a trial as JSON for the page, null where there are only its figures.

        Raises UsageMistake for one that is not there, or whose transcript cannot be read.
        """
        trial = self._trial(name)
        if trial.run is None:
            return b"null"
        try:
            return trial_json(trial.run.trial(trial.entry))
        except AgentEvalError as lost:
            raise UsageMistake(str(lost)) from None

    def _trial(self, name: TrialName) -> IndexedTrial:
        # What the page has may be a moment older; a trial that it names is there in the newest state, too.
        found = self.state().trials.get(name)
        if found is None:
            raise UsageMistake(f"there is no trial {name[1]!r} on that side, or no longer")
        return found

    def search(self, query: str, number: str) -> Fields:
        """Search the transcripts for some tenths of a second, and give what was found in them.

        ``number`` is that of a search to go on with, empty for a new one. ``found`` are sides and names of
        trials; ``done`` and ``total`` say how far it is, ``unreadable`` how many trials cannot be read.
        """
        search = self._searches.get(number)
        trials = (
            [] if search else [(name, each.run, each.entry) for name, each in self.state().trials.items()]
        )
        with self._lock:
            if search is None:
                number = secrets.token_urlsafe(8)
                search = self._searches[number] = TranscriptSearch(query, trials, self._texts)
                while len(self._searches) > MOST_SEARCHES:
                    self._searches.popitem(last=False)
            found = list(_until(search.found(), time.monotonic() + SEARCH_S))
        counts = {"done": search.done, "total": search.total, "unreadable": search.unreadable}
        return {"search": number, "found": found, **counts}

    def write_note(self, name: TrialName, posted: Mapping[str, Any]) -> Fields:
        """Write a mark or a comment on a trial, or both, and give its note as it was written.

        What is not posted stays as it is, and may have been written elsewhere since the page was loaded.
        Raises UsageMistake where the note cannot be written.
        """
        looked_at, comment = posted.get("looked_at"), posted.get("comment")
        if not isinstance(looked_at, bool | None) or not isinstance(comment, str | None) or not posted:
            raise UsageMistake("a note has looked_at, true or false, or a comment")
        if comment and len(comment) > MOST_COMMENT:
            raise UsageMistake(f"the comment has {len(comment):,} characters: {MOST_COMMENT:,} are the most")
        trial = self._trial(name)
        if trial.run is None:
            raise UsageMistake("a baseline has only figures: its trials have no notes")
        attempts = {trial.entry.key: trial.entry.attempt}
        words = None if comment is None else comment.strip()
        (written,) = write_notes(trial.run.folder, attempts, looked_at=looked_at, comment=words).values()
        return {"looked_at": written.looked_at, "comment": written.comment}


def _has_votes(entry: JournalEntry) -> bool:
    """Whether judges gave more than one vote: from a single one nobody differs."""
    return entry.judging.asks is None or entry.judging.asks > 1


def _judges_disagree(run: Run, entry: JournalEntry) -> bool:
    try:
        grades: Sequence[Grade] = run.trial(entry).grades
    except AgentEvalError:
        return False
    return judges_disagree(grades)


def _until(found: Iterator[TrialName | None], moment: float) -> Iterator[TrialName]:
    for name in found:
        if name is not None:
            yield name
        if time.monotonic() > moment:
            return


def _pages(index: Fields, followed: Sequence[FollowedRun]) -> list[tuple[str, str]]:
    """Give the pages that a report leads to: of its own suite and runs."""
    suite = [("suite", each["suite"]) for each in index["suites"][:1]]
    runs = [("run", each.name) for each in followed]
    queries = {"/": "", "/leaderboard": urlencode([*suite, *runs]), "/trend": urlencode(suite)}
    return [(name, f"{path}?{query}" if (query := queries[path]) else path) for name, path in PAGES]

"""What a run is at, counted from the journals that all of its processes write while it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.records.plan import TrialKey, trial_name
from pytest_agenteval.records.transcript import Figure, Usage, cost_figure, token_figure
from pytest_agenteval.reports.group_statistics import ResourceUse
from pytest_agenteval.reports.progress_panel import Progress, RunningScore, RunningTrial
from pytest_agenteval.session.run_signals import DEAD_WORKERS
from pytest_agenteval.store.journal_tail import JournalNews, JournalTail
from pytest_agenteval.store.run_documents import Group, planned_after, read_extra, read_looks
from pytest_agenteval.store.run_folder import PLANNED, PlannedGroup, read_header, read_json, read_planned
from pytest_agenteval.text.formatting import MOST_NAME, model_label, one_line
from pytest_agenteval.text.redaction import KNOWN_SECRETS

NO_USE = ResourceUse(Figure(), Figure(), Figure())


def _with_usage(use: ResourceUse, usage: Usage) -> ResourceUse:
    return ResourceUse(use.tokens + token_figure(usage), use.cost + cost_figure(usage), use.seconds)


class RunningMean:
    """The mean of the tasks' mean scores, of one suite with one model and variant."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], tuple[float, int]] = {}
        self._sum = 0.0

    @property
    def mean(self) -> float | None:
        """The mean score; None before any trial has one."""
        return self._sum / len(self._tasks) if self._tasks else None

    def add(self, task: tuple[str, str], score: float, count: int = 1) -> None:
        """Count a trial's score; a ``count`` of -1 takes a score away again."""
        total, trials = self._tasks.pop(task, (0.0, 0))
        self._sum -= total / trials if trials else 0.0
        total, trials = total + count * score, trials + count
        if trials:
            self._tasks[task] = (total, trials)
            self._sum += total / trials


FEWEST_ENDED, FEWEST_SECONDS = 3, 3.0
"""The ended trials and seconds before which the remaining time is not estimated."""

MORE_TO_COME = 0.25
"""How much longer, of its time so far, a trial is expected to take that has lasted as long as others."""


class RunPlan(NamedTuple):
    """The plan of a run: groups in their order, the number of trials, and how many they may become."""

    groups: tuple[PlannedGroup, ...]
    trials: int
    most: int
    is_decided: bool

    @classmethod
    def read(cls, folder: Path) -> RunPlan:
        """Read the plan as the run's processes have written it so far."""
        planned, extra = read_planned(read_json(folder / PLANNED)), read_extra(folder)
        looks = read_looks(folder) if extra else None
        if extra and looks is not None:
            planned = planned_after(planned, extra, looks)
        trials = sum(group.trials for group in planned)
        more = sum(group.trials for group in extra.planned) if extra and looks is None else trials
        return cls(planned, trials, more, extra is None or looks is not None)


class EndedTrial(NamedTuple):
    """How the last attempt of a trial ended."""

    ending: str
    score: float | None


class RunProgress:
    """Counts what a run's processes write into their journals; ``now`` is in seconds of a monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._tail = folder, JournalTail(folder)
        self._plan = RunPlan.read(folder)
        self._is_regraded = bool(read_header(folder).regraded)
        self._in_flight: dict[TrialKey, tuple[str, float]] = {}
        self._ended: dict[TrialKey, EndedTrial] = {}
        self._endings: dict[str, int] = {}
        self._means: dict[Group, RunningMean] = {
            (group.suite, group.model, group.variant): RunningMean() for group in self._plan.groups
        }
        self._spent = self._judging = NO_USE
        self._began: float | None = None
        self._finished_seconds = 0.0
        self._attempts_ended = 0
        if read_header(folder).resumed:  # the trials of before count as ended, but not for the pace
            while lines := [news for _, fresh in self._tail.news() for news in fresh]:
                for news in lines:
                    if news.kind == "finished":
                        self._count(news.key, EndedTrial(news.ending, news.score))

    @property
    def is_going_on(self) -> bool:
        """Whether trials are in flight or still to come, once the first has started."""
        coming = not self._plan.is_decided or len(self._ended) < self._plan.trials
        return self._began is not None and (bool(self._in_flight) or coming)

    def update(self, now: float) -> None:
        """Read what has been written down since the last time."""
        for worker, lines in self._tail.news():
            for news in lines:
                self._take(worker, news, now)
        if not self._plan.is_decided:
            self._plan = RunPlan.read(self._folder)
        word = self._folder / DEAD_WORKERS
        if word.exists():
            dead = frozenset(word.read_text(encoding="utf-8").split())
            self._in_flight = {key: value for key, value in self._in_flight.items() if value[0] not in dead}

    def _take(self, worker: str, news: JournalNews, now: float) -> None:
        key = news.key
        if news.kind == "started":
            self._began = now if self._began is None else self._began
            self._in_flight[key] = (worker, now)
            return
        _, began = self._in_flight.pop(key, ("", now))
        self._finished_seconds += now - began
        self._attempts_ended += 1
        self._spent = _with_usage(self._spent, news.usage.usage)
        if news.judging.asks:
            self._judging = _with_usage(self._judging, news.judging.usage)
        self._count(key, EndedTrial(news.ending, news.score))

    def _count(self, key: TrialKey, trial: EndedTrial) -> None:
        before = self._ended.get(key)
        if before is not None:
            self._add(key, before, -1)
        self._ended[key] = trial
        self._add(key, trial, 1)

    def _add(self, key: TrialKey, trial: EndedTrial, count: int) -> None:
        self._endings[trial.ending] = self._endings.get(trial.ending, 0) + count
        if trial.ending != "errored" and trial.score is not None:  # as JournalEntry.averaged has it
            mean = self._means.setdefault((key.suite, key.model, key.variant), RunningMean())
            mean.add((key.task, key.agent), trial.score, count)

    def progress(self, now: float) -> Progress:
        """Give the run's progress."""
        return Progress(
            planned=max(self._plan.trials, len(self._ended)),
            most=self._plan.most,
            ended=len(self._ended),
            in_flight=len(self._in_flight),
            passed=self._endings.get("passed", 0),
            missed=self._endings.get("missed", 0),
            failed=self._endings.get("failed", 0),
            errored=self._endings.get("errored", 0),
            scores=tuple(self._scores()),
            spent=self._spent,
            judging=self._judging,
            seconds_left=self._seconds_left(now),
            slowest=self._slowest(now),
            is_regraded=self._is_regraded,
        )

    def _scores(self) -> Iterable[RunningScore]:
        several = len({group[1:] for group in self._means}) > 1
        for (suite, model, variant), mean in self._means.items():
            label = f"{suite}[{model_label(model, variant)}]" if several else suite
            yield RunningScore(one_line(KNOWN_SECRETS.text(label), MOST_NAME), mean.mean)

    def _slowest(self, now: float) -> RunningTrial | None:
        for key, (_, began) in self._in_flight.items():  # in the order in which they began
            return RunningTrial(KNOWN_SECRETS.text(trial_name(key)), now - began)
        return None

    def _seconds_left(self, now: float) -> float | None:
        """Estimate the remaining seconds at the pace so far; None where it is too early."""
        # A trial in flight counts as the part of an average trial that it has done.
        if self._began is None or self._attempts_ended < FEWEST_ENDED or not self._plan.is_decided:
            return None
        elapsed = now - self._began
        if elapsed < FEWEST_SECONDS:
            return None
        average = self._finished_seconds / self._attempts_ended
        times = [(now - began) / average if average else 1.0 for _, began in self._in_flight.values()]
        parts = [max(1 - lasted, lasted * MORE_TO_COME) for lasted in times]
        left = sum(min(part, 1.0) for part in parts)
        pace = elapsed / (self._attempts_ended + len(parts) - left)
        known_trials = len(self._ended) + sum(key not in self._ended for key in self._in_flight)
        waiting = max(0, self._plan.trials - known_trials)
        return max((waiting + left) * pace, max(parts, default=0.0) * average)

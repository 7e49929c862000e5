"""Figures of a run that goes on, kept up trial by trial: what was spent, and mean scores."""

from __future__ import annotations

from pytest_agenteval.records.transcript import Figure, Usage, cost_figure, token_figure
from pytest_agenteval.reports.group_statistics import ResourceUse


class SpentSoFar:
    """What all attempts that have ended took."""

    def __init__(self) -> None:
        self._tokens = self._cost = Figure()

    def add(self, usage: Usage) -> None:
        """Count one attempt."""
        self._tokens += token_figure(usage)
        self._cost += cost_figure(usage)

    @property
    def use(self) -> ResourceUse:
        """All of it."""
        return ResourceUse(self._tokens, self._cost, Figure())


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
        """Count a trial's score; a ``count`` of -1 takes back what was counted."""
        total, trials = self._tasks.pop(task, (0.0, 0))
        self._sum -= total / trials if trials else 0.0
        total, trials = total + count * score, trials + count
        if trials:
            self._tasks[task] = (total, trials)
            self._sum += total / trials

"""Several trials of one task, as ``run`` gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from pytest_agenteval.records.trial import Trial


class Trials(Sequence[Trial]):
    """The trials of one task, in the order of their repetitions."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = tuple(trials)

    @overload
    def __getitem__(self, at: int) -> Trial: ...
    @overload
    def __getitem__(self, at: slice) -> Trials: ...
    def __getitem__(self, at: int | slice) -> Trial | Trials:
        """Give the trial at a place, from 0, or those of a slice."""
        return Trials(self._trials[at]) if isinstance(at, slice) else self._trials[at]

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __repr__(self) -> str:
        score = "no score" if self.score is None else f"score {self.score:.2f}"
        return f"<Trials: {self.passed} of {len(self)} passed, {score}>"

    @property
    def score(self) -> float | None:
        """The mean score, 0 to 1, of the trials that did not error; None where all did."""
        scores = [trial.score for trial in self._trials if trial.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(trial.ending == "passed" for trial in self._trials)

    @property
    def errored(self) -> int:
        """How many say nothing of the agent, for something else broke."""
        return sum(trial.ending == "errored" for trial in self._trials)

    @property
    def all_passed(self) -> bool:
        """Whether every one passed: pass^k of this task."""
        return bool(self._trials) and self.passed == len(self._trials)

    def explain(self) -> str:
        """Say of each trial why it ended as it did."""
        return "\n".join(f"{number}: {trial.explain()}" for number, trial in enumerate(self._trials, start=1))

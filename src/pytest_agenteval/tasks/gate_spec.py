"""What a suite's file says of its gate: the rules by which a run is good enough."""

from __future__ import annotations

from typing import Annotated

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.field_types import (
    Count,
    Named,
    Share,
    Shares,
    Spec,
    Tolerance,
    expects,
)


class Gate(Spec, frozen=True, kw_only=True):
    """What a run of a suite has to reach: where it does not, pytest's exit status is 1."""

    score: Annotated[Share | None, expects("a number from 0 to 1: the least mean score of the suite")] = None
    buckets: Annotated[
        Shares, expects("a map from buckets of the suite to their least mean score, 0 to 1")
    ] = NOTHING
    pass_hat_k: Annotated[
        Share | None,
        expects("a number from 0 to 1: the least share of tasks that pass at every repetition"),
    ] = None
    not_worse: Annotated[
        bool | Tolerance | None,
        expects(
            "true: neither the suite nor a bucket is worse than in the baseline; or a number between 0 and "
            "1: and the suite surely not by more than this"
        ),
    ] = None
    better: Annotated[
        bool | None, expects("true or false: whether the suite, or a bucket, has to be better")
    ] = None
    errored: Annotated[
        Share | None,
        expects("a number from 0 to 1: the largest share of trials that errored or were never run"),
    ] = None
    recheck: Annotated[
        Count | None,
        expects("a whole number, 1 or more: how often a broken task is tried again before it counts"),
    ] = None
    baseline: Annotated[Named | None, expects("the path of a baseline's file, from the suite's folder")] = (
        None
    )

    @property
    def asks(self) -> bool:
        """Whether anything has to be reached."""
        rules = (self.score, self.buckets or None, self.pass_hat_k, self.not_worse, self.better, self.errored)
        return any(rule is not None and rule is not False for rule in rules)

    @property
    def needs_baseline(self) -> bool:
        """Whether there has to be something to compare with."""
        return bool(self.not_worse or self.better)


NO_GATE = Gate()

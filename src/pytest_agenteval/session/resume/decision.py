"""What becomes of a trial that has been tried before: it is kept, graded again, or tried again, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_agenteval.engine.slots import Slot
from pytest_agenteval.records.trial import Trial

if TYPE_CHECKING:
    from pytest_agenteval.session.resume.earlier_trials import EarlierTrial


Course: TypeAlias = Literal["keep", "take over", "regrade", "rerun", "run"]
"""It stays, it is written into this run, it gets new grades, it is tried again, or for the first time."""

RANK: dict[Course, int] = {"keep": 0, "take over": 1, "regrade": 2, "rerun": 3, "run": 4}
"""Of several courses the one that costs least is taken."""


class Decision(NamedTuple):
    """What becomes of a trial; ``because`` is the reason in words, where there is one to be told."""

    course: Course
    because: str = ""
    earlier: EarlierTrial | None = None

    def unchanged_trial(self) -> Trial | None:
        """Give the trial that stays as it is; None where there is something to do, or it cannot be read."""
        return self.earlier.whole() if self.earlier is not None and self.course == "keep" else None

    def fill(self, slot: Slot) -> None:
        """Let a slot give the earlier trial, as it is or with new grades, in place of a new one."""
        earlier = self.earlier
        if earlier is None:
            return
        if self.course == "take over":
            slot.read_finished = lambda: earlier.taken_over(slot.plan)
        elif self.course == "regrade":
            slot.read_stored = earlier.to_regrade


RUN = Decision("run")
"""Of a trial that has never finished."""

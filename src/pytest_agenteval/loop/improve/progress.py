"""How far an improvement has come: what it set out to do, each round, what held-out tasks said.

Written after every step, so that whatever ends the process loses no more than the step it was at.
"""

from __future__ import annotations

from typing import Literal

from pytest_agenteval.loop.improve.confirmation import Confirmation
from pytest_agenteval.loop.improve.paired_runs import Spent
from pytest_agenteval.records.record import Document, FrozenValue

Step = Literal["coding", "changed", "screened", "decided"]
"""What of a round is done: nothing for sure, the change is made, the focus was tried, all of it."""

Decision = Literal["", "kept for now", "discarded", "refused", "nothing changed"]
Outcome = Literal["", "confirmed", "kept on dev, not confirmed", "nothing kept"]


class Limits(FrozenValue, frozen=True):
    """How far an improvement may go: rounds, trials in all, seconds of the coding agent; None: no limit."""

    rounds: int
    max_rounds: int | None
    max_trials: int | None
    coding_timeout: float


class TriedPair(FrozenValue, frozen=True):
    """What came of trying old and new: ``sentence`` is the comparison's verdict.

    ``focus_old`` and ``focus_new`` are means over the focus's tasks. ``note`` is what makes it doubtful.
    """

    runs: tuple[str, ...]
    sentence: str
    decision: str
    reason: str
    focus_old: float | None
    focus_new: float | None
    repetitions: int
    in_one_run: bool
    spent: Spent
    seconds: float
    note: str = ""

    @property
    def words(self) -> str:
        """The reason, with what makes it doubtful."""
        return f"{self.reason}; {self.note}" if self.note else self.reason


class Round(FrozenValue, frozen=True):
    """One round: the change, what was said of it, and why.

    ``base`` and ``commit`` are commits, the latter empty until a change is made. ``last_line`` is the last
    that the coding agent printed. ``leaks`` are quoted as ``file:line: what``. ``meanwhile`` names files of
    the user's own checkout that were changed while the coding agent worked: by it, or by anybody else.
    """

    number: int
    base: str
    step: Step = "coding"
    decision: Decision = ""
    reason: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    diff: str = ""
    last_line: str = ""
    coding_seconds: float = 0.0
    meanwhile: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    leaks_held_out: bool = False
    screen: TriedPair | None = None
    dev: TriedPair | None = None


class StartRun(FrozenValue, frozen=True):
    """The run that the first feedback is about, and the mean score of its trials."""

    run: str
    score: float | None
    spent: Spent
    seconds: float


class HeldOut(FrozenValue, frozen=True):
    """What held-out tasks say of the start against what was kept; None where they were not tried."""

    reason: str
    confirmation: Confirmation | None = None
    tried: TriedPair | None = None


class Improvement(Document, frozen=True, kw_only=True):
    """How prompts were improved: what was asked, what each round did, and what held-out tasks confirm.

    ``folder`` is where the user stood, ``suite_file`` which suite it is, both from the top of the repository.
    ``globs`` say which files are prompts, from that folder. ``start`` and ``kept`` are commits; ``branch``
    points to the second as soon as a round is kept. ``feedback_run`` and ``feedback_variant`` are what the
    next feedback is about. ``ended`` says why no further round began.
    """

    name: str
    started_at: str
    command: str
    suite: str
    suite_file: str
    folder: str
    globs: tuple[str, ...]
    focus: tuple[str, ...]
    repetitions: int
    limits: Limits
    options: tuple[str, ...]
    results: str
    branch: str
    start: str
    kept: str
    start_run: StartRun | None = None
    feedback_run: str = ""
    feedback_variant: str = ""
    rounds: tuple[Round, ...] = ()
    ended: str = ""
    held_out: HeldOut | None = None
    outcome: Outcome = ""
    trials: int = 0
    seconds: float = 0.0

    @property
    def has_kept(self) -> bool:
        """Whether any round was kept."""
        return self.kept != self.start

    @property
    def rounds_without_keep(self) -> int:
        """How many of the last rounds in a row were not kept."""
        without = 0
        for each in reversed(self.rounds):
            if each.step != "decided" or each.decision == "kept for now":
                break
            without += 1
        return without

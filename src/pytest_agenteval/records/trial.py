"""One agent with one model doing one task once, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isclose
from typing import Literal

from pytest_agenteval.records.evidence import Grade, Outcome
from pytest_agenteval.records.explanation import explain_trial
from pytest_agenteval.records.plan import Kind, Label, Plan, Split, TrialKey, task_facts
from pytest_agenteval.records.record import NOTHING, Record, VersionedRecord
from pytest_agenteval.records.transcript import JUDGE_ASK, USER_ASK, Transcript, Usage

Ending = Literal["passed", "missed", "failed", "errored"]
"""How a trial ended: passed, missed (capability suites), failed, or errored."""


class Digests(Record, frozen=True, gc=False):
    """Hashes of what must be equal for two trials to be comparable.

    The agent sees ``input``, ``fixture``, ``prompt``, ``settings`` and ``tools``; ``ruler`` covers every
    grader with its configuration, version, judge and rubric; ``model`` the model with its parameters.
    ``code`` covers the source files of the agent's own code, empty where there are none. ``graders``
    holds for each grade's label what ``ruler`` covers of it, with the grader's version in front:
    ``"3:0a1b2c3d4e5f"``. ``offered`` covers the tools that there were before the agent acted, where it
    has offered others since: ``NO_TOOLS`` where there were none. ``tool_code`` covers the files in which
    tools are written, ``acted_out`` what an offline model acts out, ``grader_code`` for each label the
    source files of somebody's own grader. These three decide whether a stored trial is what a new one
    would be, and keep no two trials from being compared. ``sent`` covers what models really received,
    whoever called them: the ``system prompt``, the ``first message`` where it is not the task's own
    words, and the ``list of tools`` where these are the agent's own.
    """

    input: str = ""
    fixture: str = ""
    prompt: str = ""
    settings: str = ""
    tools: str = ""
    ruler: str = ""
    model: str = ""
    code: str = ""
    graders: Mapping[str, str] = NOTHING
    offered: str = ""
    tool_code: str = ""
    acted_out: str = ""
    grader_code: Mapping[str, str] = NOTHING
    sent: Mapping[str, str] = NOTHING


# Stands for the digest of the tools that a trial had before its agent offered others, if it had none.
NO_TOOLS = "none"


class TapeCounts(Record, frozen=True, gc=False):
    """How many calls were replayed, missing, sent and recorded."""

    hits: int = 0
    misses: int = 0
    recorded: int = 0


# Of a trial that opened no cassette.
NO_TAPE = TapeCounts()


class Origin(Record, frozen=True):
    """The earlier attempt that a reused trial comes from.

    ``run`` is the name of the run that carried it out; it is empty for an earlier attempt of the same run.
    ``regraded`` means that its grades are new.
    """

    run: str
    attempt: int
    regraded: bool = False


class ErrorDetails(Record, frozen=True):
    """What broke a trial; its cause is a word of ``docs/concepts/trials.md``."""

    cause: str
    message: str
    traceback: str = ""


# The error of a trial in which nothing broke.
NO_ERROR = ErrorDetails("", "")


def part_paid(used: Usage, paid: Usage) -> Usage | None:
    """Give what was paid of the usage; None where that is all of it, or where it cost nothing.

    An offline model's tokens cost nothing, so its trials need not record that none was paid.
    """
    if used.cost_usd == 0 == paid.cost_usd and paid.tokens in (0, used.tokens):
        return None
    are_equal = (
        (paid.tokens, paid.known_tokens) == (used.tokens, used.known_tokens)
        and (paid.cost_usd is None) == (used.cost_usd is None)
        # Sums of the same costs may differ in the last digits, by the order in which they were added.
        and isclose(paid.known_cost_usd, used.known_cost_usd, rel_tol=1e-9)
    )
    return None if are_equal else paid


class Trial(VersionedRecord, frozen=True):
    """One finished trial.

    ``score`` is the weighted mean of decided grades, None when none is decided or the trial errored. ``file``
    is the task's file, from pytest's rootdir. ``limit`` names the trial's own limit that ran out, if one did.
    ``cause`` and ``message`` say why an errored trial broke.

    ``seconds`` is the time from the start of the agent to its end, without waiting for a slot. The limit does
    not count the ``uncharged_seconds`` of it: failed requests, back-off, imports, a busy process.
    ``wall_seconds`` run from ``started_at`` to the trial's end, with its set-up and its graders; None where
    that is unknown.

    ``label`` says whether the agent should act, ``acted`` whether it did. ``acted`` is None where the task
    has no label, or its suite does not define what acting is. ``split`` is None where it is unknown. ``paid``
    is the part of the usage that was requested in this run, and not replayed from a recording; None where
    that is all of it. ``origin`` says where a trial was carried out that its run has taken over.
    """

    key: TrialKey
    attempt: int
    ending: Ending
    score: float | None
    grades: tuple[Grade, ...]
    transcript: Transcript
    outcome: Outcome
    digests: Digests
    kind: Kind = "mixed"
    bucket: str = ""
    tags: tuple[str, ...] = ()
    file: str = ""
    limit: str = ""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    started_at: str = ""
    seconds: float = 0.0
    tool_tape: TapeCounts = NO_TAPE
    chat_tape: TapeCounts = NO_TAPE
    output: str = ""
    log: str = ""
    workspace: str = ""
    label: Label = ""
    acted: bool | None = None
    split: Split | None = None
    paid: Usage | None = None
    origin: Origin | None = None
    uncharged_seconds: float = 0.0
    wall_seconds: float | None = None

    @classmethod
    def errored(cls, plan: Plan, error: ErrorDetails) -> Trial:
        """Make the record of a trial that never started, or of which only the error is left."""
        return cls(
            key=plan.key,
            attempt=plan.attempt,
            ending="errored",
            score=None,
            grades=(),
            transcript=Transcript(),
            outcome=Outcome(),
            digests=Digests(),
            cause=error.cause,
            message=error.message,
            traceback=error.traceback,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **task_facts(plan.task),
        )

    @property
    def charged_seconds(self) -> float:
        """The seconds that count against the trial's limit."""
        return self.seconds - self.uncharged_seconds

    @property
    def usage(self) -> Usage:
        """Tokens, money and attempts of the whole trial."""
        return self.transcript.usage

    @property
    def judging(self) -> Usage:
        """Tokens, money and attempts of the judges, which are no part of ``usage``."""
        # From events, which regrading replaces, while it leaves the agent's usage as it was.
        return self.transcript.usage_of(JUDGE_ASK)

    @property
    def simulating(self) -> Usage:
        """Tokens, money and attempts of the model that plays the user, which are no part of ``usage``."""
        return self.transcript.usage_of(USER_ASK)

    @property
    def spending(self) -> Usage:
        """Tokens, money and attempts that were paid in this run: of agent, judges and user together."""
        return self.transcript.all_usage if self.paid is None else self.paid

    @property
    def full(self) -> bool:
        """Whether every decided grade reached 1, not only its threshold."""
        decided = [grade for grade in self.grades if grade.score is not None]
        return self.ending == "passed" and all(grade.full for grade in decided)

    def explain(self) -> str:
        """Explain why the trial ended as it did: graders, failed checks, errors, the answer, changed files.

        A run prints the same lines.
        """
        return "\n".join(explain_trial(self))

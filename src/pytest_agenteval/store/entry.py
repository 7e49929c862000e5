"""A trial as its journal lines tell it: enough for every figure, without the transcript."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Digests, Ending, Kind, TapeCounts, TrialKey


class Place(NamedTuple):
    """Where a transcript stands: the file's name in the run's folder, the first byte, how many bytes."""

    file: str
    offset: int
    length: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Entry:
    """The last finished attempt of one trial.

    ``attempts`` counts how often the trial was begun, ``earlier`` and ``earlier_seconds`` hold what the
    finished attempts before this one took. Grades are without checks and details, and long rationales,
    messages and tracebacks are cut: the trial itself has all of it.
    """

    key: TrialKey
    attempt: int
    ending: Ending
    score: float | None
    grades: tuple[Grade, ...]
    place: Place
    digests: Digests = field(default_factory=Digests)
    usage: Usage = field(default_factory=Usage)
    judging: Usage = field(default_factory=Usage)
    full: bool = False
    kind: Kind = "mixed"
    bucket: str = ""
    tags: tuple[str, ...] = ()
    limit: str = ""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    started_at: str = ""
    seconds: float = 0.0
    tool_tape: TapeCounts = field(default_factory=TapeCounts)
    chat_tape: TapeCounts = field(default_factory=TapeCounts)
    attempts: int = 1
    earlier: tuple[Usage, ...] = ()
    earlier_seconds: float = 0.0

    @property
    def averaged(self) -> bool:
        """Whether the trial enters averages: errored ones never do."""
        return self.ending != "errored" and self.score is not None


class Begun(NamedTuple):
    """An attempt that was begun and, as far as the journal knows, never finished."""

    key: TrialKey
    attempt: int

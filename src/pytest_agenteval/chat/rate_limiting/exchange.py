"""What the processes of a run tell whoever shares models out among them, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pytest_agenteval.records.record import NOTHING, Record

AT_START = 64
PATIENCE_S = 120.0


class Limits(Record, frozen=True):
    """How a model may be asked, by the whole run.

    ``at_once`` is the most requests under way, 0 for as many as the processes have trials at once; with
    ``at_start`` of them the run begins. ``patience_s`` is for how long a model is waited for that replies to
    nobody. A limit per minute is None where there is none.
    """

    at_once: int = 0
    at_start: int = AT_START
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    patience_s: float = PATIENCE_S


class Failure(Record, frozen=True):
    """Why a model cannot be had, found by a request that has been tried often enough.

    ``lasts`` is True where no waiting would help. ``message`` is for people, and names the model.
    """

    cause: str
    message: str
    lasts: bool = False


class Refusals(Record, frozen=True):
    """Requests that a provider has put off, since the last report: it is asked too much, or has no room.

    ``wait_s`` is the longest that it wants to be left alone, ``began_ago_s`` how long ago the last of them
    was sent, ``failure`` what it said to that one.
    """

    failure: Failure
    statuses: Mapping[str, int] = NOTHING
    wait_s: float = 0.0
    began_ago_s: float = 0.0


class Report(Record, frozen=True):
    """What one process has to tell of one model, since it told last.

    ``process`` is its number and a word of its own. ``most`` is how many requests it would have under way at
    once at most, 0 for none any more; ``tokens`` are what those that wait will take. ``begun`` were sent,
    ``replied`` were answered. Of what it was granted it gives back ``unused_starts`` and ``unused_tokens``,
    below 0 where more was used than had been estimated. ``dropped`` says that a request came to no end.
    """

    process: str
    model: str
    name: str
    limits: Limits
    most: int = 1
    in_flight: int = 0
    waiting: int = 0
    tokens: int = 0
    begun: int = 0
    replied: int = 0
    unused_starts: int = 0
    unused_tokens: int = 0
    refusals: Refusals | None = None
    failure: Failure | None = None
    dropped: bool = False


class Share(Record, frozen=True):
    """What one process may do with one model until it asks again.

    It may have ``at_once`` requests under way and begin ``starts`` more, of ``tokens`` together; None is no
    limit. Who waits asks again after ``again_s``. ``replied`` counts the replies that all have had.
    ``is_in_trouble`` says that the model replies to nobody just now, ``down`` that it will not in this run.
    ``others_wait`` says that a place that is given back is wanted elsewhere.
    """

    at_once: int = 0
    starts: int | None = None
    tokens: int | None = None
    again_s: float = 0.0
    replied: int = 0
    is_in_trouble: bool = False
    down: Failure | None = None
    others_wait: bool = False


class Standing(Record, frozen=True):
    """How a model has fared in this run: how often it put a request off, and what became of it.

    ``least`` is how few requests at once it was held to. ``outages`` counts how often it replied to nobody.
    One that ``is_in_trouble`` replies to nobody just now; it ``is_tried`` while a request will tell when that
    is over, or all leave it alone for a while.
    """

    model: str
    name: str
    refused: Mapping[str, int] = NOTHING
    least: int = 0
    outages: int = 0
    is_in_trouble: bool = False
    is_tried: bool = False
    down: Failure | None = None


class ShareStore(Protocol):
    """Shares models out among the processes of a run; all that goes in and out is plain data."""

    async def exchange(self, report: Report) -> Share:
        """Take note of what a process tells of a model, and say what it may do."""
        ...

    async def leave(self, process: str) -> None:
        """Take back all that a process has: it asks nothing any more."""
        ...

    async def standings(self) -> tuple[Standing, ...]:
        """Say how every model has fared that was asked."""
        ...

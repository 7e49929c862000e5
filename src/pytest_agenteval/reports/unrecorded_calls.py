"""What was asked and not recorded: by trial, and of a whole run the worst first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pytest_agenteval.records.transcript import Event
from pytest_agenteval.reports.formatting import one_line, pluralize, printable
from pytest_agenteval.reports.text_width import wrap

if TYPE_CHECKING:
    from pytest_agenteval.store.run_reader import Run

KIND = "cassette_miss"
MOST_LINE, MOST_WAY = 300, 1000


class UnrecordedCall(NamedTuple):
    """One question that no recording answers: where it was looked for, what is there, what can be done."""

    file: str
    asked: str
    found: str
    hint: str

    @property
    def name(self) -> str:
        """The question, and the file that lacks it."""
        return one_line(f"{self.file}: {self.asked}", MOST_LINE)

    @property
    def ways(self) -> Iterator[str]:
        """What there is in its place, and how to record it, line by line."""
        yield f"found: {one_line(self.found, MOST_LINE)}"
        yield from (one_line(way.strip(), MOST_WAY) for way in self.hint.splitlines())


def count_unrecorded(events: Iterable[Event]) -> Counter[UnrecordedCall]:
    """Count what a trial asked and was not recorded, in the order of asking."""
    return Counter(_unrecorded_call(event) for event in events if event.kind == KIND)


def unrecorded_lines(run: Run, most: int, width: int) -> Iterator[str]:
    """Name what the trials of a run missed, the most often missed first."""
    times: Counter[UnrecordedCall] = Counter()
    trials: dict[UnrecordedCall, int] = defaultdict(int)
    for entry in run.entries:
        if not entry.tool_tape.misses and not entry.chat_tape.misses:
            continue
        trial = run.trial_if_readable(entry)
        if trial is not None:
            for call, number in count_unrecorded(trial.transcript.events).items():
                times[call] += number
                trials[call] += 1
    ranked = sorted(times, key=lambda call: (-trials[call], -times[call], call))
    for call in ranked[:most]:
        often = f"{times[call]} times in {pluralize(trials[call], 'trial')}"
        yield from wrap(f"{often if times[call] > 1 else 'once'}: {call.name}", width)
        yield from (f"  {piece}" for way in call.ways for piece in wrap(way, width - 2))
    if len(ranked) > most:
        yield f"and {len(ranked) - most} more"


def _unrecorded_call(event: Event) -> UnrecordedCall:
    details = event.details
    return UnrecordedCall(
        *(printable(str(details.get(name, ""))) for name in ("file", "asked", "found", "hint"))
    )

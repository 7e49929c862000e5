"""Where a recording lies, and its cassettes: each is opened at the first request that is for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.chat.model_traffic import ModelTape, ModelTraffic
from pytest_agenteval.engine.intercepted_requests import lazy_traffic
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import NO_PRICES, OWN_MODEL, Allowance, Prices, RecordMode
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools.tool_tape import ToolTape


class RecordingPlace(NamedTuple):
    """Where a recording lies, and how it is made.

    ``base`` is the path of its files without their endings; ``root`` is what names in messages are relative
    to. ``repetition`` counts from 1: each has model replies of its own. ``ways`` are the commands that
    record, or let out. ``has_trial`` says that what is doubtful about it is told with the run's trials;
    ``prices`` are the user's.
    """

    base: Path
    root: Path
    record: RecordMode
    record_chat: RecordMode
    live: bool
    repetition: int
    ways: RecordingWays
    has_trial: bool = False
    prices: Prices = NO_PRICES

    @property
    def chat_file(self) -> Path:
        """The file of the model's replies."""
        return Path(f"{self.base}.chat", f"{OWN_MODEL}-{self.repetition}.yaml")

    @property
    def chat_mode(self) -> RecordMode:
        """The mode of the model's replies: in ``off`` what was recorded is played, unless all may go out."""
        plays = self.record_chat == "off" and not self.live and self.chat_file.exists()
        return "none" if plays else self.record_chat


class RecordingWays(NamedTuple):
    """What a message says that records what is missing, lets it out, or records all replies anew."""

    record: str
    let_out: str
    anew: str


class RecordingTapes:
    """The cassettes of one block, in which one may find its requests."""

    def __init__(self, place: RecordingPlace, library: Library, recorder: Recorder) -> None:
        self._place, self._library, self._recorder = place, library, recorder
        self._opening = threading.Lock()
        self._tools: ToolTape | None = None
        self._chat: ModelTape | None = None
        self.traffic = lazy_traffic(self._make_traffic)

    def of_tools(self) -> Sequence[Tape]:
        """Give the tapes of all requests that are no model's."""
        return self.tools.of_agent

    @property
    def tools(self) -> ToolTape:
        """The tape of all requests that are no model's."""
        with self._opening:  # several threads may make the first request
            if self._tools is None:
                place = self._place
                tape = self._library.open(Path(f"{place.base}.yaml"), place.record, "tool")  # type: ignore[arg-type]  # never "off"
                let_out = f"let it out:  {place.ways.let_out}"
                self._tools = ToolTape(tape, retry_command=place.ways.record, let_out=let_out)
            return self._tools

    def _make_traffic(self) -> ModelTraffic:
        place, mode = self._place, self._place.chat_mode
        if mode != "off":
            tape = self._library.open(place.chat_file, mode, "chat")
            self._chat = ModelTape(tape, place.ways.record)
        refusal = (
            f"this code asks a model, and nobody said that it may\n"
            f"  record it:   {place.ways.record}\n  let it out:  {place.ways.let_out}"
        )
        budget = Budget(Allowance())
        return ModelTraffic(self._recorder, budget, self._chat, sends=place.live, refusal=refusal)

    @property
    def counts(self) -> tuple[TapeCounts, TapeCounts]:
        """How requests met the cassettes: those of tools and others, then those of models."""
        return _counts(self._tools), _counts(self._chat)


def _counts(tape: ToolTape | ModelTape | None) -> TapeCounts:
    return TapeCounts() if tape is None else TapeCounts(tape.hits, tape.misses, tape.recorded)


_opening = threading.Lock()
_libraries: dict[Path, list[Library]] = {}
"""The cassettes that are open just now, once for each of the blocks that are inside."""


@contextmanager
def library_of(place: RecordingPlace) -> Iterator[Library]:
    """Give the cassettes of a place: blocks that are open at once share them, later ones read them anew."""
    KNOWN_SECRETS.know_environment()
    with _opening:
        users = _libraries.setdefault(place.base, [])
        library = users[0] if users else Library(place.root)
        users.append(library)
    try:
        yield library
    finally:
        with _opening:
            users.pop()
            if not users:
                del _libraries[place.base]

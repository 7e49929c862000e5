"""What any code asks of models and servers, seen and taped: a two-line ``with`` around code that is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import NamedTuple

from pytest_agenteval.cassettes.http.patches import own_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.cassettes.library import Library
from pytest_agenteval.chat.model_tape import ModelTape
from pytest_agenteval.chat.model_traffic import ModelTraffic
from pytest_agenteval.errors import CassetteMiss, TrialBroken, UsageMistake
from pytest_agenteval.limits import Budget
from pytest_agenteval.records.plan import OWN_MODEL, Allowance, RecordMode
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.tools.tape import ToolTape


class RecordingPlace(NamedTuple):
    """Where a recording lies, and how it is made.

    ``base`` is the path of its files without their endings; ``root`` is what names in messages are relative
    to. ``repetition`` counts from 1: each has model replies of its own. ``ways`` are the commands that
    record, or let out.
    """

    base: Path
    root: Path
    record: RecordMode
    record_chat: RecordMode
    live: bool
    repetition: int
    ways: RecordingWays

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
    """What a message says that records what is missing, or lets it out."""

    record: str
    let_out: str


class Recording(AbstractContextManager["Recording"]):
    """Everything that code inside asked of models, and which tools they had called; also while it goes on.

    What asks models is read: OpenAI, Anthropic, Gemini, Ollama and Bedrock, whoever's client asks. It is
    played from ``cassettes/``, or recorded there, as is all other HTTP. Made by ``record``.
    """

    def __init__(self, name: str, place: RecordingPlace) -> None:
        self.name, self._place = _checked_name(name), place
        began = time.monotonic()
        self._recorder = Recorder(lambda: time.monotonic() - began)
        self._open: AbstractContextManager[None] | None = None
        self._misses: list[CassetteMiss] = []
        self._counts = TapeCounts(), TapeCounts()

    @property
    def transcript(self) -> Transcript:
        """Everything said and called so far, in the order in which it happened."""
        return self._recorder.transcript()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all conversations with models."""
        return self.transcript.messages

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that models asked for, with their results as the models were told them."""
        return self.transcript.calls

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The replies of models: when each was asked, what it took, which model it names."""
        return self.transcript.asks

    @property
    def usage(self) -> Usage:
        """Tokens, money and attempts of all of them."""
        return self.transcript.usage

    @property
    def misses(self) -> tuple[CassetteMiss, ...]:
        """What was asked and not recorded, where nothing may be sent; complete once the block has ended."""
        return tuple(self._misses)

    @property
    def tape_counts(self) -> tuple[TapeCounts, TapeCounts]:
        """How requests met the cassettes: those of tools and others, then those of models."""
        return self._counts

    def __enter__(self) -> Recording:
        if self._open is not None:
            raise UsageMistake(
                f"record({self.name!r}) is entered a second time: each block needs one of its own"
            )
        self._open = self._opened()
        self._open.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close it: what is left running inside is refused from now on.

        Raises CassetteMiss, or what else broke the recording, whatever the code made of it.
        """
        __tracebackhide__ = True  # what is missing is said, and the block that lacks it is the user's
        assert self._open is not None
        try:
            return self._open.__exit__(kind, raised, trace)
        except TrialBroken as broken:
            raise broken.with_traceback(None) from None

    async def __aenter__(self) -> Recording:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close it, as at the end of a plain block."""
        __tracebackhide__ = True
        return self.__exit__(kind, raised, trace)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        place = self._place
        with _library_of(place) as library:
            tools = self._tool_tape(library)
            chat = self._chat_tape(library)
            traffic = ModelTraffic(
                self._recorder,
                Budget(Allowance()),
                chat,
                sends=place.live,
                refusal=f"this code asks a model, and nobody said that it may\n"
                f"  record it:   {place.ways.record}\n  let it out:  {place.ways.let_out}",
            )
            try:
                with own_requests(lambda: tools.of_agent, passing=place.live, traffic=traffic) as scope:
                    try:
                        yield
                    except (Exception, NotRecorded):
                        broken = self._broken(scope, tools, traffic)
                        if broken is None:
                            raise
                        raise broken from None
                broken = self._broken(scope, tools, traffic)
                if broken is not None:
                    raise broken
            finally:
                self._counts = _counts(tools), _counts(chat)
                library.save()

    def _broken(self, scope: Scope, tools: ToolTape, traffic: ModelTraffic) -> BaseException | None:
        """Note what was refused, and give what breaks the recording; None where nothing does."""
        if not self._misses:
            traffic.close()
            for request in tuple(scope.missed):
                miss = tools.agents_miss(request)
                self._recorder.add_miss(miss)
                self._misses.append(miss)
        first = next(iter(self._misses), None)
        broken = self._recorder.broken or first
        if isinstance(broken, CassetteMiss) and broken not in self._misses:
            self._misses.append(broken)
        return broken

    def _tool_tape(self, library: Library) -> ToolTape:
        place = self._place
        tape = library.open(Path(f"{place.base}.yaml"), place.record, "tool")  # type: ignore[arg-type]  # never "off"
        let_out = f"let it out:  {place.ways.let_out}"
        return ToolTape(tape, retry_command=place.ways.record, let_out=let_out)

    def _chat_tape(self, library: Library) -> ModelTape | None:
        place, mode = self._place, self._place.chat_mode
        if mode == "off":
            return None
        return ModelTape(library.open(place.chat_file, mode, "chat"), place.ways.record)


def _counts(tape: ToolTape | ModelTape | None) -> TapeCounts:
    return TapeCounts() if tape is None else TapeCounts(tape.hits, tape.misses, tape.recorded)


_opening = threading.Lock()
_libraries: dict[Path, list[Library]] = {}
"""The cassettes that are open just now, once for each of the blocks that are inside."""


@contextmanager
def _library_of(place: RecordingPlace) -> Iterator[Library]:
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


def _checked_name(name: str) -> str:
    """Refuse a name that is no path below the folder of cassettes."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name:
        raise UsageMistake(f"record: expected a name, as in refund or shop/refund; found {name!r}")
    return name

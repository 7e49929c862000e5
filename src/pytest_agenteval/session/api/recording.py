"""``record``: what any code asks of models and servers, seen and taped in a block."""

from __future__ import annotations

import os
import shlex
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import NamedTuple

from pytest_agenteval.cassettes.http.patches import intercepted_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded
from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.chat.model_tape import ModelTape
from pytest_agenteval.chat.model_traffic import ModelTraffic
from pytest_agenteval.engine.trial_resources import lazy_traffic, refused_request, script_way
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import NO_PRICES, OWN_MODEL, Allowance, Prices, RecordMode
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import CHANGED_PROMPT, Ask, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.session.api.running import is_in_pytest, mode_of, script_command, script_environment
from pytest_agenteval.text.errors import CassetteMiss, UsageMistake, key_hint
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools.tool_tape import ToolTape


class RecordingPlace(NamedTuple):
    """Where a recording lies, and how it is made."""

    base: Path  # the path of its files without their suffixes
    # Names in messages are relative to this folder.
    root: Path
    record: RecordMode
    record_chat: RecordMode
    live: bool
    repetition: int  # counts from 1: each has model replies of its own
    ways: RecordingCommands  # the commands that messages name
    has_trial: bool = False  # warnings about it are shown with the run's trials
    prices: Prices = NO_PRICES

    @property
    def chat_file(self) -> Path:
        return Path(f"{self.base}.chat", f"{OWN_MODEL}-{self.repetition}.yaml")

    @property
    def chat_mode(self) -> RecordMode:
        """The mode of the model's replies: under ``off`` recorded replies are replayed, unless live."""
        plays = self.record_chat == "off" and not self.live and self.chat_file.exists()
        return "none" if plays else self.record_chat


class RecordingCommands(NamedTuple):
    """The commands that record what is missing, send it live, or record all replies anew."""

    record: str
    live: str
    anew: str


class RecordingTapes:
    """The cassettes of one block, each opened at the first request for it."""

    def __init__(self, place: RecordingPlace, library: Library, recorder: Recorder) -> None:
        self._place, self._library, self._recorder = place, library, recorder
        self._opening = threading.Lock()
        self._tools: ToolTape | None = None
        self._chat: ModelTape | None = None
        self.traffic = lazy_traffic(self._make_traffic)

    @property
    def tools(self) -> ToolTape:
        """The tape of all requests that are no model's."""
        # Several threads may make the first request at the same time.
        with self._opening:
            if self._tools is None:
                place = self._place
                tape = self._library.open(Path(f"{place.base}.yaml"), place.record, "tool")  # type: ignore[arg-type]  # never "off"
                other_way = f"or send it without recording:  {place.ways.live}"
                self._tools = ToolTape(tape, retry_command=place.ways.record, other_way=other_way)
            return self._tools

    def _make_traffic(self) -> ModelTraffic:
        place, mode = self._place, self._place.chat_mode
        if mode != "off":
            tape = self._library.open(place.chat_file, mode, "chat")
            self._chat = ModelTape(tape, place.ways.record)
        refusal = refused_request("this code's", place.ways.record, place.ways.live)
        budget = Budget(Allowance())
        return ModelTraffic(self._recorder, budget, self._chat, sends=place.live, refusal=refusal)

    @property
    def counts(self) -> tuple[TapeCounts, TapeCounts]:
        """How requests met the cassettes: those of tools and others, then those of models."""
        return _counts(self._tools), _counts(self._chat.tape if self._chat else None)


def _counts(tape: ToolTape | Tape | None) -> TapeCounts:
    return TapeCounts() if tape is None else TapeCounts(tape.hits, tape.misses, tape.recorded)


_opening = threading.Lock()
# The cassettes that are open now, listed once for each block that uses them.
_libraries: dict[Path, list[Library]] = {}


@contextmanager
def library_of(place: RecordingPlace) -> Iterator[Library]:
    """Give the cassettes of a place: blocks open at the same time share them, later blocks read them anew."""
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


class Recording(AbstractContextManager["Recording"]):
    """The model requests and tool calls of a ``record`` block, readable while it runs.

    It reads requests to OpenAI, Anthropic, Gemini, Ollama and Bedrock, whichever client sends them. They are
    replayed from ``cassettes/`` or recorded there, as is all other HTTP. Made by ``record``.
    """

    def __init__(self, name: str, place: RecordingPlace) -> None:
        parts = PurePosixPath(name).parts if isinstance(name, str) else ()
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name:
            raise UsageMistake(f"record: expected a name, as in refund or shop/refund; found {name!r}")
        self.name, self._place = name, place
        began = time.monotonic()
        self._recorder = Recorder(lambda: time.monotonic() - began, place.prices)
        self._tapes: RecordingTapes | None = None
        self._saving, self._intercepting = ExitStack(), ExitStack()
        self._misses: list[CassetteMiss] = []
        self._counts = TapeCounts(), TapeCounts()

    @property
    def transcript(self) -> Transcript:
        """All messages and calls so far, in the order in which they happened."""
        return self._recorder.transcript()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all conversations with models."""
        return self.transcript.messages

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that models made, with the results that the models received."""
        return self.transcript.calls

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The replies of models: time of the request, usage, and the model that the reply names."""
        return self.transcript.asks

    @property
    def usage(self) -> Usage:
        """Tokens, money and attempts of all of them."""
        return self.transcript.usage

    @property
    def paid(self) -> Usage:
        """The usage that was paid: what no recording gave."""
        return self._recorder.paid

    @property
    def misses(self) -> tuple[CassetteMiss, ...]:
        """The requests that were not recorded and may not be sent; complete once the block has ended."""
        return tuple(self._misses)

    @property
    def tape_counts(self) -> tuple[TapeCounts, TapeCounts]:
        """How requests met the cassettes: those of tools and others, then those of models."""
        return self._counts

    def __enter__(self) -> Recording:
        if self._tapes is not None:
            raise UsageMistake(
                f"record({self.name!r}) is entered a second time: each block needs one of its own"
            )
        library = self._saving.enter_context(library_of(self._place))
        self._saving.callback(library.save)
        self._tapes = tapes = RecordingTapes(self._place, library, self._recorder)
        self._scope = self._intercepting.enter_context(
            intercepted_requests(
                lambda: tapes.tools.of_agent, passing=self._place.live, traffic=tapes.traffic
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it: requests of code that is left running inside are refused from now on."""
        # Raises CassetteMiss, or what else broke the recording, even where the code swallowed it.
        # No traceback through our code: the message says what is missing, and the block is the user's.
        __tracebackhide__ = True
        if broken := self._close(raised):
            raise broken from None

    async def __aenter__(self) -> Recording:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, as at the end of a plain block."""
        __tracebackhide__ = True
        if broken := self._close(raised):
            raise broken from None

    def _close(self, raised: BaseException | None) -> BaseException | None:
        """Close it; give the error that ``__exit__`` is to raise, if any."""
        __tracebackhide__ = True
        assert self._tapes is not None
        with self._saving:
            self._intercepting.close()
            is_error = isinstance(raised, Exception | NotRecorded)
            broken = self._broken(self._tapes) if raised is None or is_error else None
            self._counts = self._tapes.counts
        if broken is not None:
            return broken.with_traceback(None)
        plays = self._place.chat_mode in ("none", "off") and not self._place.live
        if raised is not None and is_error and plays and (hint := key_hint(str(raised))):
            raised.add_note(f"hint: {hint}")
        changed = sum(event.kind == CHANGED_PROMPT for event in self.transcript.events)
        if changed and raised is None and not self._place.has_trial:
            replies = "1 reply was" if changed == 1 else f"{changed} replies were"
            text = f"record({self.name!r}): {replies} replayed, but recorded for another prompt"
            # At the line of the block: stack level 3 is the caller of __exit__.
            warnings.warn(f"{text}; record again:  {self._place.ways.anew}", stacklevel=3)
        return None

    def _broken(self, tapes: RecordingTapes) -> BaseException | None:
        """Note the refused requests, and give what breaks the recording, if anything."""
        tapes.traffic.close()
        for request in tuple(self._scope.missed):
            miss = tapes.tools.agents_miss(request)
            self._recorder.add_miss(miss)
            self._misses.append(miss)
        broken = self._recorder.broken or next(iter(self._misses), None)
        if isinstance(broken, CassetteMiss) and broken not in self._misses:
            self._misses.append(broken)
        return broken


def record(name: str, *, record: str | None = None, record_chat: str | None = None) -> Recording:
    """Record and read what code sends: ``with record("refund") as seen:``, or ``async with``.

    ``record`` says how HTTP in general meets its cassette ``cassettes/NAME.yaml``, ``record_chat`` how
    requests to models meet theirs, ``cassettes/NAME.chat/``: ``none`` replays, ``once`` records where there
    is no file, ``new_episodes`` adds, ``all`` records anew. With ``off``, recorded replies of models are
    replayed. A request that is not recorded is refused, unless it may be sent. A mode that the call does not
    name comes from the environment (``AGENTEVAL_RECORD``, ``AGENTEVAL_RECORD_CHAT``, ``AGENTEVAL_LIVE``), in
    pytest from its options.

    Threads and tasks that are started inside belong to the block; requests that they send after its end are
    refused. Of blocks within each other, the innermost sees and tapes. At its end the block raises
    CassetteMiss where a request was not recorded, even if the code swallowed the error.
    """
    environment = script_environment({})
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" (")[0]
    ways = pytest_commands(test) if is_in_pytest() else _script_commands()
    place = RecordingPlace(
        environment.root / "cassettes" / name if isinstance(name, str) else Path(),
        environment.root,
        mode_of("record", record, environment.settings.record),
        mode_of("record_chat", record_chat, environment.settings.record_chat),
        bool(environment.settings.live),
        1,
        ways,
        prices=environment.prices,
    )
    return Recording(name, place)


def pytest_commands(node_id: str) -> RecordingCommands:
    run = f"pytest {shlex.quote(node_id)}"
    return RecordingCommands(
        f"{run} --agent-record=new_episodes --agent-record-chat=new_episodes",
        f"{run} --agent-live",
        f"{run} --agent-record-chat=all",
    )


def _script_commands() -> RecordingCommands:
    ways = partial(script_way, script_command())
    return RecordingCommands(
        ways("--agent-record=new_episodes", "--agent-record-chat=new_episodes"),
        ways("--agent-live=1"),
        ways("--agent-record-chat=all"),
    )

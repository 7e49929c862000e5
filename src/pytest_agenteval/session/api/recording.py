"""What any code asks of models and servers, seen and taped: a two-line ``with`` around code that is there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import PurePosixPath
from types import TracebackType

from pytest_agenteval.cassettes.http.patches import intercepted_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import CHANGED_PROMPT, Ask, Message, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.session.api.recording_tapes import RecordingPlace, RecordingTapes, library_of
from pytest_agenteval.text.errors import CassetteMiss, TrialBroken, UsageMistake, key_hint


class Recording(AbstractContextManager["Recording"]):
    """Everything that code inside asked of models, and which tools they had called; also while it goes on.

    What asks models is read: OpenAI, Anthropic, Gemini, Ollama and Bedrock, whoever's client asks. It is
    played from ``cassettes/``, or recorded there, as is all other HTTP. Made by ``record``.
    """

    def __init__(self, name: str, place: RecordingPlace) -> None:
        self.name, self._place = _checked_name(name), place
        began = time.monotonic()
        self._recorder = Recorder(lambda: time.monotonic() - began, place.prices)
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
    def paid(self) -> Usage:
        """What of it no recording gave."""
        return self._recorder.paid

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
    ) -> None:
        """Close it: what is left running inside is refused from now on.

        Raises CassetteMiss, or what else broke the recording, whatever the code made of it.
        """
        __tracebackhide__ = True  # what is missing is said, and the block that lacks it is the user's
        if broken := self._close(kind, raised, trace):
            raise broken from None

    async def __aenter__(self) -> Recording:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, as at the end of a plain block."""
        __tracebackhide__ = True
        if broken := self._close(kind, raised, trace):
            raise broken from None

    def _close(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> TrialBroken | None:
        """Close it; give what breaks the recording, for the method that Python calls to raise."""
        __tracebackhide__ = True
        assert self._open is not None
        try:
            self._open.__exit__(kind, raised, trace)
        except TrialBroken as broken:
            return broken.with_traceback(None)
        changed = sum(event.kind == CHANGED_PROMPT for event in self.transcript.events)
        if changed and kind is None and not self._place.has_trial:
            replies = "1 reply was" if changed == 1 else f"{changed} replies were"
            text = f"record({self.name!r}): {replies} played that belong to another prompt"
            # At the line of the block: whoever calls this is the method that Python calls there.
            warnings.warn(f"{text}; record anew:  {self._place.ways.anew}", stacklevel=3)
        return None

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with library_of(self._place) as library:
            tapes = RecordingTapes(self._place, library, self._recorder)
            try:
                with intercepted_requests(
                    tapes.of_tools, passing=self._place.live, traffic=tapes.traffic
                ) as scope:
                    try:
                        yield
                    except (Exception, NotRecorded) as raised:
                        broken = self._broken(scope, tapes)
                        if broken is None:
                            self._add_key_hint(raised)
                            raise
                        raise broken from None
                broken = self._broken(scope, tapes)
                if broken is not None:
                    raise broken
            finally:
                self._counts = tapes.counts
                library.save()

    def _add_key_hint(self, raised: BaseException) -> None:
        """Say what to do where a client of the code wants a key, though nothing would be sent."""
        plays = self._place.chat_mode in ("none", "off") and not self._place.live
        if plays and (hint := key_hint(str(raised))):
            raised.add_note(f"hint: {hint}")

    def _broken(self, scope: Scope, tapes: RecordingTapes) -> BaseException | None:
        """Note what was refused, and give what breaks the recording; None where nothing does."""
        if not self._misses:
            tapes.traffic.close()
            for request in tuple(scope.missed):
                miss = tapes.tools.agents_miss(request)
                self._recorder.add_miss(miss)
                self._misses.append(miss)
        broken = self._recorder.broken or next(iter(self._misses), None)
        if isinstance(broken, CassetteMiss) and broken not in self._misses:
            self._misses.append(broken)
        return broken


def _checked_name(name: str) -> str:
    """Refuse a name that is no path below the folder of cassettes."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name:
        raise UsageMistake(f"record: expected a name, as in refund or shop/refund; found {name!r}")
    return name

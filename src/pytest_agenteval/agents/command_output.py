"""What a program writes to its standard output: its tool calls, its answers, and its log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.records.truncation import truncated
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.redaction import KNOWN_SECRETS

Event = Mapping[str, Any]
_BEGINS_AS_EVENT = re.compile(r'\s*\{\s*"type"\s*:\s*"(?:tool_call|tool_result|answer)"')
LONGEST_QUOTE = 80


class UnreadableEvent(TrialBroken):
    """A line that begins as an event and is none: an answer or a call is lost in it."""

    cause = "answer"


class CommandOutput:
    """Reads a program's standard output line by line, and writes its tool calls into the transcript.

    ``log`` is given each line that is no event of ours. ``on_answer`` is called at each answer. What is lost
    in a line that cannot be read stands in ``unreadable``.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        shape: Literal["events", "text"],
        log: Callable[[str], object],
        on_answer: Callable[[], object],
    ) -> None:
        self._recorder, self._shape, self._log, self._on_answer = recorder, shape, log, on_answer
        self._events = {
            "tool_call": self._begin_call,
            "tool_result": self._end_call,
            "answer": self._take_answer,
        }
        self._places: set[int] = set()
        self._open_places: dict[str, int] = {}
        self._lines: list[str] = []
        self._state: Any = None
        self.answers: list[str] = []
        self.has_events = False
        self.unreadable: UnreadableEvent | None = None
        self._line_number = 0

    def take(self, line: str) -> None:
        self._line_number += 1
        # PowerShell begins its output with a byte order mark.
        if self._line_number == 1:
            line = line.removeprefix("\ufeff")
        # A line of progress ends in a carriage return, and is written over by what follows it.
        event = self._event(line.rpartition("\r")[2]) if self._shape == "events" else None
        if event is not None and (act := self._events.get(event["type"])):
            self.has_events = True
            act(event)
            return
        self._log(line)
        # Of lines that are no events, only the last paragraph can be the answer: a new one begins here.
        if self._shape == "events" and line.strip() and self._lines and not self._lines[-1].strip():
            self._lines.clear()
        self._lines.append(line)

    def answer(self) -> Answer | None:
        """Give the last answer; without any event that is the last paragraph, and None where there is none.

        Where all of the output is text, all of it is the answer.
        """
        if self.answers:
            return Answer(self.answers[-1], self._state or {})
        text = "\n".join(self._lines).strip()
        return Answer(text) if text and not self.has_events else None

    def close(self) -> None:
        """Leave calls without a result open."""
        self._recorder.leave_open(self._open_places.values())

    def _event(self, line: str) -> Event | None:
        if not line.lstrip().startswith("{"):
            return None
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as broken:
            # An answer or a call is lost in such a line. Any other line in braces may be a log's.
            if _BEGINS_AS_EVENT.match(line):
                reason = getattr(broken, "msg", "nested too deeply, or too large")
                quote = KNOWN_SECRETS.text(line.strip())[:LONGEST_QUOTE]
                self.unreadable = self.unreadable or UnreadableEvent(
                    f"standard output, line {self._line_number}: expected an event, one whole JSON object, "
                    f"found {quote!r} ({reason})"
                )
            return None
        return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None

    def _begin_call(self, event: Event) -> None:
        args = event.get("args")
        args, raw = (args, None) if isinstance(args, Mapping) else ({}, _text(args))
        recorder, id = self._recorder, str(event.get("id", "")) or f"call_{len(self._places) + 1}"
        tool, started = str(event.get("tool", "")), self._recorder.at()
        call = ToolCall(id, recorder.turn, 0, tool, args, raw, started=started)
        self._open_places[id] = place = recorder.begin_call_event(call, self._places)
        self._places.add(place)

    def _end_call(self, event: Event) -> None:
        # A result without an id belongs to the call that has waited longest.
        place = self._open_places.pop(str(event.get("id", "")) or next(iter(self._open_places), ""), None)
        if place is None:
            self._log(_text(event))
            return
        message = event.get("error")
        error = None if message is None else ToolError("tool_error", _text(message))
        self._recorder.end_call_event(place, event.get("result"), error, self._recorder.at())

    def _take_answer(self, event: Event) -> None:
        self.answers.append(_text(event.get("text")))
        self._state = event.get("state")
        self._recorder.last_words = self.answers[-1]
        # If a limit ends the program later, this is its answer.
        self._recorder.answer_so_far = self.answers[-1]
        self._on_answer()


def _text(value: Any) -> str:
    """Give a value as text: null as an empty one, maps, lists and numbers as JSON, cut where it is deep."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(truncated(value), ensure_ascii=False, separators=(",", ":"))

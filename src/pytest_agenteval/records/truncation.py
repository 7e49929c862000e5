"""How deep and how large the values of agents, tools and graders may be, and how they are cut to that.

A value is checked where it enters a trial. Everything behind may walk it, copy it and write it down, and need
not think of values that hold themselves or are nested a thousand deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, Grade
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.json_values import mend_surrogates

# How deep lists and maps may be nested. Readers of JSON give up not far above.
MOST_DEEP = 100

# How many values a value may hold, nested ones included.
MOST_VALUES = 200_000

# How many characters the texts within one value may have together.
MOST_CHARS = 4 * 1024 * 1024

# The most bits of a whole number: Python refuses to write larger ones as text.
MOST_BITS = 14_000

# Made once: every value of every call is compared with them, and a union would be made anew each time.
_LISTS = (list, tuple, set, frozenset)
_MAPS = (dict, Mapping)


def truncated(value: Any) -> Any:
    """Give the value or, where it is too deep, too large or holds itself, a copy that is cut and says so.

    >>> truncated("x" * (MOST_CHARS + 1))[-32:]
    'x… (cut: 4194305 characters long)'
    """
    return _Truncation().cut(value)


def truncated_text(text: str) -> str:
    """Give the text with whole characters, cut if it is too long; a joined stream may have halves of them."""
    text = text if text.isascii() else mend_surrogates(text)
    return text if len(text) <= MOST_CHARS else cut_text(text, MOST_CHARS)


def truncated_call(call: ToolCall) -> ToolCall:
    """Give a tool call whose arguments and result are cut to what a trial can hold."""
    args = truncated(call.args)
    result = None if call.result is None else truncated(call.result)
    raw, error = call.raw_args, call.error
    if raw is not None:
        raw = truncated_text(raw)
    if error is not None and len(error.message) > MOST_CHARS:
        error = ToolError(error.type, truncated_text(error.message))
    # Nearly all calls fit, and are not copied.
    if args is call.args and result is call.result and raw is call.raw_args and error is call.error:
        return call
    return replace(call, args=args, result=result, raw_args=raw, error=error)


def cut_text(text: str, most: int) -> str:
    """Give the beginning of a text, and how long the text was."""
    return f"{text[:most]}… (cut: {len(text)} characters long)"


def truncated_answer(answer: Answer) -> Answer:
    """Give an agent's answer with its text and state cut to what a trial can hold."""
    text, state = truncated_text(answer.text), truncated(answer.state)
    same = text is answer.text and state is answer.state
    return answer if same else Answer(text, state)


def truncated_grade(grade: Grade) -> Grade:
    """Give a grade whose rationale, checks and details are cut to what a trial can hold."""
    rationale, details = truncated_text(grade.rationale), truncated(grade.details)
    checks = grade.checks
    chars = sum([len(check.claim) + len(check.expected) + len(check.found) for check in checks])
    if len(checks) > MOST_VALUES or chars > MOST_CHARS:
        # Each check has three texts.
        most = MOST_CHARS // (3 * max(1, min(len(checks), MOST_VALUES)))

        def cut(text: str) -> str:
            return text if len(text) <= most else cut_text(text, most)

        checks = tuple(
            Check(cut(check.claim), check.passed, cut(check.expected), cut(check.found))
            for check in checks[:MOST_VALUES]
        )
    if rationale is grade.rationale and details is grade.details and checks is grade.checks:
        return grade
    return replace(grade, rationale=rationale, details=details, checks=checks)


def _can_be_copied(value: Any) -> bool:
    """Whether each grader can be given its own copy: a lock, for example, cannot be copied."""
    try:
        deepcopy(value)
    except Exception:
        return False
    return True


def _number(number: int) -> int | str:
    bits = number.bit_length()
    return f"… (cut: a whole number of {bits} bits)" if bits > MOST_BITS else number


class _Truncation:
    """Gives what fits as it is; of what does not a copy, which says at each gap what is left out."""

    def __init__(self) -> None:
        self._values = 0
        self._chars = 0
        self._around: set[int] = set()

    def cut(self, value: Any, depth: int = 0) -> Any:
        """Give the value, or the part of it that fits; ``depth`` counts the lists and maps around it."""
        self._values += 1
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, float):
            return value
        if isinstance(value, int):
            return _number(value)
        if isinstance(value, bytes):
            return value if len(value) <= self._room_for(value) else f"… (cut: {len(value)} bytes)"
        is_list = isinstance(value, _LISTS)
        if not is_list and not isinstance(value, _MAPS):
            return self._other(value)
        # Only what is around it counts: a value at two places side by side does not hold itself.
        if id(value) in self._around:
            return "… (cut: holds itself)"
        if depth >= MOST_DEEP:
            return f"… (cut: nested deeper than {MOST_DEEP})"
        self._around.add(id(value))
        try:
            return self._list(value, depth) if is_list else self._map(value, depth)
        finally:
            self._around.discard(id(value))

    def _other(self, value: Any) -> Any:
        if _can_be_copied(value):
            return value
        try:
            return self._text(repr(value))
        # The object cannot even describe itself.
        except Exception:
            return f"<{type(value).__name__}>"

    @property
    def _full(self) -> bool:
        return self._values >= MOST_VALUES or self._chars > MOST_CHARS

    def _room_for(self, text: str | bytes) -> int:
        left = max(0, MOST_CHARS - self._chars)
        self._chars += len(text)
        return left

    def _text(self, text: str) -> str:
        left = self._room_for(text)
        return text if len(text) <= left else cut_text(text, left)

    def _map(self, mapping: Mapping[Any, Any], depth: int) -> Mapping[Any, Any]:
        bounded: dict[Any, Any] = {}
        # A view of a map, for instance, can be neither copied nor sent.
        is_whole = isinstance(mapping, dict)
        for count, (key, inner) in enumerate(mapping.items()):
            if self._full:
                bounded["…"] = f"(cut: {len(mapping) - count} more of {len(mapping)})"
                return bounded
            name = self._text(key) if isinstance(key, str) else _number(key) if isinstance(key, int) else key
            bounded[name] = self.cut(inner, depth + 1)
            is_whole = is_whole and name is key and bounded[name] is inner
        return mapping if is_whole else bounded

    def _list(self, items: Any, depth: int) -> Any:
        bounded: list[Any] = []
        is_whole = True
        for count, inner in enumerate(items):
            # Forty lists that each hold the next one twice would mean a million million values.
            if self._full:
                return [*bounded, f"… (cut: {len(items) - count} more of {len(items)})"]
            bounded.append(self.cut(inner, depth + 1))
            is_whole = is_whole and bounded[-1] is inner
        return items if is_whole else bounded

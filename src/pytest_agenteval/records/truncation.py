"""How deep and how large the values of agents, tools and graders may be, and how they are cut to that.

A value is checked where it enters a trial. Everything behind may walk it, copy it and write it down, and need
not think of values that hold themselves or are nested a thousand deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.evidence import Answer, Check, Grade
from pytest_agenteval.records.record import NOTHING
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
_TEXTS = (str, bytes)
_LISTS = (list, tuple, set, frozenset)


def truncated(value: Any) -> Any:
    """Give the value or, where it is too deep, too large or holds itself, a copy that is cut and says so.

    >>> truncated("x" * (MOST_CHARS + 1))[-32:]
    'x… (cut: 4194305 characters long)'
    """
    # Most values are one of these or a short text: they need no walk.
    if value is None or value is NOTHING or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str) and len(value) <= MOST_CHARS:
        return value
    if type(value) is int and value.bit_length() <= MOST_BITS:
        return value
    return value if _fits(value) else _Truncation().cut(value, 0)


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


def _fits(value: Any) -> bool:
    """Whether nothing of the value has to be cut or copied; without recursion, for it may hold itself."""
    level, values, chars = [value], 0, 0
    for _ in range(MOST_DEEP + 1):
        values += len(level)
        inner: list[Any] = []
        for item in level:
            if isinstance(item, _TEXTS):
                chars += len(item)
            elif isinstance(item, dict):
                inner.extend(item.values())
                for key in item:
                    if isinstance(key, str):
                        chars += len(key)
                    elif isinstance(key, int) and key.bit_length() > MOST_BITS:
                        return False
            elif isinstance(item, _LISTS):
                inner.extend(item)
            elif isinstance(item, int):
                if item.bit_length() > MOST_BITS:
                    return False
            # A view of a map, for instance, can be neither copied nor sent.
            elif not (
                item is None
                or isinstance(item, float)
                or (not isinstance(item, Mapping) and _can_be_copied(item))
            ):
                return False
            if chars > MOST_CHARS or values + len(inner) > MOST_VALUES:
                return False
        if not inner:
            return True
        level = inner
    return False


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
    """Copies a value as far as it fits; at the place of what is left out stands what it was."""

    def __init__(self) -> None:
        self._values = 0
        self._chars = 0
        self._around: set[int] = set()

    def cut(self, value: Any, depth: int) -> Any:
        """Give the value, or the part of it that fits; ``depth`` counts the lists and maps around it."""
        self._values += 1
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes):
            return f"… (cut: {len(value)} bytes)" if len(value) > MOST_CHARS - self._chars else value
        if isinstance(value, int):
            return _number(value)
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            if _can_be_copied(value):
                return value
            try:
                text = repr(value)
            # The object cannot even describe itself.
            except Exception:
                text = f"<{type(value).__name__}>"
            return self._text(text)
        # Only what is around it counts: a value at two places side by side does not hold itself.
        if id(value) in self._around:
            return "… (cut: holds itself)"
        if depth >= MOST_DEEP:
            return f"… (cut: nested deeper than {MOST_DEEP})"
        self._around.add(id(value))
        try:
            return self._map(value, depth) if isinstance(value, Mapping) else list(self._items(value, depth))
        finally:
            self._around.discard(id(value))

    @property
    def _full(self) -> bool:
        return self._values >= MOST_VALUES or self._chars >= MOST_CHARS

    def _text(self, text: str) -> str:
        left = max(0, MOST_CHARS - self._chars)
        self._chars += min(left, len(text))
        return text if len(text) <= left else cut_text(text, left)

    def _map(self, mapping: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        bounded: dict[Any, Any] = {}
        for count, (key, inner) in enumerate(mapping.items()):
            if self._full:
                bounded["…"] = f"(cut: {len(mapping) - count} more of {len(mapping)})"
                break
            name = self._text(key) if isinstance(key, str) else _number(key) if isinstance(key, int) else key
            bounded[name] = self.cut(inner, depth + 1)
        return bounded

    def _items(self, items: Any, depth: int) -> Iterator[Any]:
        # Forty lists that each hold the next one twice would mean a million million values.
        for count, inner in enumerate(items):
            if self._full:
                yield f"… (cut: {len(items) - count} more of {len(items)})"
                return
            yield self.cut(inner, depth + 1)

"""What smolagents sends back: it writes calls and their results into texts, and closes code that was cut off.

Its replies go on in the next request all the same, and its tools' results are results of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALLING, OBSERVED = "Calling tools:\n", "Observation:\n"
_CODE = "python_interpreter"
_OPENED, _CLOSED = "<code>", "</code>"


def written_calls(content: str) -> tuple[str, Sequence[Any]]:
    """Part a text from the calls written behind it, as maps of OpenAI's shape; a text without any is whole.

    Code that was run is no call: the model wrote it into its text.
    """
    said, mark, listed = content.rpartition(CALLING)
    if not mark or not listed.startswith("["):
        return content, ()
    calls = _python_list(listed)
    names = [call["function"]["name"] for call in calls if _is_call(call)]
    if not names or len(names) < len(calls):
        return content, ()
    return said, () if names == [_CODE] else calls


def observed(content: str, calls: int) -> list[str]:
    """Give the result of each of so many calls: a line each, or all of the text where it has other lines."""
    text = content.removeprefix(OBSERVED)
    lines = text.split("\n")
    return lines if len(lines) == calls else [text] * calls


def with_closed_code(content: str) -> str:
    """Close the code that a stop word cut off, as smolagents does before it sends a reply back."""
    if content.rfind(_OPENED) > content.rfind(_CLOSED):
        return content + _CLOSED
    return content.removesuffix(_CLOSED).rstrip() + _CLOSED if content.endswith(_CLOSED) else content


def _python_list(text: str) -> list[Any]:
    """Read a list as Python writes it; the empty one for what is none."""
    from ast import literal_eval

    try:
        value = literal_eval(text.strip())
    # A warning may be an error: Python warns of odd escapes in what it reads.
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return []
    return value if isinstance(value, list) else []


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and "arguments" in function

"""What a regular expression has to find letter by letter: the words of an author's pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = re.compile(
    r"(?P<never>\(\?<?!)|(?P<open>\((?:\?(?:P?<\w+>|P=\w+|[a-zA-Z-]*:|<?=|>|[a-zA-Z]+(?=\))))?)|(?P<close>\))"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<times>[*+?][?+]?|\{\d*,?\d*\}[?+]?)"
    r"|(?P<kind>\\(?:[dDwWSbBAZzGXRKN]|[pP]\{[^}]*\}|\d+))|(?P<other>[|.])|(?P<between>\\[snrtfv]|[\^$])"
    r"|\\?(?P<sign>.)",
    re.DOTALL,
)
_MAY_BE_MISSING = re.compile(r"[*?]|\{0?,")
_HOLDS_LETTERS = re.compile(r"\\[wWdDS]|[^\W_]")
_MARKS = re.compile(r"\\[a-zA-Z.]|\(\?")


def is_pattern(key: str, text: str) -> bool:
    """Whether a setting of that name is a pattern, or its text can be nothing else."""
    return "pattern" in key or "regex" in key or _MARKS.search(text) is not None


def literals(pattern: str) -> Iterator[str]:
    r"""Give the longest pieces that stand in whatever a pattern finds, or in one of its alternatives.

    What only separates words, such as ``\s*`` or ``[- ]?``, stays within a piece, as a space. What must not
    be there (``(?!...)``) is left out.

    >>> list(literals(r"pier\s*(?:nine|9)[^,]*until\s+half past"))
    ['pier ', 'nine', '9', 'until half past']
    """
    piece, never = list[str](), 0
    for match in _PART.finditer(pattern):
        kind, part = str(match.lastgroup), match[0]
        never = _depth_of_never(never, kind)
        if never:
            continue
        if kind == "sign":
            piece.append(match["sign"])
        elif kind == "between" or (kind == "set" and _is_separator(part)):
            piece.append(" ")
        elif kind == "times" and not (piece and piece[-1].isalnum() and _MAY_BE_MISSING.match(part)):
            continue
        else:
            yield from _whole(piece[:-1] if kind == "times" else piece)
            piece = []
    yield from _whole(piece)


def _depth_of_never(depth: int, kind: str) -> int:
    """Count the brackets that are open within one that says what must not be there."""
    if kind == "never" or (depth and kind == "open"):
        return depth + 1
    return depth - 1 if depth and kind == "close" else depth


def _is_separator(part: str) -> bool:
    return not part.startswith("[^") and not _HOLDS_LETTERS.search(part.replace(r"\s", " "))


def _whole(piece: list[str]) -> Iterator[str]:
    if piece:
        yield "".join(piece)

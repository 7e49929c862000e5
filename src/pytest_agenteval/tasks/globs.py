"""Which paths a pattern means, read alike by all tools and graders.

Models write patterns, too, so none may take long: nothing is tried again before the last star.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise

# A pattern whose braces expand to more patterns than this matches nothing: it must be a mistake.
MOST_ALTERNATIVES = 1000

# As in a shell, a ] that comes first in a set is a letter of it, and ! or ^ before it turns the set round.
_LETTER = re.compile(r"\\(?P<escaped>.)|\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]|(?P<plain>.)", re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """Whether a path, relative and with ``/``, fits a pattern.

    ``*`` and ``?`` stay within one folder; ``**`` between slashes goes through any number of them, and at the
    end means everything below. ``[abc]``, ``[a-z]``, ``[!abc]`` and ``{one,two}`` mean what they mean in a
    shell, and a backslash takes the next character as it is. Case counts, and names that start with a dot are
    like any other.
    """
    regex = _regex(pattern)
    return regex is not None and regex.fullmatch(f"{path}/") is not None


def select(pattern: str, paths: Iterable[str]) -> list[str]:
    """Give the paths that fit a pattern, in the order in which they came; see ``matches``."""
    return [path for path in paths if matches(pattern, path)]


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str] | None:
    """Give a regex of paths with a slash at their end; None for a pattern with too many alternatives."""
    # Nobody means so many braces, and each of them doubles the patterns.
    if pattern.count("{") > 100:
        return None
    # One more than the bound is made, to see whether there are more.
    alternatives = list(islice(_alternatives(pattern), MOST_ALTERNATIVES + 1))
    return re.compile("|".join(map(_path, alternatives))) if len(alternatives) <= MOST_ALTERNATIVES else None


def _path(pattern: str) -> str:
    # POSIX reads several slashes in a row as one.
    names = re.sub(r"//+", "/", pattern).split("/")
    # Everything below a folder is not the folder itself.
    parts = [""]
    for name in [*names, "*"] if names[-1] == "**" else names:
        if name == "**":
            parts.append("")
        else:
            parts[-1] += _name(name)
    return _joined(parts, "(?:[^/]*/)")


def _name(pattern: str) -> str:
    parts = [""]
    for match in _LETTER.finditer(pattern):
        if match["plain"] == "*":
            parts.append("")
        else:
            parts[-1] += _letter(match)
    # No wildcard stands for a name that is not there, as in "a/".
    return f"{'(?=[^/])' if pattern else ''}{_joined(parts, '[^/]')}/"


def _joined(parts: Sequence[str], step: str) -> str:
    """Put any number of steps between the parts; only the last of them is tried again."""
    head, *others = parts
    if not others:
        return head
    *between, last = others
    # Atomic groups: libraries that go back beyond a star take seconds for `*a*a*a*a*a*b`.
    return head + "".join(f"(?>{step}*?{part})" for part in between) + f"{step}*{last}"


def _letter(match: re.Match[str]) -> str:
    if match["set"]:
        ranges = [(low, high or low) for low, high in re.findall(r"(?s)(.)(?:-(.))?", match["set"])]
        letters = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges if low <= high)
        any_of = f"[{'^' if match['not'] else ''}{letters}]" if letters else "." if match["not"] else "(?!)"
        return f"(?!/){any_of}"
    return "[^/]" if match["plain"] == "?" else re.escape(match["escaped"] or match.group())


def _alternatives(pattern: str) -> Iterator[str]:
    """Give the patterns without braces that one with braces means; braces without a comma are plain text."""
    # The places of the opening brace, the commas and the closing brace of each group that has a comma.
    open_groups: list[list[int]] = []
    groups = []
    for match in re.finditer(r"\\.|[{},]", pattern, re.DOTALL):
        mark, place = match.group(), match.start()
        if mark == "{":
            open_groups.append([place])
        elif mark == "," and open_groups:
            open_groups[-1].append(place)
        elif mark == "}" and open_groups:
            groups.append((*open_groups.pop(), place))
    # The group that opens first is inside of no other. Groups inside of it are left to the recursion.
    first = min((group for group in groups if len(group) > 2), default=None)
    if first is None:
        yield pattern
        return
    for begin, end in pairwise(first):
        yield from _alternatives(pattern[: first[0]] + pattern[begin + 1 : end] + pattern[first[-1] + 1 :])

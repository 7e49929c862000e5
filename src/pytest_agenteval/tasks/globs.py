"""Which paths a pattern means, read alike by all tools and graders.

Models write patterns, too, so none may take long: nothing is tried again before the last star.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import TypeAlias, TypeVar

# A pattern whose braces expand to more patterns than this matches nothing: it must be a mistake.
MOST_ALTERNATIVES = 1000

W = TypeVar("W")
G = TypeVar("G")

_OneLetter: TypeAlias = Callable[[str], bool]
# None stands for any number: of letters within a name, of folders within a path.
_Name: TypeAlias = tuple[_OneLetter | None, ...]
_Path: TypeAlias = tuple[_Name | None, ...]

# As in a shell, a ] that comes first in a set is a letter of it, and ! or ^ before it turns the set round.
_LETTER = re.compile(r"\\(?P<escaped>.)|\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]|(?P<plain>.)", re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """Whether a path, relative and with ``/``, fits a pattern.

    ``*`` and ``?`` stay within one folder; ``**`` between slashes goes through any number of them, and at the
    end means everything below. ``[abc]``, ``[a-z]``, ``[!abc]`` and ``{one,two}`` mean what they mean in a
    shell, and a backslash takes the next character as it is. Case counts, and names that start with a dot are
    like any other.
    """
    parts = path.split("/")
    return any(_fits(names, parts, _fits_name) for names in _read(pattern))


def select(pattern: str, paths: Iterable[str]) -> list[str]:
    """Give the paths that fit a pattern, in the order in which they came; see ``matches``."""
    return [path for path in paths if matches(pattern, path)]


def _fits_name(letters: _Name, name: str) -> bool:
    # No wildcard stands for a name that is not there, as in "a/".
    return bool(name or not letters) and _fits(letters, name, lambda letter, char: letter(char))


def _fits(steps: Sequence[W | None], given: Sequence[G], fits: Callable[[W, G], bool]) -> bool:
    """Whether each step fits one that is given, in order; a None fits any number of them."""
    here = there = 0
    # Where to go on after a step that does not fit: behind the last None, which takes one thing more.
    resume: tuple[int, int] | None = None
    while there < len(given):
        step = steps[here] if here < len(steps) else None
        if here < len(steps) and step is None:
            here, resume = here + 1, (here + 1, there)
        elif step is not None and fits(step, given[there]):
            here, there = here + 1, there + 1
        elif resume is None:
            return False
        else:
            # Never back beyond the last star: libraries that go there take seconds for `*a*a*a*a*a*b`.
            here, there = resume[0], resume[1] + 1
            resume = here, there
    return all(rest is None for rest in steps[here:])


@lru_cache(maxsize=512)
def _read(pattern: str) -> tuple[_Path, ...]:
    # Nobody means so many braces, and each of them doubles the patterns.
    if pattern.count("{") > 100:
        return ()
    # One more than the bound is made, to see whether there are more.
    alternatives = list(islice(_alternatives(pattern), MOST_ALTERNATIVES + 1))
    return tuple(map(_path, alternatives)) if len(alternatives) <= MOST_ALTERNATIVES else ()


def _path(pattern: str) -> _Path:
    # POSIX reads several slashes in a row as one.
    names = re.sub(r"//+", "/", pattern).split("/")
    read = [None if name == "**" else _name(name) for name in names]
    if read[-1] is None:  # everything below a folder is not the folder itself
        read.append(_name("*"))
    return tuple(read)


def _name(pattern: str) -> _Name:
    return tuple(map(_letter, _LETTER.finditer(pattern)))


def _letter(match: re.Match[str]) -> _OneLetter | None:
    if match["escaped"] is not None:
        return match["escaped"].__eq__
    if match["set"]:
        return _one_of(match["set"], bool(match["not"]))
    plain = match.group()
    if plain == "*":
        return None
    return (lambda letter: True) if plain == "?" else plain.__eq__


def _one_of(letters: str, others: bool) -> _OneLetter:
    ranges = [(low, high or low) for low, high in re.findall(r"(?s)(.)(?:-(.))?", letters)]
    return lambda letter: any(low <= letter <= high for low, high in ranges) != others


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

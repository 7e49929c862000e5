"""JSON values in which one place holds something else than it should."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

ODD = st.sampled_from(
    [None, True, -1, 1.5, "", "x", "{", [], [7], [None], {}, {"type": "x"}, {"x": {}}, 10**30]
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _paths(each, (*path, key))


def damaged(value: Any) -> st.SearchStrategy[Any]:
    """Give the value with something odd at one or two of its places."""

    @st.composite
    def one(draw: st.DrawFn) -> Any:
        copy = deepcopy(value)
        for _ in range(draw(st.integers(1, 2))):
            path = draw(st.sampled_from([*_paths(copy)] or [()]))
            place = copy
            for key in path[:-1]:
                place = place[key]
            if path:
                place[path[-1]] = deepcopy(draw(ODD))  # the same one twice would hold itself
        return copy

    return one()

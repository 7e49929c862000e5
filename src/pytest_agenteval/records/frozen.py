"""A map that nobody can change, and that can be copied, sent and written like any other."""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenMap(dict[str, Any]):
    """A dict that refuses to be changed: equal to a dict, written by every JSON encoder, pickled, copied.

    The standard library's read-only view of a dict can be none of that, and one of them in a record would
    keep the whole record from being sent anywhere.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **more: Any) -> NoReturn:
        raise TypeError("this map cannot be changed: make one of your own with dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenMap], tuple[dict[str, Any]]]:
        return FrozenMap, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None
        return hash(frozenset(self.items()))

    def copy(self) -> dict[str, Any]:
        """Give a dict of its own with the same content, which may be changed."""
        return dict(self)


NOTHING = FrozenMap()
"""The empty map, for records that hold none."""

"""What all records have in common: they are frozen values, written as JSON and read back."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn, Self, TypeAlias, TypeVar

import msgspec

from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.json_values import jsonable

VERSION = 1

# Numbers as files hold them, checked where they are read. NaN and infinity satisfy no comparison.
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

ValueT = TypeVar("ValueT", bound="FrozenValue")
RecordT = TypeVar("RecordT", bound="Record")
_CONVERTING = RLock()
_CONVERTED: set[type] = set()


class _DataclassFields:
    """Describes a record as the standard library describes a dataclass, when that is requested."""

    def __get__(self, record: object, kind: type) -> Mapping[str, Any]:
        return _dataclass_fields(kind)


class FrozenValue(msgspec.Struct, frozen=True):
    """A frozen value of ours, equal to every other with the same content.

    ``dataclasses.asdict``, ``fields`` and ``replace`` take it as they take a dataclass, which it is not: each
    class of those costs a first run most of a millisecond, and a hundred are made before its first trial.
    """

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]
    else:
        __dataclass_fields__ = _DataclassFields()


# Kinds of which there are many have gc=False: a frozen value holds nothing that holds it, so the garbage
# collector would find nothing.
# forbid_unknown_fields: a key that is misspelt, or of a later version, must not be lost in silence.
class Record(FrozenValue, frozen=True, forbid_unknown_fields=True):
    """What is to be done or what happened: a value that is written as JSON, read back, and sent anywhere."""

    def __hash__(self) -> int:
        # The hash of msgspec itself fails for a record that holds a list or a plain dict.
        return hash(tuple([_hashable(getattr(self, name)) for name in self.__struct_fields__]))

    def to_json(self) -> dict[str, Any]:
        """Give the record as JSON values: maps with texts as keys, lists, texts, finite numbers.

        A value that JSON does not know has the same form as in a run's files: ``jsonable`` describes it.
        """
        return {name: jsonable(getattr(self, name)) for name in self.__struct_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Make a record equal to the one that ``to_json`` wrote; raises TypeError for anything else.

        The error names the key: one that is not known or is missing, or whose value is of another type.
        """
        return _read(cls, data)


class VersionedRecord(Record, frozen=True):
    """A record that goes to other processes and files by itself, with the version of its form."""

    def to_json(self) -> dict[str, Any]:
        """Give the record as JSON values, with the version of their form."""
        return {**super().to_json(), "v": VERSION}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Make a record from what ``to_json`` gave; refuses what a newer version of this package wrote."""
        if data.get("v", VERSION) != VERSION:
            raise UsageMistake(
                f"{cls.__name__} in form {data['v']!r}: this pytest-agenteval knows only {VERSION}"
            )
        return _read(cls, {name: value for name, value in data.items() if name != "v"})


def same_fields(source: object, names: Iterable[str]) -> dict[str, Any]:
    """Give what a record has under these names, for one that has the same under the same names."""
    return {name: getattr(source, name) for name in names}


def from_builtins(kind: type[ValueT], data: Any, *, strict: bool = True) -> ValueT:
    """Make a value of ours from JSON values; raises msgspec's ValidationError for the first thing wrong."""
    if kind in _CONVERTED:
        return msgspec.convert(data, kind, strict=strict)
    # msgspec 0.22 learns the fields of a kind when it is first used. A second thread that uses the kind
    # meanwhile crashes Python. Kinds hold each other, so there is one lock for all.
    with _CONVERTING:
        try:
            return msgspec.convert(data, kind, strict=strict)
        finally:
            # Also after an error: the fields of the kind are learned before its values are read.
            _CONVERTED.add(kind)


def _read(kind: type[RecordT], data: Mapping[str, Any]) -> RecordT:
    try:
        # Not strict: the text "Infinity", which is how jsonable writes it, is a number again.
        return from_builtins(kind, data, strict=False)
    except msgspec.ValidationError as invalid:
        raise TypeError(f"{kind.__name__}: {invalid}") from None


def _hashable(value: Any) -> Any:
    # Maps, lists and sets have no hash. The other fields are enough to distinguish records.
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return None if isinstance(value, dict | list | set | frozenset) else value


@cache
def _dataclass_fields(kind: type[FrozenValue]) -> Mapping[str, Any]:
    from dataclasses import field, make_dataclass

    described: list[Any] = [
        (info.name, info.type, field(**_default(info))) for info in msgspec.structs.fields(kind)
    ]
    # By name only: else fields with a default could not come before those without, as they do in specs.
    made: Any = make_dataclass(kind.__name__, described, kw_only=True)
    fields: Mapping[str, Any] = made.__dataclass_fields__
    return fields


def _default(info: msgspec.structs.FieldInfo) -> dict[str, Any]:
    defaults = {"default": info.default, "default_factory": info.default_factory}
    return {name: value for name, value in defaults.items() if value is not msgspec.NODEFAULT}


class FrozenMap(dict[str, Any]):
    """A dict that refuses to be changed: equal to a dict, written by every JSON encoder, pickled, copied.

    The standard library's read-only view of a dict is none of that: one of them in a record would keep the
    record from being sent to another process.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **more: Any) -> NoReturn:
        raise TypeError("this map cannot be changed: make one of your own with dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenMap], tuple[dict[str, Any]]]:
        # Else pickle would fill an empty map item by item, which the map refuses.
        return FrozenMap, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None
        return hash(frozenset(self.items()))

    def copy(self) -> dict[str, Any]:
        """Give a plain dict with the same content, which may be changed."""
        return dict(self)


NOTHING = FrozenMap()
"""The empty map, for records that hold none."""


class Document(FrozenValue, frozen=True, kw_only=True):
    """What a verb writes with ``--json``: an object whose keys are the fields of its class, all of them.

    ``v`` counts what readers of an earlier document would trip over; what is only added leaves it as it is.
    The first paragraph of a class's docstring is what its schema says of it.
    """

    v: Literal[1] = 1

"""JSON values: canonical text, digests, a JSON form of anything, equality, folded texts and paths."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from math import isfinite, isnan
from numbers import Integral, Rational, Real
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from pytest_agenteval.text.errors import KeyPath

JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"

DIGEST_CHARS = 16


def plain_json(value: object) -> object:
    """Turn read-only mappings and sets into what JSON knows; sets come out sorted."""
    if isinstance(value, Mapping | MappingProxyType):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"not a JSON value: {value!r} ({type(value).__name__})")


# Made once: making an encoder for each line costs more than writing the line.
_encode_canonical = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain_json
).encode
_encode_compact = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain_json
).encode


def canonical_json(value: object) -> str:
    """Write a JSON value with sorted keys and no spaces: equal values, equal text."""
    return _encode_canonical(value)


def compact_json(value: object) -> str:
    """Write a JSON value in one line, its keys in their own order."""
    return _encode_compact(value)


def json_digest(value: object) -> str:
    """Give 16 hex digits of the SHA-256 of a JSON value's canonical text."""
    return text_digest(_encode_canonical(value))


def text_digest(text: str) -> str:
    """Give 16 hex digits of the SHA-256 of a text."""
    # Models send halves of surrogate pairs: a text that holds one has a digest like any other.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


_LISTS = (list, tuple, deque)


class _HoldsItself(ValueError):
    """Raised where a value is met within itself; ``identity`` is the ``id`` of that value."""

    def __init__(self, value: object) -> None:
        super().__init__("it holds itself")
        self.identity = id(value)


def jsonable(value: Any) -> Any:
    """Turn a value into what JSON knows: maps with texts as keys, lists, texts, finite numbers.

    Records, dataclasses and pydantic models become maps. Sets become sorted lists. Dates and bytes become
    texts, infinity and NaN their names. Anything else becomes its ``repr``, and so does an object that holds
    itself.
    """
    return _json_form(value, ())


def encoder_fallback(value: Any) -> Any:
    """Give what msgspec writes for a value that it does not know: what it holds, or else its ``repr``.

    None, truth values and texts get here only as keys of a map, which have to be texts.
    """
    if value is None or isinstance(value, bool):
        return compact_json(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, PurePath | Rational) and not isinstance(value, Integral):
        return str(value)
    if isinstance(value, Real):  # numpy's numbers are numbers
        return int(value) if isinstance(value, Integral) else float(value)
    if hasattr(type(value), "__pydantic_serializer__"):  # a model; pydantic need not be there
        return value.model_dump()
    return repr(value)


def _float_name(number: float) -> str:
    """Name NaN or an infinity as the files of a run do."""
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _json_form(value: Any, around: tuple[int, ...]) -> Any:
    # ``around`` holds the identities of the objects that the value lies in.
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # numpy's float64 is a float of its own class, which readers of JSON values do not take for one.
        return float(value) if isfinite(value) else _float_name(value)
    if isinstance(value, Mapping):
        return {_json_key(key): _json_form(inner, around) for key, inner in value.items()}
    if isinstance(value, _LISTS):
        return [_json_form(inner, around) for inner in value]
    if isinstance(value, set | frozenset):
        # The order in which Python gives the items of a set changes from run to run.
        return sorted([_json_form(inner, around) for inner in value], key=repr)
    if id(value) in around:
        raise _HoldsItself(value)
    within = (*around, id(value))
    names: Iterable[str] | None = None
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    try:
        if names is not None:
            # A field that was declared and never set is left out, as msgspec does.
            return {name: _json_form(getattr(value, name), within) for name in names if hasattr(value, name)}
        return _json_form(msgspec.to_builtins(value, enc_hook=encoder_fallback), within)
    except _HoldsItself as again:
        if again.identity != id(value):
            raise
    except (TypeError, ValueError, RecursionError):  # msgspec cannot read what it holds
        pass
    return repr(value)


def _json_key(key: Any) -> str:
    # As encoders of JSON write keys; the ``repr`` of those that they do not know.
    form = key if isinstance(key, str) else _json_form(key, ())
    if isinstance(form, str):
        return form
    return compact_json(form) if form is None or isinstance(form, bool | int | float) else repr(key)


# Bounded, so that a short text with a huge exponent cannot become a number that fills the memory.
_JSON_NUMBER = re.compile(r"\s*[-+]?[0-9]{1,100}(?:\.[0-9]{1,100})?(?:[eE][-+]?[0-9]{1,3})?\s*")
_LONG_RUN_OF_MARKS = re.compile(rb"[^\0]{33}")


def json_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but not true; lists compare in order.

    A tuple equals a list with the same items. NaN, which is no JSON, equals nothing.
    """
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(json_equal(value, right[key]) for key, value in left.items())
        )
    if _is_list(left):
        return (
            _is_list(right)
            and len(left) == len(right)
            and all(json_equal(mine, other) for mine, other in zip(left, right, strict=True))
        )
    return _equal_scalars(left, right)


def is_part_of(part: Any, whole: Any) -> bool:
    """Whether a value is contained in another.

    Each key of a map has to be there, and its value has to contain the part's value. Each item of a list has
    to be part of some item of the other list, in any order and however often. Everything else has to be
    equal.
    """
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and is_part_of(value, whole[key]) for key, value in part.items()
        )
    if _is_list(part):
        return _is_list(whole) and all(any(is_part_of(item, other) for other in whole) for item in part)
    return _equal_scalars(part, whole)


def fold_text(text: str) -> str:
    """Ignore case, width (NFKC), outer spaces and repeated white space."""
    folded = ""
    # Repeated, for folding the case of some letters gives letters that NFKC writes otherwise.
    while folded != text:
        folded, text = text, " ".join(_normalize("NFKC", text.casefold()).split())
    return folded


def normal_text(text: str) -> str:
    """Give a text in NFC, with ``\\n`` between lines and without a byte order mark before anything else."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    return composed_text(text.removeprefix("\ufeff") or text)


def composed_text(text: str) -> str:
    """Give a text in NFC, its line ends and byte order mark unchanged."""
    return text if unicodedata.is_normalized("NFC", text) else _normalize("NFC", text)


def normal_texts(value: Any) -> Any:
    """Apply ``normal_text`` to every text and key of a JSON value; maps and lists are new ones."""
    return _mapped(value, normal_text, normal_keys)


def with_normal_keys(value: Any) -> Any:
    """Apply ``normal_text`` to every key of a JSON value, not to its texts; maps and lists are new ones."""
    return _mapped(value, str, normal_keys)


def _mapped(
    value: Any, change: Callable[[str], str], keys: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
) -> Any:
    """Change the texts of a JSON value, and its maps by ``keys``; tuples become lists."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change, keys) for key, inner in keys(value).items()}
    return [_mapped(it, change, keys) for it in value] if isinstance(value, list | tuple) else value


def normal_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Apply ``normal_text`` to the keys of a map.

    A key stays as it is where its normal form is another key already, so that no value is lost.
    """
    normal: dict[str, Any] = {}
    for key, value in values.items():
        name = normal_text(key) if isinstance(key, str) else key
        normal[key if name != key and (name in values or name in normal) else name] = value
    return normal


def fold_compact(text: str) -> str:
    """Fold a text, and take away all white space: ``서울 역`` is ``서울역``, as Korean writes both."""
    return "".join(fold_text(text).split())


def fold_texts(value: Any) -> Any:
    """Fold every text of a JSON value with ``fold_text``; keys stay as they are, tuples become lists."""
    return _mapped(value, fold_text)


def number_of(value: Any) -> Decimal | None:
    """Read a number, or a text that is written as JSON writes numbers; anything else is None.

    The number is exact as it is written: 37.6 - 37.5 is 0.1, which it is not with floats.
    """
    if isinstance(value, str):
        return Decimal(value.strip()) if _JSON_NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        # From its shortest text: Decimal(0.1) would be 0.1000000000000000055…
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value)


def whole_numbers(value: Any) -> Any:
    """Write 5.0 as 5 within a JSON value, as clients in JavaScript and Go do."""
    # Above 2**53 floats have no neighbours that differ by 1, and the whole number would be another one.
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return {name: whole_numbers(it) for name, it in value.items()}
    return list(map(whole_numbers, value)) if isinstance(value, list | tuple) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _equal_scalars(left: Any, right: Any) -> bool:
    # Python takes True for 1.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    # Normalizing sorts a run of combining marks in quadratic time. No language has runs of more than 32.
    if text.isascii() or _LONG_RUN_OF_MARKS.search(bytes(map(unicodedata.combining, text))):
        return text
    return unicodedata.normalize(form, text)


def mend_surrogates(text: str) -> str:
    """Join the two surrogates of one character that came apart; a lone half becomes U+FFFD.

    A server may escape the halves in two events of a stream. A reader with ``surrogateescape`` turns bytes
    into halves.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    from_bytes = _ESCAPED_BYTES.sub(
        lambda match: match[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), paired
    )
    return _SURROGATE.sub("\ufffd", from_bytes)


def mend_surrogates_in(value: Any) -> Any:
    """Apply ``mend_surrogates`` to every text and key of a JSON value."""
    return _mapped(value, mend_surrogates, lambda it: {mend_surrogates(key): it[key] for key in it})


_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]+")


_BARE_PATTERN = r'[^\s."\[\]](?:[^."\[\]\x00-\x1f]*[^\s."\[\]])?'
_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_INDEX = r"\[(?:0|-?[1-9][0-9]{0,8})\]"
_BARE_KEY = re.compile(_BARE_PATTERN)
_STEP = re.compile(rf"(?P<dot>\.?)(?:(?P<bare>{_BARE_PATTERN})|(?P<quoted>{_QUOTED}))|(?P<index>{_INDEX})")
# What stands in brackets and is no number, as in items[*].name, is no step of any kind.
_LOOSE_STEP = re.compile(r"([^.\[\]]+)(?![^\[]*\])|\[([0-9]+)\]")


class Missing(Enum):
    """The type of ``ABSENT``, which says that there is no value; no JSON value can say that."""

    ABSENT = "nothing"


ABSENT: Final = Missing.ABSENT
"""The result of ``value_at`` if nothing is at the path."""


class PathError(ValueError):
    """A text is no path; ``rest`` is the part that cannot be read."""

    def __init__(self, text: str, rest: str) -> None:
        super().__init__(f"{text!r} cannot be read from {rest!r} on" if text else "an empty text is no path")
        self.rest = rest


def parse_path(text: str) -> KeyPath:
    """Parse a path; raises PathError, also for an empty text."""
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        step = None if match is None else _read_step(match, first=not end)
        if match is None or step is None:
            break
        steps.append(step)
        end = match.end()
    if not steps or end < len(text):
        raise PathError(text, text[end:])
    return tuple(steps)


def loose_path(text: str) -> KeyPath:
    """Read a path that others wrote: keys, and indices such as ``[0]``; anything else is skipped.

    An empty text is the path of the whole value.
    """
    return tuple(key or int(place) for key, place in _LOOSE_STEP.findall(text))


def format_path(path: Iterable[str | int]) -> str:
    """Write a path so that ``parse_path`` reads it back."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = step if _BARE_KEY.fullmatch(step) else json.dumps(step)
            text += f".{key}" if text else key
    return text


def value_at(value: Any, path: KeyPath) -> Any:
    """Give the value at a path, or ABSENT."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
        elif isinstance(value, list | tuple) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return ABSENT
    return value


def _read_step(match: re.Match[str], *, first: bool) -> str | int | None:
    if match["index"] is not None:
        return int(match["index"][1:-1])
    if bool(match["dot"]) is first:  # a key has a dot before it unless it comes first
        return None
    if match["bare"] is not None:
        return match["bare"]
    try:
        key: str = json.loads(match["quoted"])
    except ValueError:
        return None
    return key

"""JSON values: when two are equal, what is left of a text once it is folded, what a number is.

There is one meaning of each; ``fold_compact`` takes away what ``fold_text`` leaves, the space between words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

# Bounded, so that a short text with a huge exponent cannot become a number that fills the memory.
_JSON_NUMBER = re.compile(r"\s*[-+]?[0-9]{1,100}(?:\.[0-9]{1,100})?(?:[eE][-+]?[0-9]{1,3})?\s*")
_LONG_RUN_OF_MARKS = re.compile(rb"[^\0]{33}")


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but true is not 1, and a list is a list in its order.

    Tuples are lists. NaN, which is no JSON, equals nothing.
    """
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(equal(value, right[key]) for key, value in left.items())
        )
    if _is_list(left):
        return (
            _is_list(right)
            and len(left) == len(right)
            and all(equal(mine, other) for mine, other in zip(left, right, strict=True))
        )
    return _equal_scalars(left, right)


def is_part_of(part: Any, whole: Any) -> bool:
    """Whether a value is contained in another.

    Each key of a map has to be there with a part of its value, each item of a list has to be part of some
    item, in any order and however often; everything else has to be equal.
    """
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and is_part_of(value, whole[key]) for key, value in part.items()
        )
    if _is_list(part):
        return _is_list(whole) and all(any(is_part_of(item, other) for other in whole) for item in part)
    return _equal_scalars(part, whole)


def fold_text(text: str) -> str:
    """Take away case, width (NFKC), spaces at the ends, and all but one of the white space between words."""
    done, text = "", _fold_once(text)
    while done != text:  # folding the case of some letters gives letters that NFKC writes otherwise
        done, text = text, _fold_once(text)
    return done


def normal_text(text: str) -> str:
    """Give a text in one form, so that equal ones compare as equal.

    The form is NFC, with newlines between lines, and without a byte order mark before anything else.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return composed_text(text.removeprefix("\ufeff") or text)


def composed_text(text: str) -> str:
    """Give a text in NFC, with its own ends of lines and byte order mark."""
    return text if unicodedata.is_normalized("NFC", text) else _normalize("NFC", text)


def normal_texts(value: Any) -> Any:
    """Give a JSON value with every text and key in one form; maps and lists are new ones."""
    if isinstance(value, str):
        return normal_text(value)
    if isinstance(value, Mapping):
        return {key: normal_texts(inner) for key, inner in normal_keys(value).items()}
    return list(map(normal_texts, value)) if isinstance(value, list | tuple) else value


def with_normal_keys(value: Any) -> Any:
    """Give a JSON value whose keys, but not its texts, are in one form; maps and lists are new ones."""
    if isinstance(value, Mapping):
        return {key: with_normal_keys(inner) for key, inner in normal_keys(value).items()}
    return list(map(with_normal_keys, value)) if isinstance(value, list | tuple) else value


def normal_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give a map with its keys in one form, except those whose form is already another's key."""
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
    if isinstance(value, str):
        return fold_text(value)
    if isinstance(value, Mapping):
        return {key: fold_texts(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fold_texts(inner) for inner in value]
    return value


def number_of(value: Any) -> Decimal | None:
    """Read a number, or a text that is written as JSON writes numbers; anything else is None.

    It is the number that is written: between 37.5 and 37.6 lies 0.1, which floats would not say.
    """
    if isinstance(value, str):
        return Decimal(value.strip()) if _JSON_NUMBER.fullmatch(value) else None
    return _number(value)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        # By way of its shortest text: Decimal(0.1) would be 0.1000000000000000055…
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _equal_scalars(left: Any, right: Any) -> bool:
    # Python takes True for 1.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _fold_once(text: str) -> str:
    return " ".join(_normalize("NFKC", text.casefold()).split())


def _normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    # A run of marks is put in order in a time that grows with the square of its length. No language has runs
    # of so many.
    if text.isascii() or _LONG_RUN_OF_MARKS.search(bytes(map(unicodedata.combining, text))):
        return text
    return unicodedata.normalize(form, text)


def whole_text(text: str) -> str:
    """Give a text in which halves of one character that came apart are one; what stays half is U+FFFD.

    The halves are surrogates that a server escaped in two events, or bytes of UTF-8 that a reader kept as
    ``surrogateescape`` does.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    from_bytes = _KEPT_BYTES.sub(
        lambda match: match[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), paired
    )
    return _SURROGATE.sub("\ufffd", from_bytes)


def whole_texts(value: Any) -> Any:
    """Give a JSON value whose texts and keys are whole, as by ``whole_text``."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {whole_text(key): whole_texts(inner) for key, inner in value.items()}
    return list(map(whole_texts, value)) if isinstance(value, list) else value


_SURROGATE = re.compile("[\ud800-\udfff]")
_KEPT_BYTES = re.compile("[\udc80-\udcff]+")

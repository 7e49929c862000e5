"""What is left of a text when differences that nobody means are taken away."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any


def folded(text: str) -> str:
    """Take away case, width (NFKC), spaces at the ends, and all but one of the white space between words."""
    done, text = "", _folded_once(text)
    while done != text:  # folding the case of some letters gives letters that NFKC writes otherwise
        done, text = text, _folded_once(text)
    return done


def folded_all(value: Any) -> Any:
    """Fold every text of a JSON value; keys stay as they are."""
    if isinstance(value, str):
        return folded(value)
    if isinstance(value, Mapping):
        return {key: folded_all(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [folded_all(inner) for inner in value]
    return value


def _folded_once(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())

"""Whether what a tool gave back is worth something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import UpstreamError
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall
from pytest_agenteval.text.json_values import json_equal

_ERROR_KEYS = ("error", "errors", "error_code", "error_message", "errorCode", "errorMessage")
_FINE = (0, 200)

_TOTALS = frozenset(("totalcount", "totalresults", "totalhits", "totalitems", "totalelements", "numfound"))
"""Keys under which a search says how much it found; ``total`` says so beside a list only."""

_SEARCH_KEYS = _TOTALS.union(
    ("total", "count", "pageablecount", "start", "startindex", "display", "page", "size", "limit", "offset"),
    (
        "numofrows",
        "pageno",
        "itemsperpage",
        "perpage",
        "isend",
        "hasmore",
        "version",
        "lastbuilddate",
        "pubdate",
        "currentdatetime",
    ),
    ("success", "ok", "status", "code", "message", "rspcd", "rspmsg", "rtcd", "msgcd", "msg1"),
    ("query", "keyword"),
)
"""Keys beside a list that say how was searched, or that the search worked, and nothing of what was found."""


def has_data(call: KoCall) -> bool:
    """Whether a call gave something: no error, no error in the place of a result, and not nothing."""
    return is_valid(call) and has_content(call.result, call.args)


def is_valid(call: KoCall) -> bool:
    """Whether a call worked, also by what stands in its result."""
    return call.worked and not is_error_result(call.result)


def is_error_result(result: Any) -> bool:
    """Whether a result is an error that a provider wrote as if it were one.

    So do TMAP and Bithumb (a map with an error), Aladin (its code), LS and KIS (a return code other than
    zeros) and Naver's directions (a code other than 0). So does a list of nothing but errors.
    """
    if isinstance(result, list | tuple):
        return bool(result) and all(map(is_error_result, result))
    if not isinstance(result, Mapping):
        return False
    if result.get("success") is False or any(result.get(key) for key in _ERROR_KEYS):
        return True
    if any(str(result.get(key) or "0").strip("0") for key in ("rsp_cd", "rt_cd")):
        return True
    code = result.get("code")
    return isinstance(code, int) and not isinstance(code, bool) and "message" in result and code not in _FINE


def has_content(result: Any, args: Mapping[str, Any] | None = None) -> bool:
    """Whether there is anything in a result: it is empty only where everything in it is.

    So are errors in a list, a search that says that it found 0, and, beside empty lists, what only says how
    was searched: a page, a date, an argument of the call.
    """
    if not isinstance(result, Mapping):
        return _has_value(result)
    lists = list(_lists(result))
    if any(map(_has_value, lists)):
        return True
    values = [(key, leaf) for key, leaf in _leaves(result) if _has_value(leaf)]
    noughts = {key for key, leaf in values if _is_zero(leaf)}
    if noughts & _TOTALS or (lists and "total" in noughts):
        return False
    new_keys = (key for key, leaf in values if not _echoes(key, leaf, args or {}))
    return any(not lists or key not in _SEARCH_KEYS for key in new_keys)


def _echoes(key: str, leaf: Any, args: Mapping[str, Any]) -> bool:
    """Whether a value only says again what was asked for: a text, or, under a like name, anything.

    Small numbers and truth values are equal by chance: a temperature of 5 is no answer to ``days: 5``.
    """
    for name, arg in args.items():
        arg_key = _normalize_key(name)
        if json_equal(leaf, arg) and (isinstance(leaf, str) or arg_key in key or key in arg_key):
            return True
        if key.endswith(arg_key) and arg not in (None, "") and str(arg) in str(leaf):
            return True
    return False


def _normalize_key(key: Any) -> str:
    """Write a key as all providers would."""
    return str(key).casefold().replace("_", "").replace("-", "")


def _has_value(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return bool(leaf.strip())
    if isinstance(leaf, Mapping):
        return not is_error_result(leaf) and any(map(_has_value, leaf.values()))
    return any(map(_has_value, leaf)) if isinstance(leaf, list | tuple) else leaf is not None


def _is_zero(leaf: Any) -> bool:
    return str(leaf).strip() in ("0", "0.0") and not isinstance(leaf, bool)


def _lists(value: Any) -> Iterator[list[Any] | tuple[Any, ...]]:
    """Give the outermost lists in a map."""
    for inner in value.values():
        if isinstance(inner, list | tuple):
            yield inner
        elif isinstance(inner, Mapping):
            yield from _lists(inner)


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what is neither map nor list, with its key in one spelling; an error's words are none."""
    for key, inner in value.items():
        if not isinstance(inner, Mapping | list | tuple):
            yield _normalize_key(key), inner
        elif isinstance(inner, Mapping) and not is_error_result(inner) and not _is_blank_form(inner):
            yield from _leaves(inner)


def _is_blank_form(record: Mapping[str, Any]) -> bool:
    """Whether a record was never filled in: several fields, each 0 or no text, and some of them no text."""
    leaves = list(record.values())
    blank = [isinstance(leaf, str) and not leaf.strip() for leaf in leaves]
    unfilled = (none or _is_zero(leaf) for none, leaf in zip(blank, leaves, strict=True))
    return len(leaves) > 2 and any(blank) and all(unfilled)


def is_meaningful_upstream(result: Any) -> bool:
    """Whether the benchmark's code takes a result for one: it knows the keys of three providers."""
    if not isinstance(result, Mapping):
        return bool(result)
    if result.get("items") or result.get("places"):
        return True
    count = result.get("total_count", 0)
    try:
        return bool(count > 0)
    except TypeError:
        raise UpstreamError(f"total_count is {type(count).__name__}, which it compares with 0") from None

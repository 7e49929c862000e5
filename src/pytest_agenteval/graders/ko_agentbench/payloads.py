"""Whether what a tool gave back is worth something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_agenteval.graders.ko_agentbench.metric import RaisesUpstream
from pytest_agenteval.graders.ko_agentbench.trace import KoCall

_ERROR_KEYS = ("error", "errors", "error_code", "error_message", "errorCode", "errorMessage")
_FINE = (0, 200)


def delivered(call: KoCall) -> bool:
    """Whether a call gave something: no error, no error in the place of a result, and not nothing."""
    return valid(call) and holds_something(call.result)


def valid(call: KoCall) -> bool:
    """Whether a call worked, also by what stands in its result."""
    return call.worked and not says_error(call.result)


def says_error(result: Any) -> bool:
    """Whether a result is an error that a provider wrote as if it were one.

    So do TMAP and Bithumb (a map with an error), Aladin (its code), LS and KIS (a return code other than
    zeros) and Naver's directions (a code other than 0).
    """
    if not isinstance(result, Mapping):
        return False
    if result.get("success") is False or any(result.get(key) for key in _ERROR_KEYS):
        return True
    if any(str(result.get(key) or "0").strip("0") for key in ("rsp_cd", "rt_cd")):
        return True
    code = result.get("code")
    return isinstance(code, int) and not isinstance(code, bool) and "message" in result and code not in _FINE


def holds_something(result: Any) -> bool:
    """Whether there is anything in a result: a list that is not empty or, where there is no list, a value."""
    if isinstance(result, Mapping):
        lists = list(_lists(result))
        return any(lists) if lists else any(map(_value, _leaves(result)))
    return _value(result)


def _value(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return bool(leaf.strip())
    return bool(leaf) if isinstance(leaf, list | tuple | Mapping) else leaf is not None


def _lists(value: Any) -> Iterator[list[Any] | tuple[Any, ...]]:
    """Give the outermost lists in a map."""
    for inner in value.values():
        if isinstance(inner, list | tuple):
            yield inner
        elif isinstance(inner, Mapping):
            yield from _lists(inner)


def _leaves(value: Any) -> Iterator[Any]:
    for inner in value.values():
        if isinstance(inner, Mapping):
            yield from _leaves(inner)
        else:
            yield inner


def meaningful_upstream(result: Any) -> bool:
    """Whether the benchmark's code takes a result for one: it knows the keys of three providers."""
    if not isinstance(result, Mapping):
        return bool(result)
    if result.get("items") or result.get("places"):
        return True
    count = result.get("total_count", 0)
    try:
        return bool(count > 0)
    except TypeError:
        raise RaisesUpstream(f"total_count is {type(count).__name__}, which it compares with 0") from None

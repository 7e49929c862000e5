"""The key under which Ko-AgentBench's cache keeps a call, worked out without the benchmark's own code.

A key is the digest of the tool's name, its normalised arguments and a signature of the tool's declaration.
The signatures are constants: they say which declaration was current when the cache was last filled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).with_name("catalogue.json")
_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@cache
def catalogue() -> Mapping[str, Any]:
    """Give each current tool's signature and its parameters: type, default, bounds, whether required."""
    found: Mapping[str, Any] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return found


def parameters(tool: str) -> Mapping[str, Mapping[str, Any]]:
    """Give a current tool's parameters; KeyError for any other tool."""
    found: Mapping[str, Mapping[str, Any]] = catalogue()[tool]["parameters"]
    return found


def normalised(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments as the cache keeps them: defaults filled in, types forced, unknown keys dropped."""
    known = parameters(tool)
    given = {**{name: p["default"] for name, p in known.items() if "default" in p}, **_renamed(tool, args)}
    return {name: _forced(given[name], known[name]["type"]) for name in sorted(given.keys() & known.keys())}


def cache_key(tool: str, args: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Give the normalised arguments of a call of a current tool, and its key."""
    settled = normalised(tool, args)
    asked = {"tool": tool, "args": settled, "sig": catalogue()[tool]["signature"]}
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    return settled, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _renamed(tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take the one spelling that the benchmark takes beside its own."""
    if tool == "StockPrice_ls" and "symbol" in args and "shcode" not in args:
        return {**args, "shcode": args["symbol"]}
    return args


def _forced(value: Any, kind: str) -> Any:
    """Make a value of the parameter's type; what cannot be made so stays as it is."""
    try:
        if kind == "integer":
            return int(value)
        if kind == "number":
            return value if isinstance(value, int) else float(value)
    except (TypeError, ValueError, OverflowError):
        return value
    if kind == "string":
        return value if isinstance(value, str) else str(value)
    if isinstance(value, str) and kind == "boolean":
        return _flag(value)
    return value


def _flag(text: str) -> bool | str:
    lower = text.strip().lower()
    return True if lower in _TRUE else False if lower in _FALSE else text

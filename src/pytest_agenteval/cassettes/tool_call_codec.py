"""Reads the calls of one tool out of recorded requests, with the defaults and types of its schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from pytest_agenteval.cassettes.interaction import CHAT, TOOL, Request, tool_call, tool_request
from pytest_agenteval.cassettes.param_matchers import ParamMatchers
from pytest_agenteval.cassettes.request_identity import CallMatcher, address_of, request_parameters
from pytest_agenteval.text.canonical import canonical
from pytest_agenteval.text.json_values import equal


class RequestCodec(Protocol):
    """How the calls of a tool are written as HTTP requests, and read again."""

    def request(self, args: Mapping[str, Any]) -> Request:
        """Write a call as a request."""
        ...

    def args(self, request: Request) -> Mapping[str, Any]:
        """Read the arguments of a request."""
        ...


def tool_call_matcher(
    tool: str, schema: Mapping[str, Any], matchers: ParamMatchers, wire: RequestCodec | None = None
) -> CallMatcher:
    """Read a tool's calls with the defaults and types of its schema, to compare them by its matchers."""

    def read_recorded(request: Request) -> Mapping[str, Any] | None:
        args = _args(request, tool, wire)
        return None if args is None else normalize_arguments(args, schema)

    def read_asked(request: Request) -> Mapping[str, Any] | None:
        if wire is None or request.uri.startswith(TOOL):
            return read_recorded(request)
        return normalize_arguments(wire.args(request), schema)

    return CallMatcher(
        (tool, matchers.ident, canonical(schema), id(wire)), read_recorded, read_asked, matchers
    )


def as_tool_call(request: Request, tool: str, matcher: CallMatcher) -> Request:
    """Write a request as a ``tool://`` call if it is one of the tool's; others stay what they are.

    What is ignored is left out, so that it is never told as a difference.
    """
    args = matcher.read_recorded(request)
    if args is None:
        return request
    compared = {name: value for name, value in args.items() if not matcher.matchers.ignores(name)}
    return tool_request(tool, compared)


def _args(request: Request, tool: str, wire: RequestCodec | None) -> Mapping[str, Any] | None:
    if request.uri.startswith(TOOL):
        name, args = tool_call(request)
        return _args_on_the_wire(args, wire) if name == tool else None
    return None if wire is None or request.uri.startswith(CHAT) else _args_if_of_tool(request, wire)


def _args_on_the_wire(args: Mapping[str, Any], wire: RequestCodec | None) -> Mapping[str, Any]:
    """Give what of a call by name reaches the provider, to compare it with what was really asked."""
    if wire is None:
        return args
    try:
        return wire.args(wire.request(args))
    except Exception:  # arguments that the tool would refuse today
        return args


def _args_if_of_tool(request: Request, wire: RequestCodec) -> Mapping[str, Any] | None:
    """Give the arguments if the tool, called with them, would ask this; several may share an address."""
    try:
        args = wire.args(request)
        again = wire.request(args)
    except Exception:  # of another tool's request, a wire need not make sense
        return None
    if address_of(again) != address_of(request):
        return None
    would = request_parameters(again)
    sent = request_parameters(request).items()
    return args if all(name in would and _same(would[name], value) for name, value in sent) else None


def _same(left: Any, right: Any) -> bool:
    return equal(left, right) or str(left) == str(right)


_SCALARS = frozenset({str, int, bool, float})
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def normalize_arguments(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments as two ways to write one call have them in common.

    What has no default stays absent, what cannot be of its type stays as it is, and what the schema does not
    know is left out. A schema without properties knows nothing, and changes nothing.
    """
    properties = schema.get("properties")
    if not properties:
        return dict(args)
    whole = {name: shape["default"] for name, shape in properties.items() if _has_default(shape)}
    whole.update({name: value for name, value in args.items() if name in properties})
    return {name: _as_type(value, properties[name]) for name, value in whole.items()}


def _has_default(shape: Any) -> bool:
    return isinstance(shape, dict | Mapping) and "default" in shape


def _as_type(value: Any, shape: Any) -> Any:
    if type(value) not in _SCALARS:
        return value
    kind = shape.get("type") if isinstance(shape, dict | Mapping) else None
    if isinstance(kind, list | tuple):
        kind = next((word for word in kind if word != "null"), None)
    with suppress(ValueError, OverflowError):
        return _AS[kind](value) if kind in _AS else value
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and not value.is_integer():
        return value
    return value if isinstance(value, bool) else int(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool | int):
        return value
    number = float(value)
    return number if math.isfinite(number) else value


def _boolean(value: Any) -> Any:
    word = str(value).casefold()
    return word in _YES if word in (*_YES, *_NO) else value


_AS: Mapping[str | None, Any] = {"integer": _integer, "number": _number, "boolean": _boolean, "string": str}

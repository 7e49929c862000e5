"""Reads the calls of one tool out of recorded requests: ``tool://`` ones, or what a provider was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_agenteval.canonical import canonical
from pytest_agenteval.cassettes.defaults import settled
from pytest_agenteval.cassettes.index import Reading
from pytest_agenteval.cassettes.interaction import CHAT, TOOL, Request, tool_call, tool_request
from pytest_agenteval.cassettes.matching import address_of
from pytest_agenteval.cassettes.misses import arguments
from pytest_agenteval.cassettes.rules import Rules, equal


class Written(Protocol):
    """How the calls of a tool are written as HTTP requests, and read again."""

    def request(self, args: Mapping[str, Any]) -> Request:
        """Write a call as a request."""
        ...

    def args(self, request: Request) -> Mapping[str, Any]:
        """Read the arguments of a request."""
        ...


def reading_of(tool: str, schema: Mapping[str, Any], rules: Rules, wire: Written | None = None) -> Reading:
    """Read a tool's calls with the defaults and types of its schema, to compare them by its rules."""

    def read(request: Request) -> Mapping[str, Any] | None:
        args = _args(request, tool, wire)
        return None if args is None else settled(args, schema)

    def asked(request: Request) -> Mapping[str, Any] | None:
        if wire is None or request.uri.startswith(TOOL):
            return read(request)
        return settled(wire.args(request), schema)

    return Reading((tool, rules.ident, canonical(schema), id(wire)), read, asked, rules)


def reading_of_requests(rules: Rules) -> Reading:
    """Read any HTTP request: its address, and by name the parameters of its query and of its body."""

    def read(request: Request) -> Mapping[str, Any] | None:
        if request.uri.startswith((TOOL, CHAT)):
            return None
        # The empty name is nobody's parameter. What is asked in a body is not what is asked in a query.
        return {**arguments(request), "": [*address_of(request), bool(request.body)]}

    return Reading(("HTTP", rules.ident), read, read, rules)


def as_call(request: Request, tool: str, reading: Reading) -> Request:
    """Write a request as a ``tool://`` call if it is one of the tool's; others stay what they are.

    What is ignored is left out, so that it is never told as a difference.
    """
    args = reading.read(request)
    if args is None:
        return request
    compared = {name: value for name, value in args.items() if not reading.rules.ignores(name)}
    return tool_request(tool, compared)


def _args(request: Request, tool: str, wire: Written | None) -> Mapping[str, Any] | None:
    if request.uri.startswith(TOOL):
        name, args = tool_call(request)
        return _as_sent(args, wire) if name == tool else None
    return None if wire is None or request.uri.startswith(CHAT) else _sent(request, wire)


def _as_sent(args: Mapping[str, Any], wire: Written | None) -> Mapping[str, Any]:
    """Give what of a call by name reaches the provider, to compare it with what was really asked."""
    if wire is None:
        return args
    try:
        return wire.args(wire.request(args))
    except Exception:  # arguments that the tool would refuse today
        return args


def _sent(request: Request, wire: Written) -> Mapping[str, Any] | None:
    """Give the arguments if the tool, called with them, would ask this; several may share an address."""
    try:
        args = wire.args(request)
        again = wire.request(args)
    except Exception:  # of another tool's request, a wire need not make sense
        return None
    if address_of(again) != address_of(request):
        return None
    would = arguments(again)
    sent = arguments(request).items()
    return args if all(name in would and _same(would[name], value) for name, value in sent) else None


def _same(left: Any, right: Any) -> bool:
    return equal(left, right) or str(left) == str(right)

"""Calls of HTTP tools, read out of recordings that hold only the request.

Earlier versions recorded such calls so, and vcrpy does: their cassettes are replayed as they are, and
``agenteval cassettes migrate`` rewrites them. What is recorded now holds the call's arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Interaction,
    Request,
    text_of,
    tool_request,
    with_http_request,
)
from pytest_agenteval.cassettes.request_matching import address_of, key_of, request_parameters
from pytest_agenteval.text.json_values import json_equal
from pytest_agenteval.tools.http_request import RequestTemplate
from pytest_agenteval.tools.http_tool import HttpWire
from pytest_agenteval.tools.request_values import (
    Args,
    ArgumentValue,
    JoinedValue,
    NestedValue,
    TableValue,
    TemplateValue,
    TextTemplate,
    text_of_value,
)
from pytest_agenteval.tools.tool import Tool, in_declared_type, normalize_arguments


def as_calls(interactions: Iterable[Interaction], tools: Iterable[Tool]) -> Iterator[Interaction]:
    """Give each recorded request of a tool as a call of it; others as they are.

    Of several tools that may have sent it, it is the first that would send it so today, to the last word.
    """
    wires = [(tool, tool.wire) for tool in tools if tool.wire is not None]
    for each in interactions:
        sent, found = _as_sent(each.request), None
        for tool, wire in wires:
            args = arguments_in(wire, each.request)
            if args is not None:
                is_equal = key_of(wire.request(args)) == key_of(sent)
                found = (tool, args) if found is None or is_equal else found
                if is_equal:
                    break
        if found is None:
            yield each
        else:
            tool, args = found
            call = tool_request(tool.spec.name, normalize_arguments(args, tool.spec.parameters))
            yield Interaction(call, with_http_request(each.response, sent))


def arguments_in(wire: object, request: Request) -> dict[str, Any] | None:
    """Read the arguments of a recorded request; None for one that this tool does not make."""
    if not isinstance(wire, HttpWire) or request.uri.startswith((TOOL, CHAT)):
        return None
    in_path = _read(wire.template.url, request.uri.partition("#")[0].partition("?")[0], "[^/]*?")
    if in_path is None:
        return None
    try:
        args = _arguments(wire.template, request, in_path)
        again = wire.request(args)
    except Exception:  # another tool's request need not make sense
        return None
    # Tools may share an address: it is this one's if the arguments make the same request again.
    if address_of(again) != address_of(request):
        return None
    would = request_parameters(again)
    for name, value in request_parameters(_as_sent(request)).items():
        if name not in would or not (json_equal(would[name], value) or str(would[name]) == str(value)):
            return None
    return args


def _as_sent(request: Request) -> Request:
    """Leave out the arguments that were not sent: earlier versions recorded them behind a ``#``."""
    return Request(request.method, request.uri.partition("#")[0], request.body, request.headers)


def _arguments(template: RequestTemplate, request: Request, in_path: Args) -> dict[str, Any]:
    address = urlsplit(request.uri)
    args = {name: unquote(value) for name, value in in_path.items()}
    args.update(_read(template.query, _grouped(address.query)) or {})
    args.update(_read(template.headers, {name: it[0] for name, it in request.headers.items()}) or {})
    if template.body and request.body:
        sent: Any = {}
        if template.body_as == "form":
            sent = _grouped(text_of(request.body))
        else:
            with suppress(ValueError):
                sent = json.loads(text_of(request.body))
        args.update(_read(template.body, sent) or {})
    args.update(_grouped(address.fragment))
    return {name: _typed(args[name], shape) for name, shape in template.properties.items() if name in args}


def _read(value: TemplateValue, sent: Any, argument: str = ".*?") -> Args | None:
    """Give the arguments for which this value is sent, or None; ``argument`` is the pattern of one."""
    if isinstance(value, ArgumentValue):
        return {value.names[0]: sent}
    if isinstance(value, JoinedValue):
        return {value.name: text_of_value(sent).split(value.between) if sent else []}
    if isinstance(value, TextTemplate):
        parts = (
            f"({argument})" if piece.name else ".*?" if piece.secret else re.escape(piece.text)
            for piece in value.pieces
        )
        match = re.fullmatch("".join(parts), text_of_value(sent), re.S)
        return dict(zip(value.names, match.groups(), strict=True)) if match else None
    if isinstance(value, TableValue):
        for chosen, inner in value.table.items():
            if (read := _read(inner, sent, argument)) is not None:
                return {**read, value.name: chosen}
        return {value.name: sent}
    if isinstance(value, NestedValue):
        return _read_nested(value, sent)
    return {} if text_of_value(sent) == text_of_value(value.constant) else None


def _read_nested(value: NestedValue, sent: Any) -> Args:
    pairs: Iterable[tuple[TemplateValue, Any]] = ()
    if isinstance(value.inner, Mapping) and isinstance(sent, Mapping):
        pairs = [(inner, sent[key]) for key, inner in value.inner.items() if key in sent]
    elif not isinstance(value.inner, Mapping) and isinstance(sent, list | tuple):
        pairs = zip(value.inner, sent, strict=False)
    args: dict[str, Any] = {}
    for inner, item in pairs:
        args.update(_read(inner, item) or {})
    return args


def _grouped(query: str) -> dict[str, Any]:
    grouped: dict[str, Any] = {}
    for name, value in parse_qsl(query, True):
        grouped[name] = value if name not in grouped else [*_listed(grouped[name]), value]
    return grouped


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _typed(value: Any, shape: Any) -> Any:
    """Convert a text to the type that the schema declares; one that does not fit stays a text."""
    kind = shape.get("type") if isinstance(shape, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds:
        return [_typed(item, shape.get("items")) for item in _listed(value)]
    if "object" in kinds and isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return in_declared_type(value, shape)

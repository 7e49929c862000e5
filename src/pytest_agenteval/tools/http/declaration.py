"""What authors of tool files write: one frozen model for each part of a declaration.

A text in ``url``, ``query``, ``headers`` and ``body`` may name arguments as ``{keyword}``, with a value for
an absent one as ``{unit=1}``, environment variables as ``${KAKAO_REST_API_KEY}`` and the token as
``${token}``. A text that is one argument and nothing else keeps the argument's type; a key whose argument is
absent is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.field_types import Count, Map, Named, Number, Positive, Spec, expects

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
ToolName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Variable = Annotated[str, Meta(pattern=r"^\w+\Z")]
ValueMap = Mapping[str, Any]


class Chosen(Spec, frozen=True, kw_only=True):
    """An argument written in other words: by a table, or a list in one text."""

    param: Annotated[Named, expects("the name of a parameter")]
    table: Annotated[Map, expects("a map from argument to what is sent for it")] = NOTHING
    join: Annotated[str | None, expects("a text that is put between the items of a list")] = None

    @property
    def template(self) -> Map:
        """The map {param, table, join} of it, as templates of requests hold it."""
        return {"param": self.param, "table": self.table} | ({} if self.join is None else {"join": self.join})


class RequestSpec(Spec, frozen=True, kw_only=True):
    """What is sent for a call."""

    method: Annotated[Method, expects("GET, POST, PUT, PATCH, DELETE or HEAD")] = "GET"
    url: Annotated[Chosen | Named, expects("an address, or a path below `base`; or {param, table} of them")]
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    body: Annotated[Any, expects("any JSON value; texts in it may name arguments")] = None
    body_as: Annotated[Literal["json", "form"], expects("json or form")] = "json"


class TokenSpec(Spec, frozen=True, kw_only=True):
    """The request that gives the token for all others; what it gave is kept until it expires."""

    url: Annotated[Named, expects("an address, or a path below `base`")]
    method: Annotated[Method, expects("GET, POST, PUT, PATCH, DELETE or HEAD")] = "POST"
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    body: Annotated[Any, expects("any JSON value")] = None
    body_as: Annotated[Literal["json", "form"], expects("json or form")] = "json"
    path: Annotated[Named, expects("where the token stands in the response")] = "access_token"
    expires: Annotated[Named, expects("where its seconds stand in the response")] = "expires_in"
    lasts: Annotated[Positive, expects("seconds it lasts where the response does not say")] = 3600.0


class ErrorSpec(Spec, frozen=True, kw_only=True):
    """How a body looks that says that the call failed, whatever its status."""

    path: Annotated[str, expects("where the value stands that tells, as in error.code")] = ""
    ok: Annotated[tuple[Any, ...], expects("values that mean success; none: its presence is one")] = ()
    message: Annotated[str, expects("where the message stands, as in error.message")] = ""
    pattern: Annotated[str, expects("a regular expression for a body that is not JSON")] = ""


class Starts(Spec, frozen=True, kw_only=True):
    """Which items of a list are kept: those that start with a text."""

    path: Annotated[Named, expects("where in the item the text stands")]
    starts: Annotated[Any, expects("a text, `{parameter}`, or {param, table}")]


class PartSpec(Spec, frozen=True, kw_only=True):
    """A value that the agent is shown, made of the response."""

    path: Annotated[str, expects("where the value stands, as in documents[0].address")] = ""
    fields: Annotated[
        Mapping[str, PartSpec | str] | None, expects("a map from key to path, `{parameter}` or part")
    ] = None
    each: Annotated[
        Mapping[str, PartSpec | str] | None,
        expects("for a list: a map from key to path in the item, `{parameter}` or part"),
    ] = None
    where: Annotated[Starts | None, expects("a map {path, starts}: which items are kept")] = None
    limit: Annotated[
        Count | Annotated[str, Meta(pattern=r"^\{\w+\}\Z")] | None,
        expects("how many items: a number or `{parameter}`"),
    ] = None
    drop: Annotated[tuple[Named, ...], expects("a list of keys left out, at any depth")] = ()
    join: Annotated[tuple[Named, ...], expects("a list of paths whose texts are joined")] = ()
    between: Annotated[str, expects("the text between joined texts")] = " "
    convert: Annotated[
        Literal["number", "integer", "text", "count"] | None, expects("number, integer, text or count")
    ] = field(default=None, name="as")
    times: Annotated[Number | None, expects("a number by which the value is multiplied")] = None
    value: Annotated[Any, expects("a constant")] = None
    default: Annotated[Any, expects("what stands where the response holds nothing")] = None


class ResultSpec(PartSpec, frozen=True, kw_only=True):
    """What the agent is shown of a response."""

    text: Annotated[
        Literal["xml", "any"] | None, expects("xml or any: which body that is not JSON is shown as it is")
    ] = None
    empty: Annotated[Any, expects("what an empty body means")] = None


class ToolDeclaration(Spec, frozen=True, kw_only=True):
    """One tool: what the agent is told of it, what is sent, and what is shown of the response."""

    name: Annotated[ToolName, expects("1 to 64 letters, digits, _ or -")]
    description: Annotated[Named, expects("a text: what the tool is for")]
    parameters: Annotated[Map, expects("the JSON Schema of an object")] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    request: Annotated[RequestSpec, expects("a map with url (and method, query, headers, body)")]
    result: Annotated[ResultSpec, expects("a map: what is shown of the response")] = ResultSpec()
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()
    matching: Annotated[
        Map, expects("a map from parameter to exact, folded, ignore, contains or {number: TOLERANCE}")
    ] = NOTHING
    secrets: Annotated[tuple[Variable, ...], expects("a list of environment variables")] = ()
    token: Annotated[TokenSpec | None, expects("a map: the request that gives a token")] = None
    checked: Annotated[bool, expects("true or false: arguments are checked before sending")] = True


class ProviderSpec(Spec, frozen=True, kw_only=True):
    """What the tools of one provider have in common."""

    name: Annotated[ToolName, expects("1 to 64 letters, digits, _ or -")]
    base: Annotated[Named, expects("the address that paths are put behind")]
    headers: Annotated[ValueMap, expects("a map from header to value")] = NOTHING
    query: Annotated[ValueMap, expects("a map from query parameter to value")] = NOTHING
    secrets: Annotated[tuple[Variable, ...], expects("a list of environment variables")] = ()
    token: Annotated[TokenSpec | None, expects("a map: the request that gives a token")] = None
    errors: Annotated[tuple[ErrorSpec, ...], expects("a list of what a failure looks like")] = ()


class ToolFile(Spec, frozen=True, kw_only=True):
    """A file of several tools."""

    provider: Annotated[ProviderSpec | None, expects("a map: what the tools share")] = None
    tools: Annotated[tuple[ToolDeclaration, ...], Meta(min_length=1), expects("a list of 1 tool or more")]


_NAME = re.compile(r"\$?\{[^{}\s]+\}")
_ADDRESS = re.compile(r"https?://[^\s/?#{}]+(?:/[^\s?#{}]*)?")
_PATH = re.compile(r"/[^\s?#{}]*")


def is_address(text: str) -> bool:
    """Whether this is the address of a server, perhaps with a path, and no query."""
    plain = _NAME.sub("x", text)
    try:
        return bool(_ADDRESS.fullmatch(plain)) and urlsplit(plain).port != 0
    except ValueError:  # a port that is no port
        return False


def is_path(text: str) -> bool:
    """Whether this can stand behind the address of a server."""
    return bool(_PATH.fullmatch(_NAME.sub("x", text)))

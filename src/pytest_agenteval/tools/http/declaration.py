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

from pydantic import Field

from pytest_agenteval.tasks.field_types import Count, Flag, Map, Named, Number, Positive, Spec, Text

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Variable = Annotated[str, Field(pattern=r"^\w+$")]
ValueMap = Mapping[str, Any]


class Chosen(Spec):
    """An argument written in other words: by a table, or a list in one text."""

    param: Named = Field(description="the name of a parameter")
    table: Map = Field(default_factory=dict, description="a map from argument to what is sent for it")
    join: Text | None = Field(default=None, description="a text that is put between the items of a list")


class RequestSpec(Spec):
    """What is sent for a call."""

    method: Method = Field(default="GET", description="GET, POST, PUT, PATCH, DELETE or HEAD")
    url: Chosen | Named = Field(description="an address, or a path below `base`; or {param, table} of them")
    query: ValueMap = Field(default_factory=dict, description="a map from query parameter to value")
    headers: ValueMap = Field(default_factory=dict, description="a map from header to value")
    body: Any = Field(default=None, description="any JSON value; texts in it may name arguments")
    body_as: Literal["json", "form"] = Field(default="json", description="json or form")


class TokenSpec(Spec):
    """The request that gives the token for all others; what it gave is kept until it expires."""

    url: Named = Field(description="an address, or a path below `base`")
    method: Method = Field(default="POST", description="GET, POST, PUT, PATCH, DELETE or HEAD")
    query: ValueMap = Field(default_factory=dict, description="a map from query parameter to value")
    headers: ValueMap = Field(default_factory=dict, description="a map from header to value")
    body: Any = Field(default=None, description="any JSON value")
    body_as: Literal["json", "form"] = Field(default="json", description="json or form")
    path: Named = Field(default="access_token", description="where the token stands in the response")
    expires: Named = Field(default="expires_in", description="where its seconds stand in the response")
    lasts: Positive = Field(default=3600.0, description="seconds it lasts where the response does not say")


class ErrorSpec(Spec):
    """How a body looks that says that the call failed, whatever its status."""

    path: Text = Field(default="", description="where the value stands that tells, as in error.code")
    ok: tuple[Any, ...] = Field(default=(), description="values that mean success; none: its presence is one")
    message: Text = Field(default="", description="where the message stands, as in error.message")
    pattern: Text = Field(default="", description="a regular expression for a body that is not JSON")


class Starts(Spec):
    """Which items of a list are kept: those that start with a text."""

    path: Named = Field(description="where in the item the text stands")
    starts: Any = Field(description="a text, `{parameter}`, or {param, table}")


class PartSpec(Spec):
    """A value that the agent is shown, made of the response."""

    path: Text = Field(default="", description="where the value stands, as in documents[0].address")
    fields: Mapping[str, PartSpec | Text] | None = Field(
        default=None, description="a map from key to path, `{parameter}` or part"
    )
    each: Mapping[str, PartSpec | Text] | None = Field(
        default=None, description="for a list: a map from key to path in the item, `{parameter}` or part"
    )
    where: Starts | None = Field(default=None, description="a map {path, starts}: which items are kept")
    limit: Count | Annotated[str, Field(pattern=r"^\{\w+\}$")] | None = Field(
        default=None, description="how many items: a number or `{parameter}`"
    )
    drop: tuple[Named, ...] = Field(default=(), description="a list of keys left out, at any depth")
    join: tuple[Named, ...] = Field(default=(), description="a list of paths whose texts are joined")
    between: Text = Field(default=" ", description="the text between joined texts")
    convert: Literal["number", "integer", "text", "count"] | None = Field(
        default=None, alias="as", description="number, integer, text or count"
    )
    times: Number | None = Field(default=None, description="a number by which the value is multiplied")
    value: Any = Field(default=None, description="a constant")
    default: Any = Field(default=None, description="what stands where the response holds nothing")


class ResultSpec(PartSpec):
    """What the agent is shown of a response."""

    text: Literal["xml", "any"] | None = Field(
        default=None, description="xml or any: which body that is not JSON is shown as it is"
    )
    empty: Any = Field(default=None, description="what an empty body means")


class ToolDeclaration(Spec):
    """One tool: what the agent is told of it, what is sent, and what is shown of the response."""

    name: ToolName = Field(description="1 to 64 letters, digits, _ or -")
    description: Named = Field(description="a text: what the tool is for")
    parameters: Map = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="the JSON Schema of an object",
    )
    request: RequestSpec = Field(description="a map with url (and method, query, headers, body)")
    result: ResultSpec = Field(default=ResultSpec(), description="a map: what is shown of the response")
    errors: tuple[ErrorSpec, ...] = Field(default=(), description="a list of what a failure looks like")
    matching: Map = Field(
        default_factory=dict,
        description="a map from parameter to exact, folded, ignore, contains or {number: TOLERANCE}",
    )
    secrets: tuple[Variable, ...] = Field(default=(), description="a list of environment variables")
    token: TokenSpec | None = Field(default=None, description="a map: the request that gives a token")
    checked: Flag = Field(default=True, description="true or false: arguments are checked before sending")


class ProviderSpec(Spec):
    """What the tools of one provider have in common."""

    name: ToolName = Field(description="1 to 64 letters, digits, _ or -")
    base: Named = Field(description="the address that paths are put behind")
    headers: ValueMap = Field(default_factory=dict, description="a map from header to value")
    query: ValueMap = Field(default_factory=dict, description="a map from query parameter to value")
    secrets: tuple[Variable, ...] = Field(default=(), description="a list of environment variables")
    token: TokenSpec | None = Field(default=None, description="a map: the request that gives a token")
    errors: tuple[ErrorSpec, ...] = Field(default=(), description="a list of what a failure looks like")


class ToolFile(Spec):
    """A file of several tools."""

    provider: ProviderSpec | None = Field(default=None, description="a map: what the tools share")
    tools: Annotated[tuple[ToolDeclaration, ...], Field(min_length=1)] = Field(
        description="a list of 1 tool or more"
    )


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

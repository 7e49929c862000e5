"""What authors write who take tools out of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from pytest_agenteval.tasks.field_types import Map, Named, Spec
from pytest_agenteval.tools.http.declaration import ErrorSpec, ResultSpec, Tag, Variable


class OperationSpec(Spec):
    """One operation that becomes a tool, and what the tool has of its own."""

    id: Named = Field(description="an operationId, or as `GET /path`")
    name: Tag | None = Field(default=None, description="1 to 64 letters, digits, _ or -: the tool's name")
    description: Named | None = Field(default=None, description="a text: what the tool is for")
    result: ResultSpec | None = Field(default=None, description="a map: what is shown of the response")
    errors: tuple[ErrorSpec, ...] = Field(default=(), description="a list of what a failure looks like")
    matching: Map = Field(
        default_factory=dict,
        description="a map from parameter to exact, folded, ignore, contains or {number: TOLERANCE}",
    )


class OpenApiFile(Spec):
    """A document, and which of its operations are tools.

    ``security`` names for each security scheme of the document the environment variable that holds its key
    or token.
    """

    openapi: Named | Map = Field(description="the path of an OpenAPI document, or the document")
    operations: Annotated[tuple[OperationSpec | Named, ...], Field(min_length=1)] = Field(
        description="a list of operationIds, or of maps with `id`"
    )
    name: Tag | None = Field(default=None, description="1 to 64 letters, digits, _ or -: the provider")
    base: Named | None = Field(default=None, description="the address that paths are put behind")
    security: Mapping[str, Variable] = Field(
        default_factory=dict, description="a map from security scheme to environment variable"
    )
    errors: tuple[ErrorSpec, ...] = Field(default=(), description="a list of what a failure looks like")

"""Operations of an OpenAPI document as tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tools.http_recordings import arguments_in
from pytest_agenteval.tools.tool import Tool, invalid_arguments
from pytest_agenteval.tools.toolsets import load_tools

DOCUMENT = """\
openapi: 3.0.3
info: {title: Library, version: "1"}
servers:
  - url: https://{region}.books.example/v2
    variables: {region: {default: kr}}
security: [{key: []}]
paths:
  /shelves/{shelf-id}/books:
    parameters:
      - {$ref: "#/components/parameters/Shelf"}
    get:
      operationId: listBooks
      summary: List the books of a shelf.
      parameters:
        - {name: tags, in: query, schema: {type: array, items: {type: string}}}
        - {name: ids, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Accept, in: header, schema: {type: string}}
    post:
      operationId: addBook
      description: Add a book.
      security: [{bearer: []}]
      parameters:
        - {name: title, in: query, schema: {type: string, nullable: true}}
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: "#/components/schemas/Book"}
  /notes:
    put:
      security: []
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {text: {type: string}}}
  /odd:
    get: {operationId: byCookie, parameters: [{name: c, in: cookie, required: true, schema: {type: string}}]}
    post:
      operationId: addMany
      security: [{other: []}]
      requestBody: {content: {application/json: {schema: {type: array, items: {type: integer}}}}}
components:
  parameters:
    Shelf: {name: shelf-id, in: path, required: true, schema: {type: integer}, description: which shelf}
  securitySchemes:
    key: {type: apiKey, in: query, name: api_key}
    bearer: {type: http, scheme: bearer}
    other: {type: http, scheme: digest}
  schemas:
    Named: {type: object, required: [title], properties: {title: {type: string}}}
    Book:
      allOf:
        - {$ref: "#/components/schemas/Named"}
        - properties:
            pages: {type: integer, minimum: 0, exclusiveMinimum: true}
            sequel: {$ref: "#/components/schemas/Node"}
    Node: {type: object, properties: {title: {type: string}, next: {$ref: "#/components/schemas/Node"}}}
"""
OURS = """\
openapi: library.yaml
operations:
  - listBooks
  - {id: addBook, name: add, matching: {body_title: folded}}
  - {id: PUT /notes, errors: [{path: error}]}
security: {key: LIBRARY_API_KEY, bearer: LIBRARY_TOKEN}
"""


def tools_in(folder: Path, ours: str = OURS, document: str = DOCUMENT) -> dict[str, Tool]:
    """Load both files."""
    (folder / "library.yaml").write_text(document, encoding="utf-8")
    (folder / "tools.yaml").write_text(ours, encoding="utf-8")
    return load_tools("tools.yaml", folder)


def written_call(tool: Tool, **args: Any) -> Any:
    """Write a call of a tool; its arguments are read back on the way."""
    assert tool.wire is not None
    request = tool.wire.request(args)
    assert arguments_in(tool.wire, request) == args
    return request


def test_path_query_and_header_are_parameters(tmp_path: Path) -> None:
    """They keep their schemas, their names where a model can say them, and what the path shares."""
    tool = tools_in(tmp_path)["listBooks"]
    Draft202012Validator.check_schema(dict(tool.spec.parameters))
    assert tool.spec.description == "List the books of a shelf."
    assert list(tool.spec.parameters["properties"]) == ["shelf_id", "tags", "ids", "X_Trace"]
    assert tool.spec.parameters["required"] == ["shelf_id"]
    assert tool.spec.parameters["properties"]["shelf_id"] == {"type": "integer", "description": "which shelf"}
    request = written_call(tool, shelf_id=7, tags=["가", "b"], ids=[1, 2], X_Trace="t")
    assert request.uri == (
        "https://kr.books.example/v2/shelves/7/books?api_key=<redacted>&tags=%EA%B0%80&tags=b&ids=1,2"
    )
    assert dict(request.headers) == {"X-Trace": ("t",)}


def test_properties_of_a_body_are_parameters(tmp_path: Path) -> None:
    """``allOf`` is one object; a taken name has its place before it; schemas may refer to themselves."""
    tool = tools_in(tmp_path)["add"]
    shape = tool.spec.parameters
    Draft202012Validator.check_schema(dict(shape))
    assert list(shape["properties"]) == ["shelf_id", "title", "body_title", "pages", "sequel"]
    assert shape["required"] == ["shelf_id", "body_title"]
    assert shape["properties"]["title"]["type"] == ["string", "null"]
    assert shape["properties"]["pages"] == {"type": "integer", "exclusiveMinimum": 0}
    node = {"title": "b", "next": {"title": "c"}}
    assert Draft202012Validator(shape).is_valid({"shelf_id": 1, "body_title": "a", "sequel": node})
    assert not Draft202012Validator(shape).is_valid({"shelf_id": 1, "body_title": "a", "sequel": {"next": 1}})
    request = written_call(tool, shelf_id=1, title="q", body_title="a", sequel=node)
    assert json.loads(request.body) == {"title": "a", "sequel": node}
    assert request.headers["Authorization"] == ("Bearer <redacted>",)
    assert dict(tool.matching) == {"body_title": "folded"}


def test_an_operation_without_id_is_named_by_method_and_path(tmp_path: Path) -> None:
    """A form is written as one; no security means no key."""
    tool = tools_in(tmp_path)["PUT_notes"]
    request = written_call(tool, text="가 나")
    assert (request.uri, request.body) == ("https://kr.books.example/v2/notes", "text=%EA%B0%80%20%EB%82%98")


def test_a_document_may_stand_in_our_file(tmp_path: Path) -> None:
    """Inline or JSON, it is the same; a base takes the place of its server."""
    ours = {**yaml.safe_load(OURS), "openapi": yaml.safe_load(DOCUMENT), "base": "https://proxy.example"}
    (tmp_path / "tools.json").write_text(json.dumps(ours), encoding="utf-8")
    tool = load_tools("tools.json", tmp_path)["PUT_notes"]
    assert written_call(tool).uri == "https://proxy.example/notes"


def test_a_changed_document_is_read_anew(tmp_path: Path) -> None:
    """Tools are those of both files as they are now."""
    assert "summary" not in tools_in(tmp_path)["listBooks"].spec.description
    (tmp_path / "library.yaml").unlink()
    changed = DOCUMENT.replace("List the books of a shelf.", "Another summary.")
    assert tools_in(tmp_path, document=changed)["listBooks"].spec.description == "Another summary."


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "- listBooks",
            "- listBoks",
            ("tools.yaml", 3, "unknown operation 'listBoks'", "did you mean 'listBooks'?"),
        ),
        (
            "id: addBook,",
            "id: addBok,",
            ("tools.yaml", 4, "unknown operation 'addBok'", "did you mean 'addBook'?"),
        ),
        (
            "body_title:",
            "bodytitle:",
            ("tools.yaml", 4, "unknown name 'bodytitle'", "did you mean 'body_title'?"),
        ),
        ("library.yaml", "libary.yaml", ("tools.yaml", 1, "'libary.yaml', which is not there", "")),
        ("key: LIBRARY_API_KEY, ", "", ("library.yaml", 6, "variables for bearer", "")),
        (
            "operations:",
            "operatons:",
            ("tools.yaml", 2, "unknown key 'operatons'", "did you mean 'operations'?"),
        ),
        ("- listBooks", "- byCookie", ("library.yaml", 38, "a required parameter in 'cookie'", "")),
        ("bearer: LIB", "other: LIB", ("library.yaml", 22, "variables for key, other", "")),
        ("name: add", "name: listBooks", ("tools.yaml", 4, "'listBooks' again", "")),
        ("operations:", "base: a.b\noperations:", ("tools.yaml", 2, "'a.b' (text)", "")),
        ("key: LIBRARY_API_KEY", "key: A KEY", ("tools.yaml", 6, "'A KEY' (text)", "")),
        ("name: add", "errors: [{}], name: add", ("tools.yaml", 4, "neither", "")),
    ],
)
def test_a_mistake_in_our_file_is_told_with_its_place(
    old: str, new: str, told: tuple[Any, ...], tmp_path: Path
) -> None:
    """Unknown operations have the nearest one as a hint; what the document lacks is told there."""
    with pytest.raises(ProblemsFound) as raised:
        tools_in(tmp_path, OURS.replace(old, new))
    first = raised.value.problems[0]
    assert (Path(first.file).name, first.line, first.found, first.hint) == told


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("openapi: 3.0.3", 'swagger: "2.0"', "'2.0' (text)"),
        ('parameters/Shelf"', 'parameters/Shelv"', "'#/components/parameters/Shelv'"),
        (
            '{$ref: "#/components/parameters/Shelf"}',
            '{$ref: "other.yaml#/Shelf"}',
            "'other.yaml#/Shelf' (text)",
        ),
        ("https://{region}.books.example/v2", "/v2", "'/v2'"),
        ("{region: {default: kr}}", "{}", "'https://{region}.books.example/v2'"),
        ("Shelf: {name: shelf-id,", 'Shelf: {$ref: "#/components/parameters/Shelf",', "a ring of references"),
    ],
)
def test_a_mistake_in_the_document_is_told_with_its_place(
    old: str, new: str, found: str, tmp_path: Path
) -> None:
    """The document's own file and line are named."""
    with pytest.raises(ProblemsFound) as raised:
        tools_in(tmp_path, document=DOCUMENT.replace(old, new, 1))
    first = raised.value.problems[0]
    assert (Path(first.file).name, first.found) == ("library.yaml", found)
    assert first.line


def test_a_body_that_is_no_object_is_one_parameter(tmp_path: Path) -> None:
    """It is called ``body``; a scheme that we cannot speak is told of."""
    ours = "openapi: library.yaml\noperations: [addMany]\nsecurity: {other: A_KEY}\n"
    with pytest.raises(ProblemsFound, match="http digest"):
        tools_in(tmp_path, ours)
    document = DOCUMENT.replace("scheme: digest", "scheme: bearer")
    (tmp_path / "again").mkdir()
    tool = tools_in(tmp_path / "again", ours, document)["addMany"]
    assert json.loads(written_call(tool, body=[1, 2]).body) == [1, 2]


ODD = """\
openapi: 3.0.3
servers: [{url: "https://a.b"}]
paths:
  /one/{id}:
    get:
      operationId: 하나
      parameters:
        - {name: id, in: path, required: true, schema: {type: array, items: {type: string}}}
  /two:
    get:
      operationId: two
      parameters:
        - {name: X-Ids, in: header, schema: {type: array, items: {type: integer}}}
        - {name: where, in: query, style: deepObject, schema: {type: object}}
        - {name: filter, in: query, content: {application/json: {schema: {type: object}}}}
    post: {operationId: two}
  /three:
    post:
      operationId: three
      requestBody:
        content:
          application/json:
            schema:
              required: [id, of]
              properties:
                id: {type: integer, readOnly: true}
                of: {type: object, properties: {n: {$ref: "#/components/schemas/A%20b"}}}
components: {schemas: {A b: {type: integer}}}
"""


def test_what_a_request_cannot_hold_is_left_out(tmp_path: Path) -> None:
    """An optional object in a query, and what only responses have; a list in a header has commas."""
    ours = "openapi: library.yaml\noperations: [{id: GET /two, name: two}, three]\n"
    tools = tools_in(tmp_path, ours, ODD)
    assert list(tools["two"].spec.parameters["properties"]) == ["filter", "X_Ids"]
    request = written_call(tools["two"], X_Ids=[1, 2], filter={"a": 1})
    assert request.headers["X-Ids"] == ("1,2",)
    assert request.uri == "https://a.b/two?filter=%7B%22a%22:1%7D"
    assert tools["three"].spec.parameters["required"] == ["of"]
    assert not invalid_arguments(tools["three"].spec, {"of": {"n": 1}})
    assert invalid_arguments(tools["three"].spec, {"of": {"n": "x"}})


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        ("[two]", "'two' of two"),
        ("[하나]", "only '하나'"),
        ("[{id: 하나, name: one}]", "'array' (text)"),
    ],
)
def test_an_operation_that_makes_no_tool_is_a_problem(operations: str, found: str, tmp_path: Path) -> None:
    """Its id is another's too, or makes no name, or its path wants what no path can hold."""
    with pytest.raises(ProblemsFound) as raised:
        tools_in(tmp_path, f"openapi: library.yaml\noperations: {operations}\n", ODD)
    assert raised.value.problems[0].found == found

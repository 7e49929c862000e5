"""A verb's document as the text of a JSON file, and the JSON Schema of its class."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_agenteval.records.record import Document
from pytest_agenteval.store.run_schemas import Schema, published
from pytest_agenteval.text.json_values import jsonable
from pytest_agenteval.text.redaction import KNOWN_SECRETS

_ACTING = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON need not escape, though it acts on a terminal."""


def document_text(document: Document | Mapping[str, Any]) -> str:
    """Give a document as JSON, without secrets and without what a terminal would act on."""
    text = clean_json(jsonable(document), 2)
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def clean_json(form: Any, indent: int | None = None) -> str:
    """Write values of JSON without secrets, on one line where no ``indent`` is given."""
    text = json.dumps(form, ensure_ascii=False, indent=indent)
    # Few texts hold a secret, and to look into every value takes five times as long.
    if KNOWN_SECRETS.dirty(text):
        text = json.dumps(KNOWN_SECRETS.value(form), ensure_ascii=False, indent=indent)
    return text


def document_schema(verb: str, kind: type[Document]) -> Schema:
    """Give the JSON Schema of what a verb writes with ``--json``; every key is required: all are written."""
    definitions = type_definitions(kind)
    whole = definitions.pop(kind.__name__)
    (version,) = whole["properties"]["v"].pop("enum")
    whole["properties"]["v"]["const"] = version
    head = {"$id": f"urn:pytest-agenteval:{verb}:{version}"}
    return published(f"agenteval {verb} --json", {**head, **whole, "$defs": definitions})


def type_definitions(kind: type[msgspec.Struct]) -> dict[str, Schema]:
    """Give the JSON Schema of a type as we write it and of all types in it, by their names."""
    definitions: dict[str, Schema] = msgspec.json.schema(kind)["$defs"]
    for definition in definitions.values():
        # msgspec's title only repeats the name.
        definition.pop("title", None)
        definition["description"] = " ".join(definition.get("description", "").split())
        for shape in (properties := definition.get("properties", {})).values():
            shape.pop("default", None)
        if properties:
            definition |= {"required": [*properties], "additionalProperties": False}
    return definitions

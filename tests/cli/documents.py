"""Documents that verbs write with ``--json``, held against the schema that is published of them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from pytest_agenteval.cli.schema import schema_named

FORMS = {"compare": 2}
"""Forms of documents that changed since the first."""


def valid_document(verb: str, text: str) -> Any:
    """Read a document, and have the verb's schema take it, and nothing with a key more."""
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    schema: Any = json.loads(json.dumps(schema_named(verb)))
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(document)
    assert not validator.is_valid({**document, "foreign": 1})
    form = FORMS.get(verb, 1)
    assert (document["v"], schema["$id"]) == (form, f"urn:pytest-agenteval:{verb}:{form}")
    return document

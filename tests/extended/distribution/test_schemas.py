"""Every published schema, held against its meta-schema: half a second each."""

from __future__ import annotations

import json

import jsonschema
import pytest

from pytest_agenteval.cli.schema import SCHEMA_NAMES, schema_named


@pytest.mark.parametrize("what", SCHEMA_NAMES)
def test_each_schema_is_one_that_validators_take(what: str) -> None:
    """Plain JSON, of the draft that it names."""
    schema = json.loads(json.dumps(schema_named(what)))

    jsonschema.validators.validator_for(schema, default=None).check_schema(schema)

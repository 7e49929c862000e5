"""Graders of the agent's answer: words, patterns, JSON values and JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_agenteval.graders.grader_settings import WrongSetting, brief, cut, patterns
from pytest_agenteval.graders.matchers import check_values, values
from pytest_agenteval.graders.text_reading import ParsedText, checks_to_score, parse_answer, pattern_checks
from pytest_agenteval.records.evidence import Check, Evidence, Grade
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import canonical_json, format_path, normal_text, normal_texts
from pytest_agenteval.text.patterns import with_bounded_patterns

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


MAX_PROBLEMS = 5
# Keywords of JSON Schema that hold values, not schemas.
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples"})


def check_schema(name: str, schema: Mapping[str, Any]) -> None:
    """Raise WrongSetting for what is no JSON Schema, and for a reference that leads out of the schema."""
    # Imported here, because loading jsonschema is slow, and most graders check no schema.
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, Mapping) or not schema:
        raise WrongSetting((name,), "a JSON Schema: a map with at least one key", brief(schema))
    # A setting may be a read-only map, and jsonschema takes only dicts and lists for objects and arrays.
    plain = json.loads(canonical_json(schema))
    try:
        validator_for(plain, default=Draft202012Validator).check_schema(plain)
    except SchemaError as error:
        path = (name, *error.absolute_path)
        raise WrongSetting(path, "a JSON Schema", cut(error.message)) from None
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(plain))
    for place, target in _references(plain, (name,)):
        if not target.startswith("#"):
            raise WrongSetting(place, "a place in the schema itself, as in #/$defs/item", brief(target))
        try:
            resolver.lookup(target)
        except Unresolvable:
            raise WrongSetting(place, "a place that is in the schema", brief(target)) from None


def schema_problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Describe what is wrong with a value in jsonschema's words: the first errors, each with its place."""
    problems = []
    validator = _validator(canonical_json(normal_texts(schema)))
    for error in islice(validator.iter_errors(normal_texts(value)), MAX_PROBLEMS):
        place = format_path(error.absolute_path)
        problems.append(f"{place}: {cut(error.message)}" if place else cut(error.message))
    return problems


# Cached, because compiling a schema costs a hundred times more than checking a value against it.
@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    schema = json.loads(text)
    kind = with_bounded_patterns(validators.validator_for(schema, default=Draft202012Validator))
    # An empty registry of our own: the default one fetches schemas that it does not know from the network.
    return kind(schema, registry=Registry())


def _references(value: Any, place: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(inner, str):
                yield (*place, key), inner
            # A "$ref" inside of an enum or a default is a value to compare with, not a reference.
            elif key not in _VALUE_KEYWORDS:
                yield from _references(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _references(inner, (*place, number))


@dataclass(frozen=True, slots=True)
class AnswerContains:
    """Does the final answer contain this text? An empty answer contains nothing."""

    text: str
    ignore_case: bool = False
    version: ClassVar[str] = "2"
    quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("an empty text is contained in every answer")

    def grade(self, evidence: Evidence) -> Grade:
        answer, text = normal_text(evidence.answer), normal_text(self.text)
        if self.ignore_case:
            answer, text = answer.casefold(), text.casefold()
        beginning = cut(evidence.answer)
        check = Check(f"answer contains {self.text!r}", text in answer, repr(self.text), repr(beginning))
        return Grade.from_checks("answer_contains", [check])


@dataclass(frozen=True, slots=True)
class AnswerMatches:
    """Is each of these regular expressions found in the final answer? The score is the share that is.

    A pattern is searched for anywhere; ``^`` and ``$`` are the ends of each line, which is a newline in
    any answer unless the pattern names ``\\r``. With ``any``, one pattern is enough for 1. A blank answer
    scores 0, whatever the patterns: the task wants an answer.
    """

    patterns: Sequence[str]
    any: bool = False

    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", patterns("patterns", self.patterns))

    def grade(self, evidence: Evidence) -> Grade:
        problem = "" if evidence.answer.strip() else "no answer"
        checks = pattern_checks("the answer", self.patterns, evidence.answer, problem)
        return Grade.from_checks("answer_matches", checks_to_score(checks, any_will_do=self.any))


@dataclass(frozen=True, slots=True)
class AnswerJson:
    """Is the final answer JSON that keeps to a schema and holds these values? The score is the share that is.

    The whole answer is one JSON value, or one code fence that holds one. ``schema`` is a JSON Schema and
    counts as one question; ``values`` maps paths into the answer (``items[0].id``) to matchers, each of them
    one more; see ``graders/matchers.py``. An empty answer, and one that is no JSON, scores 0.
    """

    schema: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None

    version: ClassVar[str] = "3"

    def __post_init__(self) -> None:
        if self.schema is None and self.values is None:
            raise WrongSetting(("schema",), "a schema, or values", "neither")
        if self.schema is not None:
            check_schema("schema", self.schema)
        if self.values is not None:
            values("values", self.values)

    def grade(self, evidence: Evidence) -> Grade:
        return Grade.from_checks("answer_json", self._checks(parse_answer(evidence.answer), evidence.answer))

    def _checks(self, parsed: ParsedText, answer: str) -> Iterator[Check]:
        # The answer stands behind the message: its text says sooner
        # what is wrong than the place at which the parser stopped.
        problem = parsed.problem
        if problem and answer.strip():
            problem = f"{problem}: {brief(answer)}"
        if self.schema is not None:
            wrong = problem or "; ".join(schema_problems(self.schema, parsed.readings[0]))
            found = wrong or "JSON that does"
            yield Check("the answer keeps to the schema", not wrong, "JSON that does", found)
        if self.values is not None:
            yield from check_values("answer", values("values", self.values), parsed.readings, problem)

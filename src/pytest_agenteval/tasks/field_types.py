"""The kinds of value that task and suite files are made of, each with its rule in words.

A description here, or at a field, is the *expected* line of an error and the text of the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pytest_agenteval.canonical import compact

# Memex's spelling of a key, and ours; both are read.
SPELLINGS: Mapping[str, str] = {
    "agent_name": "agent",
    "requireReferenceSolution": "require_reference_solution",
    "sampleTranscript": "sample_transcript",
    "taskPassThreshold": "task_pass_threshold",
}

_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?")


class Spec(BaseModel):
    """Base of everything an author writes: unknown keys are mistakes, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Give the JSON Schema, defaults and all."""
        for spec in _specs(Spec):
            # A default that is a spec is written too: pydantic 2.12.0 cannot where its class is not built.
            spec.model_rebuild()
        return super().model_json_schema(*args, **options)


def _specs(base: type[Spec]) -> Iterator[type[Spec]]:
    """Give every model that is made from one."""
    for spec in base.__subclasses__():
        yield spec
        yield from _specs(spec)


def _both_spellings(shape: dict[str, Any]) -> None:
    properties = shape["properties"]
    properties.update({theirs: properties[ours] for theirs, ours in SPELLINGS.items() if ours in properties})


class TwoSpellings(Spec):
    """A spec some of whose keys may also be spelled as Memex does."""

    model_config = ConfigDict(json_schema_extra=_both_spellings)

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, value: Any) -> Any:
        """Rename Memex's keys to ours; where both stand and differ, both stay, and one is unknown."""
        if not isinstance(value, dict) or SPELLINGS.keys().isdisjoint(value):
            return value
        renamed = dict(value)
        for theirs, ours in SPELLINGS.items():
            if theirs in value and ours in cls.model_fields:
                same = value.get(ours, value[theirs]) == value[theirs]
                renamed.update({ours: renamed.pop(theirs)} if same else {})
        return renamed


def _as_texts(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: inner if isinstance(inner, str) else compact(inner) for key, inner in value.items()}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _clock(text: str) -> str:
    if _CLOCK.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    raise PydanticCustomError("clock", "not a date-time")


def _arguments(value: Any) -> Any:
    if isinstance(value, dict | str):
        return value
    raise PydanticCustomError("arguments", "neither a map nor a text")


Text = Annotated[str, Strict()]
Named = Annotated[str, Strict(), Field(pattern=r"\S", description="a text that is not blank")]
Tag = Annotated[str, Strict(), Field(pattern=r"^\S+$", description="a text without spaces")]
Count = Annotated[int, Strict(), Field(ge=1)]
Tokens = Annotated[int, Strict(), Field(ge=0)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(ge=0, le=1)]
Flag = Annotated[bool, Strict()]
Map = Mapping[str, Any]
Texts = Annotated[Mapping[str, Text], BeforeValidator(_as_texts), WithJsonSchema({"type": "object"})]
Paths = Mapping[str, Annotated[str, Strict(), Field(pattern=r"\S", description="the path of a prompt file")]]
_A_MODEL = {"type": "string", "pattern": r"\S", "description": "the name of a model"}
Models = Annotated[
    tuple[Named, ...],
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _A_MODEL}, _A_MODEL]}),
]
ClockText = Annotated[str, Strict(), AfterValidator(_clock)]
Arguments = Annotated[Any, BeforeValidator(_arguments), WithJsonSchema({"type": ["object", "string"]})]

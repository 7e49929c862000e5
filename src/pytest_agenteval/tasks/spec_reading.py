"""From a value to the spec that it writes, or to every problem that its author has to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.errors import KeyPath, ProblemsFound

if TYPE_CHECKING:
    from pytest_agenteval.tasks.documents import Document
    from pytest_agenteval.tasks.field_types import Spec

SpecT = TypeVar("SpecT", bound="Spec")


def spec_of(kind: type[SpecT], value: Any) -> SpecT:
    """Make a spec of a value as JSON has it; raises pydantic's ValidationError with all that is wrong.

    What msgspec takes is right; what it refuses pydantic looks at, which tells every problem at once and
    knows other spellings. It costs a first run 100 ms, which a run without mistakes has no use for.
    """
    try:
        return from_builtins(kind, value)
    except (
        msgspec.ValidationError,
        OverflowError,
    ):  # before 0.22 a number that no float can hold raises this
        from pytest_agenteval.tasks.pydantic_models import parse_spec

        return parse_spec(kind, value)


def read_spec(kind: type[SpecT], document: Document, place: KeyPath = ()) -> SpecT:
    """Make a spec of a document, or of what stands at a place in it, or raise every problem there."""
    value: Any = document.value
    for step in place:
        value = value[step]
    try:
        return spec_of(kind, value)
    except ValueError as error:
        raise problems_of(kind, error, document, place) from None


def problems_of(
    kind: type[Spec], error: ValueError, document: Document, place: KeyPath = (), file: str = ""
) -> ProblemsFound:
    """Say what ``spec_of`` refused where it stands in a document, which ``file`` names for people."""
    from pydantic import ValidationError

    from pytest_agenteval.tasks.pydantic_models import schema_of
    from pytest_agenteval.tasks.validation_errors import explain

    assert isinstance(error, ValidationError), error
    name = file or short_path(document.path)
    return ProblemsFound(explain(error, document, name, place, schema_of(kind)))

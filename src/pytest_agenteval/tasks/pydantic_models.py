"""A pydantic model for each spec, made of the same fields: it lists every problem and writes the JSON Schema.

This module is imported only where a value was refused or a schema is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, ForwardRef, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, create_model, model_validator
from pydantic_core import PydanticCustomError

from pytest_agenteval.tasks.task_spec import LARGEST, SPELLINGS, Holds, Spec, TwoSpellings

SpecT = TypeVar("SpecT", bound=Spec)
# Nothing is converted in silence: a text is no number, 2.0 is no count, true is no weight.
_STRICT: Mapping[Any, Any] = {
    str: Annotated[str, Strict()],
    int: Annotated[int, Strict()],
    float: Annotated[float, Strict(), Field(allow_inf_nan=False)],
    bool: Annotated[bool, Strict()],
}
_BOUNDS = ("ge", "gt", "le", "lt", "min_length", "max_length", "description")
_ANNOTATED: Any = Annotated


def parse_spec(kind: type[SpecT], value: Any) -> SpecT:
    """Make a spec of a value; raises pydantic's ValidationError with all that is wrong with it."""
    spec = _spec(model_of(kind).model_validate(value))
    assert isinstance(spec, kind)
    return spec


@cache
def schema_of(kind: type[Spec]) -> dict[str, Any]:
    return model_of(kind).model_json_schema()


@cache
def model_of(kind: type[Spec]) -> type[BaseModel]:
    """Give the model that reads and refuses what this kind of spec does."""
    fields: dict[str, Any] = {
        field.name: (_hint(field.type, kind), _default(field)) for field in msgspec.structs.fields(kind)
    }
    base = _TwoSpellingsModel if issubclass(kind, TwoSpellings) else _SpecModel
    model = create_model(kind.__name__, __base__=base, __doc__=kind.__doc__, **fields)
    model.spec = kind
    return model


def _both_spellings(shape: dict[str, Any]) -> None:
    properties = shape["properties"]
    properties.update({theirs: properties[ours] for theirs, ours in SPELLINGS.items() if ours in properties})


class _SpecModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    spec: ClassVar[type[Spec]]


class _TwoSpellingsModel(_SpecModel):
    model_config = ConfigDict(json_schema_extra=_both_spellings)

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, value: Any) -> Any:
        """Rename keys that are in their other spelling.

        Where both spellings are there and differ, both stay: then one of them is reported as an unknown key.
        """
        if not isinstance(value, dict) or SPELLINGS.keys().isdisjoint(value):
            return value
        renamed = dict(value)
        for theirs, ours in SPELLINGS.items():
            if theirs in value and ours in cls.model_fields:
                same = value.get(ours, value[theirs]) == value[theirs]
                renamed.update({ours: renamed.pop(theirs)} if same else {})
        return renamed


def _spec(value: Any) -> Any:
    if isinstance(value, _SpecModel):
        return value.spec(**{name: _spec(getattr(value, name)) for name in type(value).model_fields})
    if isinstance(value, tuple):
        return tuple(map(_spec, value))
    return {key: _spec(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    # ``as``, for one, is a keyword of Python: the field of that key has another name.
    alias = None if field.encode_name == field.name else field.encode_name
    # A default that is an empty map is the shared NOTHING: made by a factory, it is not shown in the schema.
    factory = dict if field.default == {} else field.default_factory
    if factory is not msgspec.NODEFAULT:
        return Field(default_factory=factory, alias=alias)
    if field.default is msgspec.NODEFAULT:
        return Field(alias=alias)
    default = field.default
    # A schema shows this default as an author would write it, for which pydantic needs a model of its own.
    if isinstance(default, Spec):
        default = model_of(type(default))()
    return Field(default=default, alias=alias)


def _hint(hint: Any, owner: type[Spec]) -> Any:
    """Translate a type with msgspec's rules into one with pydantic's."""
    if hint is owner:
        # The model of a spec that holds others of its kind is not there yet.
        return ForwardRef(owner.__name__)
    if isinstance(hint, type) and issubclass(hint, Spec):
        return model_of(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _ANNOTATED[(_hint(args[0], owner), *(rule for meta in args[1:] for rule in _rules(meta)))]
    if origin in (Union, UnionType):
        return Union[tuple(_hint(arg, owner) for arg in args)]  # noqa: UP007  # of as many as there are
    if origin in (tuple, Mapping):
        return origin[tuple(_hint(arg, owner) for arg in args)]
    return _STRICT.get(hint, hint) if isinstance(hint, type) else hint


def _rules(meta: Any) -> Iterator[Any]:
    if isinstance(meta, Holds):
        yield from [Field(pattern=meta.pattern)] if meta.pattern else []
        yield AfterValidator(_checked(meta))
        return
    bounds = {name: getattr(meta, name) for name in _BOUNDS}
    # Bounds that only exclude infinity are left out of the schema.
    rules = {name: bound for name, bound in bounds.items() if bound not in (None, LARGEST, -LARGEST)}
    # In Rust and in JSON Schema, $ is the end of the text and nothing else.
    pattern = meta.pattern and meta.pattern.replace(r"\Z", "$")
    yield Field(pattern=pattern, **rules)


def _checked(holds: Holds) -> Any:
    def check(value: Any) -> Any:
        if holds.rule(value):
            return value
        # Nobody reads this text: a problem shows the description of the field instead.
        raise PydanticCustomError("rule", "another value is expected")

    return check

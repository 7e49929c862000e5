"""The JSON Schemas of what authors write, made of the same types that read it."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_agenteval.tasks.task_spec import LARGEST, SPELLINGS, Spec, TwoSpellings


def spec_definitions(kind: type[Spec]) -> dict[str, Any]:
    """Give the schema of a kind of spec and of each that it holds, by their names."""
    _, definitions = msgspec.json.schema_components([kind])
    kinds = {each.__name__: each for each in _all_specs(Spec)}
    for name, definition in definitions.items():
        _finish(definition)
        if issubclass(kinds[name], TwoSpellings):
            properties = definition["properties"]
            both = {theirs: properties[ours] for theirs, ours in SPELLINGS.items() if ours in properties}
            properties.update(both)
    return dict(sorted(definitions.items()))


def _all_specs(kind: type[Spec]) -> list[type[Spec]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all_specs(below))]


def _finish(shape: Any) -> None:
    """Write patterns as JSON Schema does, and leave out what says nothing."""
    if isinstance(shape, list):
        for each in shape:
            _finish(each)
        return
    if not isinstance(shape, dict):
        return
    if isinstance(shape.get("pattern"), str):
        # There, $ is the end of the text and nothing else.
        shape["pattern"] = shape["pattern"].replace(r"\Z", "$")
    # Bounds that only exclude infinity.
    for name, bound in (("maximum", LARGEST), ("minimum", -LARGEST)):
        if shape.get(name) == bound:
            del shape[name]
    if shape.get("default") == {}:
        del shape["default"]
    for part in shape.values():
        _finish(part)

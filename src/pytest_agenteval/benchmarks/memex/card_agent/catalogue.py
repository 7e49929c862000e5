"""The catalogue of card templates, read from ``templates.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_SAID = {
    "filled": "text",
    "given": "text or number",
    "texts": "list of texts",
    "flag": "true or false",
    "map": "object",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a template; ``parts`` are the fields of each member where it holds a list of objects."""

    name: str
    required: bool
    kind: str = ""
    note: str = ""
    parts: tuple[Field, ...] = ()

    def __str__(self) -> str:
        star = "*" if self.required else ""
        if self.parts:
            return f"{self.name}{star} (list of {{{', '.join(map(str, self.parts))}}})"
        said = [_SAID.get(self.kind, self.kind), self.note]
        return f"{self.name}{star} ({', '.join(part for part in said if part)})"


@dataclass(frozen=True, slots=True)
class Template:
    """One shape a card can have; of the fields in ``either`` one is enough."""

    id: str
    use: str
    fields: tuple[Field, ...]
    either: tuple[str, ...] = ()

    @property
    def choice(self) -> str:
        """What to say of fields of which one is enough."""
        return f"; one of {', '.join(self.either)} must be there" if self.either else ""


@cache
def catalogue() -> Mapping[str, Template]:
    """Give every template by its id, in the order of the file."""
    text = files(__package__).joinpath("templates.yaml").read_text(encoding="utf-8")
    return {id: _template(id, written) for id, written in yaml.safe_load(text).items()}


def _template(id: str, written: Mapping[str, Any]) -> Template:
    return Template(id, written["use"], _fields(written), tuple(written.get("either", ())))


def _fields(written: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(
        _field(name, share == "required", said)
        for share in ("required", "optional")
        for name, said in written.get(share, {}).items()
    )


def _field(name: str, required: bool, said: str | Mapping[str, Any]) -> Field:
    if isinstance(said, Mapping):
        return Field(name, required, parts=_fields(said))
    kind, _, note = said.partition(",")
    return Field(name, required, kind, note.strip())

"""Values of a request that name arguments and secrets, written for each call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import ABSENT, compact_json

Args: TypeAlias = Mapping[str, Any]
SecretLookup: TypeAlias = Callable[[str], str]

_NAMED = re.compile(r"\$\{(?P<secret>\w+)\}|\{(?P<name>\w+)(?:=(?P<default>[^{}]*))?\}")


class TemplateValue:
    """A value to send; this class is a constant."""

    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def __init__(self, constant: Any = None) -> None:
        self.constant = constant

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        """Give the value for a call, or ABSENT."""
        return self.constant

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        """Give the arguments that the value needs, without those that are ``sure`` to be there."""
        return ()


class ArgumentValue(TemplateValue):
    """One argument, in its own type."""

    def __init__(self, name: str, default: str | None) -> None:
        self.names = (name,)
        self._name, self._default = name, ABSENT if default is None else default

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        return args.get(self._name, self._default)

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        return () if self._name in sure or self._default is not ABSENT else (self._name,)


class TemplatePiece(FrozenValue, frozen=True):
    """A part of a text: plain, a secret or an argument."""

    text: str = ""
    secret: str = ""
    name: str = ""
    default: str | None = None


class TextTemplate(TemplateValue):
    """A text with arguments and secrets in it; absent if one of its arguments is."""

    def __init__(self, text: str, escape: Callable[[str], str] = str) -> None:
        self.pieces, self._escape = tuple(_pieces(text)), escape
        self.names = tuple(piece.name for piece in self.pieces if piece.name)
        self.secrets = tuple(piece.secret for piece in self.pieces if piece.secret)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        texts = []
        for piece in self.pieces:
            if piece.name:
                argument = args.get(piece.name, piece.default)
                if argument is None:
                    return ABSENT
                texts.append(self._escape(text_of_value(argument)))
            else:
                texts.append(secrets(piece.secret) if piece.secret else piece.text)
        return "".join(texts)

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        required = [piece.name for piece in self.pieces if piece.name and piece.default is None]
        return tuple(name for name in required if name not in sure)


class TableValue(TemplateValue):
    """An argument that is replaced by a value of the table; the table's texts may name arguments, too."""

    def __init__(self, name: str, table: Mapping[str, TemplateValue]) -> None:
        inner = tuple(table.values())
        self.name, self.table = name, table
        self.names = (name, *(inner_name for value in inner for inner_name in value.names))
        self.secrets = tuple(secret for value in inner for secret in value.secrets)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        """Give the table's value for the argument; an argument that the table lacks is sent unchanged."""
        argument = args.get(self.name, ABSENT)
        if argument is ABSENT:
            return ABSENT
        chosen = self.table.get(text_of_value(argument))
        return argument if chosen is None else chosen.write(args, secrets)

    def knows(self, args: Args) -> bool:
        return text_of_value(args.get(self.name, ABSENT)) in self.table


class JoinedValue(TemplateValue):
    """A list whose items are joined to one text."""

    def __init__(self, name: str, between: str) -> None:
        self.names = (name,)
        self.name, self.between = name, between

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        items = args.get(self.name, ABSENT)
        return self.between.join(map(text_of_value, items)) if isinstance(items, list | tuple) else items


class NestedValue(TemplateValue):
    """A map or a list of values; absent values are left out."""

    def __init__(self, inner: Mapping[str, TemplateValue] | Sequence[TemplateValue]) -> None:
        self.inner = inner
        below = tuple(inner.values() if isinstance(inner, Mapping) else inner)
        self.names = tuple(name for value in below for name in value.names)
        self.secrets = tuple(name for value in below for name in value.secrets)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        if isinstance(self.inner, Mapping):
            pairs = ((key, value.write(args, secrets)) for key, value in self.inner.items())
            return {key: value for key, value in pairs if value is not ABSENT}
        items = (value.write(args, secrets) for value in self.inner)
        return [item for item in items if item is not ABSENT]


def compile_value(given: Any) -> TemplateValue:
    if isinstance(given, str):
        match = _NAMED.fullmatch(given)
        if match and match["name"]:
            return ArgumentValue(match["name"], match["default"])
        return TextTemplate(given) if _NAMED.search(given) else TemplateValue(given)
    if isinstance(given, Mapping):
        if is_chosen(given):
            return chosen(given, compile_value)
        return compile_map(given)
    if isinstance(given, list | tuple):
        return NestedValue([compile_value(value) for value in given])
    return TemplateValue(given)


def compile_map(values: Mapping[str, Any]) -> NestedValue:
    """Make the values of a map that is sent, also of one with the keys of ``{param, table}``."""
    return NestedValue({str(name): compile_value(value) for name, value in values.items()})


def is_chosen(given: Mapping[str, Any]) -> bool:
    """Whether a map stands for an argument, and is not sent as a map."""
    kinds = ({"param"}, {"param", "table"}, {"param", "join"})
    return isinstance(given.get("param"), str) and set(given) in kinds


def chosen(given: Mapping[str, Any], inner: Callable[[Any], TemplateValue]) -> TemplateValue:
    """Make the value of a map {param, table} or {param, join}."""
    name = given["param"]
    if given.get("join") is not None:
        return JoinedValue(name, given["join"])
    if not given.get("table"):
        return ArgumentValue(name, None)
    return TableValue(name, {text_of_value(key): inner(value) for key, value in given["table"].items()})


def text_of_value(value: Any) -> str:
    """Write a value as queries do: true and false in lower case, whole numbers without a decimal point."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None or isinstance(value, Mapping | list | tuple):
        return compact_json(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _pieces(text: str) -> Iterator[TemplatePiece]:
    done = 0
    for match in _NAMED.finditer(text):
        if match.start() > done:
            yield TemplatePiece(text[done : match.start()])
        yield TemplatePiece(secret=match["secret"] or "", name=match["name"] or "", default=match["default"])
        done = match.end()
    if done < len(text):
        yield TemplatePiece(text[done:])

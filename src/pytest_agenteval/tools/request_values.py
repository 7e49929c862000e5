"""Values of a request that name arguments: written for a call, and read back from a recorded request."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import ABSENT, canonical_json, compact_json

Args: TypeAlias = Mapping[str, Any]
SecretLookup: TypeAlias = Callable[[str], str]

_NAMED = re.compile(r"\$\{(?P<secret>\w+)\}|\{(?P<name>\w+)(?:=(?P<default>[^{}]*))?\}")


class TemplateValue:
    """A value to send; this class is a constant."""

    names: tuple[str, ...] = ()
    # Those of the parameters in ``names`` that can be read back from a request.
    readable: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def __init__(self, constant: Any = None) -> None:
        self._constant = constant

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        """Give the value for a call, or ABSENT."""
        return self._constant

    def read(self, sent: Any) -> Args | None:
        """Give the arguments for which this value is sent, or None if there are none."""
        return {} if sent == self._constant or text_of_value(sent) == text_of_value(self._constant) else None

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        """Give the arguments that the value needs, without those that are ``sure`` to be there."""
        return ()


class ArgumentValue(TemplateValue):
    """One argument, in its own type."""

    def __init__(self, name: str, default: str | None) -> None:
        self.names = self.readable = (name,)
        self._name, self._default = name, ABSENT if default is None else default

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        return args.get(self._name, self._default)

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        return () if self._name in sure or self._default is not ABSENT else (self._name,)

    def read(self, sent: Any) -> Args | None:
        return {self._name: sent}


class _TemplatePiece(FrozenValue, frozen=True):
    """A part of a text: plain, a secret or an argument."""

    text: str = ""
    secret: str = ""
    name: str = ""
    default: str | None = None


ANYTHING = ".*?"


class TextTemplate(TemplateValue):
    """A text with arguments and secrets in it; absent if one of its arguments is."""

    def __init__(self, text: str, escape: Callable[[str], str] = str, inner: str = ANYTHING) -> None:
        self._pieces, self._escape = tuple(_pieces(text)), escape
        self.names = self.readable = tuple(piece.name for piece in self._pieces if piece.name)
        self.secrets = tuple(piece.secret for piece in self._pieces if piece.secret)
        self._pattern = re.compile(_pattern(self._pieces, inner), re.S)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        texts = []
        for piece in self._pieces:
            if piece.name:
                argument = args.get(piece.name, piece.default)
                if argument is None:
                    return ABSENT
                texts.append(self._escape(text_of_value(argument)))
            else:
                texts.append(secrets(piece.secret) if piece.secret else piece.text)
        return "".join(texts)

    def sure_of(self, sure: Collection[str]) -> tuple[str, ...]:
        required = [piece.name for piece in self._pieces if piece.name and piece.default is None]
        return tuple(name for name in required if name not in sure)

    def read(self, sent: Any) -> Args | None:
        match = self._pattern.fullmatch(text_of_value(sent))
        return dict(zip(self.names, match.groups(), strict=True)) if match else None


class TableValue(TemplateValue):
    """An argument that is replaced by a value of the table; the table's texts may name arguments, too."""

    def __init__(self, name: str, table: Mapping[str, TemplateValue]) -> None:
        inner = tuple(table.values())
        self._name, self._table = name, table
        self.names = (name, *(inner_name for value in inner for inner_name in value.names))
        self.readable = tuple(inner_name for value in inner for inner_name in value.readable)
        # If two arguments have the same constant, the request does not show which of them it was.
        constants = [canonical_json(value.write({}, str)) for value in inner if not value.names]
        if len(set(constants)) == len(constants):
            self.readable = (name, *self.readable)
        self.secrets = tuple(secret for value in inner for secret in value.secrets)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        """Give the table's value for the argument; an argument that the table lacks is sent unchanged."""
        argument = args.get(self._name, ABSENT)
        if argument is ABSENT:
            return ABSENT
        chosen = self._table.get(text_of_value(argument))
        return argument if chosen is None else chosen.write(args, secrets)

    def knows(self, args: Args) -> bool:
        return text_of_value(args.get(self._name, ABSENT)) in self._table

    def read(self, sent: Any) -> Args | None:
        for argument, value in self._table.items():
            args_of_value = value.read(sent)
            if args_of_value is not None:
                return {**args_of_value, self._name: argument}
        return {self._name: sent}


class JoinedValue(TemplateValue):
    """A list whose items are joined to one text."""

    def __init__(self, name: str, between: str) -> None:
        self.names = self.readable = (name,)
        self._name, self._between = name, between

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        items = args.get(self._name, ABSENT)
        return self._between.join(map(text_of_value, items)) if isinstance(items, list | tuple) else items

    def read(self, sent: Any) -> Args | None:
        return {self._name: text_of_value(sent).split(self._between) if sent else []}


class NestedValue(TemplateValue):
    """A map or a list of values; absent values are left out."""

    def __init__(self, inner: Mapping[str, TemplateValue] | Sequence[TemplateValue]) -> None:
        self.inner = inner
        below = tuple(inner.values() if isinstance(inner, Mapping) else inner)
        self.names = tuple(name for value in below for name in value.names)
        self.readable = tuple(name for value in below for name in value.readable)
        self.secrets = tuple(name for value in below for name in value.secrets)

    def write(self, args: Args, secrets: SecretLookup) -> Any:
        if isinstance(self.inner, Mapping):
            pairs = ((key, value.write(args, secrets)) for key, value in self.inner.items())
            return {key: value for key, value in pairs if value is not ABSENT}
        items = (value.write(args, secrets) for value in self.inner)
        return [item for item in items if item is not ABSENT]

    def read(self, sent: Any) -> Args | None:
        args: dict[str, Any] = {}
        if isinstance(self.inner, Mapping) and isinstance(sent, Mapping):
            for key, value in self.inner.items():
                if value.names and key in sent:
                    args.update(value.read(sent[key]) or {})
        elif not isinstance(self.inner, Mapping) and isinstance(sent, list | tuple):
            for value, item in zip(self.inner, sent, strict=False):
                args.update(value.read(item) or {})
        return args


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


def _pieces(text: str) -> Iterator[_TemplatePiece]:
    done = 0
    for match in _NAMED.finditer(text):
        if match.start() > done:
            yield _TemplatePiece(text[done : match.start()])
        yield _TemplatePiece(secret=match["secret"] or "", name=match["name"] or "", default=match["default"])
        done = match.end()
    if done < len(text):
        yield _TemplatePiece(text[done:])


def _pattern(pieces: Sequence[_TemplatePiece], inner: str) -> str:
    """Give the pattern that reads a text, with the shortest arguments from the left."""
    runs = [tuple(run) for _, run in groupby(pieces, key=lambda piece: bool(piece.text))]
    if runs and runs[0][0].text:
        runs.insert(0, ())
    steps = [(gap, between) for gap, between in zip_longest(runs[::2], runs[1::2], fillvalue=())]
    pattern = ""
    for number, (gap, between) in enumerate(steps, start=1):
        step = ""
        if gap:  # arguments and secrets with nothing between them: the last of them gets the whole text
            *before, last = gap
            over = ".*?" if inner != ANYTHING and any(piece.secret for piece in before) else ""
            step = "()" * sum(bool(piece.name) for piece in before)
            step += ".*?" if last.secret else f"{over}({inner})"
        step += "".join(re.escape(piece.text) for piece in between)
        # The first place of the text between two arguments is as good as any, so the match there is atomic: a
        # text that does not fit costs no more than one that does. Only a secret may extend beyond it.
        settled = number < len(steps) and (inner == ANYTHING or not any(piece.secret for piece in gap))
        pattern += f"(?>{step})" if settled else step
    return pattern

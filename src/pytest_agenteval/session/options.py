"""What an option is, and how its values are read: numbers, names and paths.

Imported in every pytest run, used or not: the standard library only, and nothing is worked out here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, overload

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Number = TypeVar("Number", int, float)
Word = TypeVar("Word", bound=str)

PROJECT = "pyproject.toml: tool.agenteval"


class RawValue(NamedTuple):
    """A value as the user wrote it, where it stands, and the folder that its paths start from."""

    value: Any
    place: str
    folder: Path


class RepetitionRange(NamedTuple):
    """The fewest and most repetitions, between which a look at the fewest decides."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


class Shard(NamedTuple):
    """One of several parts of a run, each on a machine of its own; ``number`` counts from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


class WrongValue(ValueError):
    """A value that cannot be obeyed.

    ``expected`` replaces what the option's row expects, where it is more precise; ``hint`` is what may have
    been meant.
    """

    def __init__(self, *, expected: str = "", hint: str = "") -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


class ValueType(NamedTuple, Generic[T_co]):
    """A kind of value: its name in ``--help``, its reader, and what a refusal says was expected.

    The reader raises WrongValue for what cannot be obeyed. A kind without a name is a switch's.
    """

    metavar: str
    parse: Callable[[RawValue], T_co]
    expected: str


class Option(Generic[T]):
    """One option, as an attribute of the class that holds the settings.

    ``name``, the attribute's own where none is given, is its key in ``[tool.agenteval]`` and, in capitals,
    the end of its variable. ``several`` may be repeated. ``flag`` is ``--agent-NAME`` where none is given;
    None for options that only pyproject.toml may hold. ``alone`` is the value of a flag that stands without
    one, where that is allowed.
    """

    def __init__(
        self,
        help: str,
        values: ValueType[T],
        default: T,
        *,
        name: str = "",
        several: bool = False,
        flag: str | None = "",
        alone: str = "",
    ) -> None:
        self.help, self.default, self.name = help, default, name
        self.metavar, self.parse, self.expected = values
        self.flag, self.several, self.alone = flag, several, alone

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name
        self.name = self.name or name
        if self.flag == "":
            self.flag = "--agent-" + self.name.replace("_", "-")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: OptionValues, owner: type) -> T: ...
    def __get__(self, instance: OptionValues | None, owner: type) -> Self | T:
        """Give the value that was chosen; the class itself gives the row."""
        if instance is None:
            return self
        value: T = instance.values.get(self.attribute, self.default)
        return value

    @property
    def variable(self) -> str:
        """The environment variable; empty for what stands in pyproject.toml alone."""
        return f"AGENTEVAL_{self.name.upper()}" if self.flag else ""

    def add_to(self, group: pytest.OptionGroup) -> None:
        """Declare the flag; its value is parsed like those of the other places, not by pytest."""
        if self.flag and not self.metavar:
            group.addoption(self.flag, action="store_true", help=self.help)
        elif self.flag:
            kind: dict[str, Any] = {"action": "append" if self.several else "store", "metavar": self.metavar}
            kind |= {"nargs": "?", "const": self.alone} if self.alone else {}
            group.addoption(self.flag, help=self.help, **kind)

    def on_command_line(self, config: pytest.Config) -> object:
        """Give the value behind the flag; None where the flag was not given."""
        if not self.flag:
            return None
        typed = config.getoption(self.flag.lstrip("-").replace("-", "_"), default=None)
        return None if typed in ([], False) else typed

    def parse_value(self, raw: RawValue) -> T:
        """Read a value; raises UsageMistake, naming the place, for one that cannot be obeyed."""
        # A shell's variable behind a flag may be empty, and to run with the default may cost money. An empty
        # variable or key of ours means that nothing is set.
        texts = raw.value if isinstance(raw.value, list) else [raw.value]
        typed = texts if raw.place == self.flag else ()
        blank = [text for text in typed if isinstance(text, str) and not text.strip(", \t\n")]
        try:
            if blank:
                raise WrongValue
            return self.parse(raw)
        except WrongValue as wrong:
            # Imported only here: every pytest run imports this module, and few refuse anything.
            from pytest_agenteval.text.errors import UsageMistake

            several = blank or texts
            found = several[0] if blank or len(several) == 1 else raw.value
            message = f"{raw.place}: expected {wrong.expected or self.expected}; found {found!r}"
            raise UsageMistake(f"{message}; {wrong.hint}" if wrong.hint else message) from None


class OptionValues:
    """The values that a user set, by attribute; every other attribute has its row's default.

    ``places`` says where each value stands: ``--agent-model``, ``AGENTEVAL_MODEL``.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, places: Mapping[str, str] | None = None
    ) -> None:
        self.values, self.places = values or {}, places or {}

    @contextmanager
    def naming_place(self, attribute: str) -> Iterator[None]:
        """Add the place of a value to a mistake that shows only when the value is used."""
        from pytest_agenteval.text.errors import UsageMistake

        try:
            yield
        except UsageMistake as mistake:
            place = self.places.get(attribute)
            if place is None or str(mistake).startswith(place):
                raise
            raise UsageMistake(f"{place}: {mistake}") from None

    @classmethod
    def rows(cls) -> list[Option[Any]]:
        """Give the table, in the order in which it is written."""
        return [row for row in vars(cls).values() if isinstance(row, Option)]


def number(kind: Callable[[str], Number], fits: Callable[[Number], bool]) -> Callable[[RawValue], Number]:
    """Read a number from text, so that 2.5 and True are no whole numbers."""

    def parse(raw: RawValue) -> Number:
        try:
            number = kind(str(raw.value))
        except ValueError:
            raise WrongValue from None
        if not fits(number):
            raise WrongValue
        return number

    return parse


def whole(least: int) -> Callable[[RawValue], int]:
    """Read a whole number, ``least`` or more."""
    return number(int, lambda number: number >= least)


above_0 = number(float, lambda number: 0 < number < float("inf"))


def _dollars(raw: RawValue) -> float:
    return above_0(raw._replace(value=str(raw.value).strip().removeprefix("$")))


def matched(pattern: str, raw: RawValue) -> re.Match[str]:
    match = re.fullmatch(pattern, str(raw.value))
    if match is None:
        raise WrongValue
    return match


def whole_or_range(raw: RawValue) -> int | RepetitionRange:
    if ".." not in str(raw.value):
        return whole(1)(raw)
    ends = RepetitionRange(*map(int, matched(r"\s*(\d+)\s*\.\.\s*(\d+)\s*", raw).groups()))
    if not 1 <= ends.low < ends.high:
        raise WrongValue
    return ends


def shard(raw: RawValue) -> Shard:
    shard = Shard(*map(int, matched(r"(\d+)/(\d+)", raw).groups()))
    if not 1 <= shard.number <= shard.total:
        raise WrongValue
    return shard


def file_name(raw: RawValue) -> str:
    """Take a name that every file system accepts and that is no path; ``latest`` already means a run."""
    name = matched(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", raw)[0]
    if name == "latest":
        raise WrongValue
    return name


def choice(metavar: str, *words: Word) -> ValueType[Word]:
    """Read one of several words; a refusal names the nearest."""

    def parse(raw: RawValue) -> Word:
        for word in words:
            if word == str(raw.value):
                return word
        from pytest_agenteval.text.errors import did_you_mean

        raise WrongValue(hint=did_you_mean(str(raw.value), words))

    return ValueType(metavar, parse, " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}")


def text(raw: RawValue) -> str:
    return str(raw.value)


def _yes_or_no(raw: RawValue) -> bool:
    """Read what pyproject.toml and the environment may hold besides the flag itself."""
    word = str(raw.value).lower()
    if word not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise WrongValue
    return word in ("1", "true", "yes", "on")


def names(raw: RawValue) -> tuple[str, ...]:
    """Split comma lists; an option given several times gives several lists."""
    lists = raw.value if isinstance(raw.value, list) else [raw.value]
    if not all(isinstance(names, str) for names in lists):
        raise WrongValue(expected="a text, or a list of texts")
    return tuple(name.strip() for names in lists for name in names.split(",") if name.strip())


def folder(raw: RawValue) -> Path | None:
    """Read a folder, relative to the folder of its place; ``none`` gives None."""
    return None if str(raw.value) == "none" else raw.folder / str(raw.value)


def path_or_name(raw: RawValue) -> str:
    """Take an existing path, relative to the folder of its place; else a name; ``none`` gives no name."""
    text = str(raw.value)
    path = raw.folder / text
    return "" if text == "none" else str(path) if path.exists() else text


def table(raw: RawValue) -> Mapping[str, Any]:
    if not isinstance(raw.value, dict):
        raise WrongValue
    return raw.value


def texts(raw: RawValue) -> tuple[str, ...]:
    if not isinstance(raw.value, list) or not all(isinstance(text, str) and text for text in raw.value):
        raise WrongValue
    return tuple(raw.value)


COUNT = ValueType("N", whole(1), "a whole number, 1 or more")
SECONDS = ValueType("S", above_0, "a number of seconds above 0")
DOLLARS = ValueType("USD", _dollars, "a number of US dollars above 0")
SWITCH = ValueType("", _yes_or_no, "true or false")


def count(help: str) -> Option[int | None]:
    """Give an option that is a whole number, where it is set."""
    return Option(help, COUNT, None)


def switch(help: str) -> Option[bool]:
    """Give an option that is off where it is not set."""
    return Option(help, SWITCH, False)

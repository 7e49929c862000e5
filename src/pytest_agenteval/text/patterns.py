"""Regular expressions that authors write, also in JSON Schemas, and a search for them that ends in time.

Python's own ``re`` cannot be stopped, and lets nothing else of the process run while it searches: one pattern
with a repetition inside a repetition, such as ``(a+)+$``, would hold up every trial, and Ctrl-C. So the
search is done by the package ``regex``, which takes a time limit and lets others run. A pattern still means
what it means to ``re``, which reads it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_agenteval.text.errors import TrialBroken

if TYPE_CHECKING:
    import regex
    from jsonschema.protocols import Validator


SECONDS = 3.0  # seconds of processor time that one search may take

_NAMES_LINE_ENDS = re.compile(r"(?<!\\)(?:\\\\)*\\(?:r|x0d|u000d|ufeff)|[\r\ufeff]", re.IGNORECASE)
_TOKEN = re.compile(
    r"""
      \\N\{[^}]*\}                              # a character by its name
    | \\.                                       # anything escaped
    | \[\^?\]?(?:\\.|[^\]\\])*\]                # a set of characters
    | \{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\}        # a repetition
    | (?P<brace>\{)
    """,
    re.VERBOSE | re.DOTALL,
)


class PatternTooSlow(TrialBroken):
    """A pattern took too long for a text, which is a mistake of the pattern's author."""

    cause = "pattern_too_slow"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression as ``re`` reads it, with the flags of ``re``."""

    pattern: str
    flags: int = 0

    def search(self, text: str) -> regex.Match[str] | None:
        """Give the first match; raises PatternTooSlow after ``SECONDS``."""
        with _naming_the_pattern(self.pattern, text):
            return _compiled(self.pattern, self.flags).search(text, concurrent=True, timeout=SECONDS)

    def find_all(self, text: str) -> list[regex.Match[str]]:
        """Give every match; raises PatternTooSlow as ``search`` does."""
        with _naming_the_pattern(self.pattern, text):
            found = _compiled(self.pattern, self.flags).finditer(text, concurrent=True, timeout=SECONDS)
            return list(found)

    @property
    def names_line_ends(self) -> bool:
        """Whether the pattern names ``\\r`` or a byte order mark: then these stay in the texts."""
        return _NAMES_LINE_ENDS.search(self.pattern) is not None

    def matches(self, text: str) -> bool:
        """Whether the pattern is found in a text in normal form."""
        # Imported late: `agenteval --help` redacts what it prints, and does without msgspec.
        from pytest_agenteval.text.json_values import composed_text, normal_text

        return self.search(composed_text(text) if self.names_line_ends else normal_text(text)) is not None

    def sub(self, mark: str, text: str, seconds: float = SECONDS) -> str:
        """Put a mark in place of each match; raises PatternTooSlow as ``search`` does."""
        with _naming_the_pattern(self.pattern, text):
            compiled = _compiled(self.pattern, self.flags)
            return str(compiled.sub(lambda _: mark, text, concurrent=True, timeout=seconds))


@contextmanager
def _naming_the_pattern(pattern: str, text: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise PatternTooSlow(
            f"the pattern {pattern!r} took too long: more than {SECONDS:g} s on {len(text)} "
            "characters (one repetition inside another?)"
        ) from None


def read_pattern(pattern: str, flags: int = 0) -> Pattern:
    """Read a pattern; raises ``re.error``, RecursionError or OverflowError for what ``re`` cannot read."""
    re.compile(pattern, flags)
    return Pattern(pattern, flags)


def author_pattern(pattern: str, flags: int = 0) -> Pattern:
    """Read a pattern as ``read_pattern`` does, in NFC as are the texts that it is looked for in."""
    from pytest_agenteval.text.json_values import composed_text

    return read_pattern(composed_text(pattern), flags)


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: int) -> regex.Pattern[str]:
    import regex

    meant = regex.VERSION0
    # The two packages number some of their flags differently, such as ASCII.
    for name in ("IGNORECASE", "MULTILINE", "DOTALL", "VERBOSE", "ASCII"):
        if flags & re.RegexFlag[name]:
            meant |= regex.RegexFlag[name]
    return regex.compile(_TOKEN.sub(_plain, pattern), meant)


def _plain(token: re.Match[str]) -> str:
    text = token[0]
    # To ``re`` a brace that is no repetition is a plain character. The package ``regex`` may read fuzzy
    # matching in it.
    if token["brace"]:
        return r"\{"
    if text.startswith("[") and "[" in text[1:]:
        return "[" + re.sub(r"(?s)(\\.)|\[", lambda match: match[1] or r"\[", text[1:])
    return text


@lru_cache(maxsize=16)
def with_bounded_patterns(validator: type[Validator]) -> type[Validator]:
    """Give the validator class whose keyword ``pattern`` ends in time: it raises PatternTooSlow.

    The patterns of ``patternProperties`` are jsonschema's own affair: what they search are names.
    """
    from jsonschema import validators

    extend: Any = validators.extend  # not typed
    made: type[Validator] = extend(validator, {"pattern": _check_pattern})
    return made


def _check_pattern(validator: Validator, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    """Check a text as jsonschema does, in its words."""
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and Pattern(pattern).search(value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")

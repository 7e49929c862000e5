"""Finds secrets in texts and values, and takes them out before anything is written, printed or reported."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from pytest_agenteval.text.patterns import SECONDS, Pattern, PatternTooSlow, read_pattern
from pytest_agenteval.text.secret_forms import (
    IN_QUERY,
    MARK,
    SHORTEST,
    SecretForms,
    has_shape,
    is_secret_header,
    is_secret_variable,
    names_a_secret,
    secret_spellings,
    without_shapes,
    worth_hiding,
)

SECONDS_ONCE_SLOW = 0.1  # what a user's pattern that took too long once may take for each further text
MOST_CLEAN_TEXTS = 100_000  # texts that are remembered to be clean


class Secrets:
    """Knows values and patterns of secrets and takes them out of texts; what it knows can only grow.

    A value is found in all its spellings (JSON, addresses, pages, base64, hex, ...); also its beginning or
    end, where a text was cut. The longest goes first: one may begin another.
    """

    def __init__(self, values: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._forms = SecretForms()
        self._patterns: dict[str, Pattern] = {}
        self._slow: set[Pattern] = set()
        self._environment: dict[Any, Any] = {}
        self._clean_texts: set[str] = set()
        self._learning = threading.Lock()
        self.know(values)
        self.know_patterns(patterns)

    def forget(self) -> None:
        """Forget all values and patterns, but not the shapes of keys: another session has other secrets."""
        self._values, self._forms, self._patterns = set(), SecretForms(), {}
        self._environment = {}
        self._clean_texts = set()

    def know(self, values: Iterable[str]) -> None:
        """Take these values for secrets, except those that are too short or ordinary words."""
        fresh = {value for value in values if value not in self._values and worth_hiding(value)}
        if not fresh:
            return
        with self._learning:  # an agent's thread sets a variable while another trial is written down
            self._values |= fresh
            self._forms = self._forms.with_more({form for value in fresh for form in secret_spellings(value)})
        self._clean_texts = set()  # last: a thread that still looks for fewer secrets fills the old set

    def all_known(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give all known values and patterns, so that another process can know the same."""
        return tuple(sorted(self._values)), tuple(self._patterns)

    @property
    def generation(self) -> object:
        """An object that changes when more is known: texts that were clean before may not be now."""
        return self._clean_texts

    def know_patterns(self, patterns: Iterable[str]) -> None:
        """Take whatever these patterns match for secrets; raises ``re.error`` for what is no pattern."""
        self._patterns.update((pattern, read_pattern(pattern)) for pattern in patterns)
        self._clean_texts = set()

    def know_variables(self, names: Iterable[str]) -> None:
        """Take the values of these environment variables for secrets, whatever they are called."""
        self.know(os.environ.get(name, "") for name in names)

    def know_environment(self, environ: Mapping[str, str] | None = None) -> None:
        """Take the values of variables for secrets whose names look secret, such as ``*_API_KEY``.

        Passwords within addresses, as in ``DATABASE_URL``, are known too.
        """
        variables = os.environ if environ is None else environ
        if environ is None and type(variables) is os._Environ:
            # Reading all of them in each turn of the loop takes longer than half a small trial. ``_data`` is
            # copied in one step: pytest's thread sets and unsets variables meanwhile.
            now, seen = dict(variables._data), self._environment  # type: ignore[attr-defined]
            changed = [(name, value) for name, value in now.items() if seen.get(name) != value]
            name_of, value_of = variables.decodekey, variables.decodevalue
            self._know_variables([(name_of(name), value_of(value)) for name, value in changed])
            if self._environment is seen:  # else another session has made us forget everything meanwhile
                self._environment = now
        else:  # pytest's thread unsets variables while a trial's reads them
            self._know_variables([(name, variables.get(name, "")) for name in tuple(variables)])

    def _know_variables(self, variables: Iterable[tuple[str, str]]) -> None:
        for name, value in variables:
            if is_secret_variable(name, value):
                self.know((value, *(value.split(",") if name[-1] in "sS" else ())))
            elif "://" in value and "@" in value:
                self.know_address(value)

    def know_address(self, address: str) -> None:
        """Take the credentials of an address for secrets: its password, and the keys of its query."""
        try:
            parts = urlsplit(address)
            password = parts.password or ""
        except ValueError:
            return
        signed_in = parts.netloc.rpartition("@")[0] if password else ""
        if "@" not in parts.netloc and _ends_in_no_port(parts.netloc):
            # A password with an unescaped "/", "?" or "#": every client refuses the address and prints it.
            signed_in = address.partition("://")[2].rpartition("@")[0]
            password = signed_in.partition(":")[2]
        pairs = (pair.partition("=") for pair in parts.query.split("&"))
        keys = [
            value for name, _, value in pairs if names_a_secret(name.replace("-", "_")) or name in IN_QUERY
        ]
        self.know(form for value in (password, signed_in, *keys) for form in (value, unquote(value)))

    def know_named(self, settings: Mapping[str, Any]) -> None:
        """Take the texts of settings for secrets whose names look secret, at any depth."""
        for name, value in settings.items():
            if isinstance(value, Mapping):
                self.know_named(value)
            elif isinstance(value, str) and names_a_secret(str(name)):
                self.know((value,))

    def know_headers(self, headers: Mapping[str, Any]) -> None:
        """Take the values of headers for secrets whose names look secret, such as ``Authorization``."""
        for name, value in headers.items():
            if is_secret_header(str(name)):
                self.know((str(value), str(value).rpartition(" ")[2]))

    def dirty(self, text: str, *, shapeless: bool = False) -> bool:
        """Whether a text may hold a secret; never False where it does.

        ``shapeless``: the caller knows already that nothing in it has the shape of a key.
        """
        if len(text) < SHORTEST and not self._patterns:
            return False
        if self._forms.may_stand_in(text):
            return True
        return bool(self._patterns) or (not shapeless and has_shape(text))

    def all_clean(self, texts: Mapping[str, str]) -> bool:
        """Whether none of the texts holds a secret; keys are the texts themselves or their digests."""
        # Most texts are those of other trials too: a key that was clean before is not looked at again.
        clean_texts = self._clean_texts
        fresh = texts.keys() - clean_texts
        # As one long text: each start of a secret is looked for once, not once in each text.
        if self.dirty("\n".join(map(texts.__getitem__, fresh))):
            return False
        if len(clean_texts) < MOST_CLEAN_TEXTS:
            clean_texts |= fresh
        return True

    def text(self, text: str, *, shapeless: bool = False) -> str:
        """Give the text with a mark in place of each secret; ``shapeless`` is that of ``dirty``."""
        if not self.dirty(text, shapeless=shapeless):
            return text
        text = without_shapes(self._forms.removed_from(text))
        for pattern in self._patterns.values():
            text = self._without_matches(text, pattern)
        return text

    def known_only(self, text: str) -> str:
        """Take only known values out of a text, not what fits a shape or pattern, as ordinary text may."""
        return self._forms.removed_from(text) if self._forms.may_stand_in(text) else text

    def _without_matches(self, text: str, pattern: Pattern) -> str:
        try:
            return pattern.sub(MARK, text, SECONDS_ONCE_SLOW if pattern in self._slow else SECONDS)
        except PatternTooSlow:
            self._slow.add(pattern)
            reason = f"{len(text)} characters: the pattern {pattern.pattern!r} of `redact` took too long"
            return f"{MARK} ({reason})"

    def value(self, value: Any) -> Any:
        """Take secrets out of the texts, keys and numbers of a JSON value.

        An object that JSON does not know is replaced by its written form where that holds a secret.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner) for inner in value]
        if isinstance(value, int) and not isinstance(value, bool) and self._values:
            # A key of 12 digits or more may come back as a number. The mark is a text, so that JSON stays
            # JSON.
            return MARK if 10**11 <= value < 10**40 and str(value) in self._values else value
        if value is None or isinstance(value, bool | int | float) or (form := written_form(value)) is value:
            return value
        clean = self.value(form)
        return value if clean == form else clean

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.text(key)
        (written,) = written_form({key: None})
        clean = self.value(written)
        return key if clean == written else clean


def written_form(value: Any) -> Any:
    """Give what a value which JSON does not know is written as; itself, where it cannot be written down."""
    from pytest_agenteval.text.json_values import jsonable  # most values are JSON's

    with suppress(Exception):
        return jsonable(value)
    return value


def _ends_in_no_port(netloc: str) -> bool:
    # An IPv6 address without a port ends in "]".
    port = netloc.rpartition(":")[2]
    return ":" in netloc and not (port.isdecimal() or port.endswith("]"))


KNOWN_SECRETS = Secrets()  # what this process knows of secrets

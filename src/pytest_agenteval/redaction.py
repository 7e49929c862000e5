"""Secrets: what is one, and texts and values without them.

Everything that leaves a trial goes through here: what is written to disk, printed, or told to pytest.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pytest_agenteval.patterns import SECONDS, Pattern, PatternTooSlow, read_pattern

MARK = "<redacted>"
SHORTEST = 8
"""Shorter values are no secrets worth the name, and stand in too many texts."""

SHORTEST_WORD = 16
"""A value of letters only has to be as long: a word such as ``password`` stands in too many texts."""

SHORTEST_NUMBER = 12
"""Figures of fewer digits are dates and amounts."""

SECONDS_ONCE_SLOW = 0.1
"""What a user's pattern that took too long once may take for each further text."""

MOST_REMEMBERED = 100_000
"""Texts that are remembered to be clean."""

IN_QUERY = frozenset({"key", "apikey", "sig", "signature", "code", "auth", "access"})
"""Parameters of an address that are credentials there, though such words are ordinary anywhere else."""

CUT = ("…", "...")
"""What stands where a text was cut, be it in the middle of a secret."""

_VARIABLE = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|(?:^|_)(?:TOKEN|PAT|PASS|JWT|BEARER|CREDENTIALS?|(?:APP|CLIENT)?SECRET)$"
    r"|(?:^|_)(?:API|APP|ACCESS|SECRET|SERVICE|PRIVATE|ACCOUNT|MASTER|SIGNING|ENCRYPTION)_?KEY(?:_BASE|S)?$"
    r"|(?:^|_)(?:OPENAI|ANTHROPIC|GEMINI|AZURE)_KEY$",
    re.I,
)
# Such a name may also be that of a cache or a table: then the value has to look like a key.
_ANY_KEY = ("KEY", "KEYS")
_LIKE_A_KEY = r"(?=.*[0-9])(?=.*[A-Za-z])[\w.~+=-]{16,}"
# Not within a word; the letter of a line break as JSON writes it is part of none.
_BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_FIGURE = r"(?=[A-Za-z_-]*[0-9])"
_SIGNED_IN = r"(?<=://)[^/?#@\s\"'<>:]*:[^/?#@\s\"'<>]++(?=@)"
_IN_QUERY = (
    r"(?i)(?<=[?&])((?:[\w-]*[_-])?(?:api_?key|service_?key|key|token|secret|password|signature|sig)=)"
    r"(?!<redacted>)[^&#\s\"'<>\\]{8,}"
)

# Each with texts of which one stands in every match: looking for them costs next to nothing. None goes over
# a text twice: it may be hostile, and of many megabytes. ``none`` is where what begins like a secret is over.
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("sk-",),
        rf"sk-(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_-]{{16,}}|{_BEGINS}sk-{_FIGURE}[A-Za-z0-9_-]{{16,}}",
    ),
    (("k_live_", "k_test_", "whsec_"), rf"{_BEGINS}(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{{16,}}"),
    (("AIza",), r"AIza[A-Za-z0-9_-]{30,}"),
    (("ya29.",), r"ya29\.[A-Za-z0-9_-]{20,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    (("github_pat_", "glpat-"), r"(?:github_pat_|glpat-)[A-Za-z0-9_-]{20,}"),
    (("xox", "xapp-"), r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    (("AKIA", "ASIA"), rf"{_BEGINS}A[KS]IA[A-Z0-9]{{16}}(?![A-Z0-9])"),
    (("eyJ",), r"eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}|(?P<none>))"),
    (("hf_", "gsk_", "npm_"), rf"{_BEGINS}(?:hf|gsk|npm)_[A-Za-z0-9]{{20,}}"),
    (
        ("xai-", "pplx-", "tvly-", "nvapi-", "GOCSPX-", "pypi-AgE", "shpat_", "dop_v1_", "r8_"),
        rf"{_BEGINS}(?:(?:xai-|pplx-|tvly-(?:dev-)?|shpat_|dop_v1_|r8_)[A-Za-z0-9]{{20,}}"
        r"|(?:nvapi-|GOCSPX-|pypi-AgE)[A-Za-z0-9_-]{24,})",
    ),
    (("hooks.slack.com/services/",), r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"),
    (("SG.",), r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    (("PRIVATE KEY-",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    (
        ("earer ", "EARER ", "asic ", "ASIC "),
        r"(?i)(?<=bearer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*"
        r"|(?<=basic )(?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/]{12,}=*",
    ),
    (("@",), _SIGNED_IN),
    (("key=", "oken=", "ecret=", "assword=", "ig=", "ature=", "Key=", "KEY="), _IN_QUERY),
)

_LITERALS = tuple((literal, shape) for literals, shape in _SHAPES for literal in literals)


def _literals_by_sign() -> dict[str, list[tuple[str, str]]]:
    """Put literals together that hold the same sign: where it stands nowhere in a text, none of them does."""
    by_sign: dict[str, list[tuple[str, str]]] = {}
    for literal, shape in _LITERALS:
        sign = next((sign for sign in "_=@-." if sign in literal), "")
        by_sign.setdefault(sign, []).append((literal, shape))
    return by_sign


_LITERALS_BY_SIGN = tuple(_literals_by_sign().items())


# Compiled when a text first holds its literal: all of them together take longer than a whole offline trial.
@cache
def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(shape)


class Secrets:
    """Knows values and patterns of secrets and takes them out of texts; what it knows can only grow.

    A value is found as it is and as it stands in JSON, in an address, in a page, in base64, in Python's
    ``repr``; also its beginning or end, where a text was cut. The longest goes first: one may begin another.
    """

    def __init__(self, values: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._spelled: tuple[tuple[str, str], ...] = ()
        self._patterns: dict[str, Pattern] = {}
        self._slow: set[Pattern] = set()
        self._starts: tuple[str, ...] = ()
        self._ends: tuple[str, ...] = ()
        self._environment: dict[Any, Any] = {}
        self._found_clean: set[str] = set()
        self.know(values)
        self.know_patterns(patterns)

    def forget(self) -> None:
        """Know nothing but the shapes of keys, as at the beginning: another session, other secrets."""
        self._values, self._spelled, self._starts, self._ends, self._patterns = set(), (), (), (), {}
        self._environment = {}
        self._found_clean = set()

    def know(self, values: Iterable[str]) -> None:
        """Take these values for secrets, those that are too short or ordinary words left out."""
        fresh = {value for value in values if value not in self._values and worth_hiding(value)}
        if not fresh:
            return
        self._values |= fresh
        spelled = {form for value in self._values for form in _spellings(value)}
        longest_first = sorted(spelled, key=lambda form: (-len(form), form))
        self._spelled = tuple((form[:SHORTEST], form) for form in longest_first)
        self._starts = tuple(dict.fromkeys(start for start, _ in self._spelled))
        self._ends = tuple(dict.fromkeys(form[-SHORTEST:] for form in longest_first))
        self._found_clean = set()  # last: a thread that still looks for fewer has the other one

    def all_known(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the values and the patterns of all that is known, for another process to know the same."""
        return tuple(sorted(self._values)), tuple(self._patterns)

    def know_patterns(self, patterns: Iterable[str]) -> None:
        """Take whatever these patterns match for secrets; raises ``re.error`` for what is no pattern."""
        self._patterns.update((pattern, read_pattern(pattern)) for pattern in patterns)
        self._found_clean = set()

    def know_variables(self, names: Iterable[str]) -> None:
        """Take the values of these environment variables for secrets, whatever they are called."""
        self.know(os.environ.get(name, "") for name in names)

    def know_environment(self, environ: Mapping[str, str] | None = None) -> None:
        """Take the values of all variables for secrets whose names tell of one, such as ``*_API_KEY``.

        Passwords within addresses, as in ``DATABASE_URL``, are known too.
        """
        variables = os.environ if environ is None else environ
        if environ is None and type(variables) is os._Environ:
            self._know_what_changed(variables)
        else:  # pytest's thread unsets variables while a trial's reads them
            self._know_variables([(name, variables.get(name, "")) for name in tuple(variables)])

    def _know_what_changed(self, environ: os._Environ[str]) -> None:
        """Look at what has changed since the last look.

        To read all variables, in each turn of the loop, takes longer than half a small trial. What Python
        keeps inside is copied at once: pytest's thread sets and unsets variables meanwhile.
        """
        now, seen = dict(environ._data), self._environment  # type: ignore[attr-defined]
        changed = [(name, value) for name, value in now.items() if seen.get(name) != value]
        name_of, value_of = environ.decodekey, environ.decodevalue
        self._know_variables([(name_of(name), value_of(value)) for name, value in changed])
        if self._environment is seen:  # else all was forgotten meanwhile, by another session
            self._environment = now

    def _know_variables(self, variables: Iterable[tuple[str, str]]) -> None:
        for name, value in variables:
            if _names_a_secret(name) or (
                name.upper().endswith(_ANY_KEY) and _compiled(_LIKE_A_KEY).fullmatch(value)
            ):
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
        pairs = (pair.partition("=") for pair in parts.query.split("&"))
        keys = [
            value for name, _, value in pairs if _names_a_secret(name.replace("-", "_")) or name in IN_QUERY
        ]
        self.know(form for value in (password, signed_in, *keys) for form in (value, unquote(value)))

    def know_named(self, settings: Mapping[str, Any]) -> None:
        """Take the texts of settings for secrets whose names tell of one, at any depth."""
        for name, value in settings.items():
            if isinstance(value, Mapping):
                self.know_named(value)
            elif isinstance(value, str) and _names_a_secret(str(name)):
                self.know((value,))

    def know_headers(self, headers: Mapping[str, Any]) -> None:
        """Take the values of headers for secrets whose names tell of one, such as ``Authorization``."""
        for name, value in headers.items():
            if telling_header(str(name)):
                self.know((str(value), str(value).rpartition(" ")[2]))

    def dirty(self, text: str) -> bool:
        """Whether there may be a secret in a text: never wrongly False."""
        if len(text) < SHORTEST and not self._patterns:
            return False
        for start in self._starts:  # a loop, and no generator: each text of each trial comes by
            if start in text:
                return True
        if self._cut_within(text):
            return True
        for sign, literals in _LITERALS_BY_SIGN:
            if sign not in text:
                continue
            for literal, shape in literals:
                if literal in text and _compiled(shape).search(text):
                    return True
        return bool(self._patterns)

    def all_clean(self, texts: Mapping[str, str]) -> bool:
        """Whether none of many texts holds a secret; each stands under what it is remembered by.

        That is the text itself or its digest. Most texts are those of other trials, and looked at once.
        """
        found_clean = self._found_clean
        fresh = texts.keys() - found_clean
        # One long text: every start of a secret is looked for once, not once in each.
        if self.dirty("\n".join(map(texts.__getitem__, fresh))):
            return False
        if len(found_clean) < MOST_REMEMBERED:
            found_clean |= fresh
        return True

    def text(self, text: str) -> str:
        """Give the text with a mark in place of each secret."""
        if not self.dirty(text):
            return text
        for start, form in self._spelled:
            if start in text:
                text = _without(text, form)
        if self._cut_within(text):
            for _, form in self._spelled:
                text = _without_end(text, form)
        for literal, shape in _LITERALS:
            if literal in text:
                text = _compiled(shape).sub(_mark, text)
        for pattern in self._patterns.values():
            text = self._without_matches(text, pattern)
        return text

    def _without_matches(self, text: str, pattern: Pattern) -> str:
        """Take what a user's pattern matches out of a text; all of it, where looking takes too long."""
        try:
            return pattern.sub(MARK, text, SECONDS_ONCE_SLOW if pattern in self._slow else SECONDS)
        except PatternTooSlow:
            self._slow.add(pattern)
            reason = f"{len(text)} characters: the pattern {pattern.pattern!r} of `redact` took too long"
            return f"{MARK} ({reason})"

    def value(self, value: Any) -> Any:
        """Give a JSON value with clean texts and keys, and with marks in place of numbers that are secret.

        What JSON does not know is written as text: it is given so where that holds a secret.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner) for inner in value]
        if isinstance(value, int) and not isinstance(value, bool) and self._values:
            return MARK if 10**11 <= value < 10**40 and str(value) in self._values else value
        return value if value is None or isinstance(value, bool | int | float) else self._clean_object(value)

    def _cut_within(self, text: str) -> bool:
        """Whether a text was cut, and may go on with the end of a secret."""
        return bool(self._ends) and any(cut in text for cut in CUT) and any(end in text for end in self._ends)

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.text(key)
        texts = [form for form in forms(key) if isinstance(form, str)]
        return next((clean for text in texts if (clean := self.text(text)) != text), key)

    def _clean_object(self, value: Any) -> Any:
        for form in forms(value):
            clean = self.value(form)
            if clean != form:
                return clean
        return value


def forms(value: Any) -> Iterator[Any]:
    """Give what can be told of a value that JSON does not know: its ``repr``, and what a run's files hold.

    Neither says all: a field may be left out of a ``repr``, and bytes are written in base64.
    """
    from pytest_agenteval.json_form import jsonable  # most values are JSON's

    for form_of in (repr, jsonable):
        try:
            form = form_of(value)
        except Exception:  # it cannot be written down either
            continue
        if form is not value:  # a number of a type of its own
            yield form


KNOWN_SECRETS = Secrets()
"""What this process knows of secrets: every door asks it."""


def worth_hiding(value: str) -> bool:
    """Whether a value is long and odd enough that its place in a text is no accident."""
    value = value.strip()
    if len(value) < SHORTEST or value in MARK:
        return False
    if value.isdigit():
        return len(value) >= SHORTEST_NUMBER
    return len(value) >= SHORTEST_WORD or not (value.isalpha() and value.isascii())


@lru_cache(4096)
def _names_a_secret(name: str) -> bool:
    return _VARIABLE.search(name) is not None


_HEADER = (
    r"(?i)authorization|^x-auth|cookie|passw|secret|session|signature|jwt|token(?!s)"
    r"|(?:api|app|access|service)-?key|(?:^|[-_])key(?:$|[-_])|key$|credential"
)


def telling_header(name: str) -> bool:
    """Whether a header's name says that its value is secret."""
    return _compiled(_HEADER).search(name) is not None


def _mark(match: re.Match[str]) -> str:
    if match.lastgroup == "none":
        return match[0]
    return f"{match[1]}{MARK}" if match.re.groups and match[1] else MARK


def _spellings(value: str) -> set[str]:
    """Give the forms in which a value can stand in a text, a body or an address."""
    once = {value, value.strip(), unquote(value.strip())}
    once |= {line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST_WORD}
    once |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in once for ascii in (True, False)}
    twice = {json.dumps(form, ensure_ascii=False)[1:-1] for form in once}
    in_address = {
        quote(value, errors="replace"),
        quote(value, "", errors="replace"),
        quote_plus(value, errors="replace"),
    }
    in_address |= {_ESCAPE.sub(lambda match: match[0].lower(), form) for form in in_address}
    in_page = {html.escape(value, quote=quoted) for quoted in (True, False)}
    in_page |= {form.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for form in in_page}
    in_python = {repr(value)[1:-1], repr(value.encode("utf-8", "replace"))[2:-1]}
    spelled = once | twice | in_address | in_page | in_python | set(_in_base64(value))
    return {form for form in spelled if len(form) >= SHORTEST}


_ESCAPE = re.compile("%[0-9A-F]{2}")


def _in_base64(value: str) -> Iterator[str]:
    """Give what base64 makes of a value wherever it stands, as after a name in a basic authorization."""
    raw = value.encode("utf-8", "replace")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)[(0, 2, 3)[before] :].decode()
        torn = (before + len(raw)) % 3  # then the last letter holds bits of what follows
        for form in (encoded, encoded.rstrip("=")[:-1]) if torn else (encoded,):
            yield form
            yield form.translate(_IN_ADDRESS)


_IN_ADDRESS = str.maketrans("+/", "-_")


def _without(text: str, form: str) -> str:
    """Take one spelling out of a text, also where the text was cut within it."""
    parts, done, at = [], 0, text.find(form[:SHORTEST])
    while at >= 0:
        end = at + SHORTEST
        while end - at < len(form) and text[end : end + 1] == form[end - at]:
            end += 1
        if end - at == len(form) or end == len(text) or text.startswith(CUT, end):
            parts += [text[done:at], MARK]
            done = end
        at = text.find(form[:SHORTEST], max(end if done == end else at + 1, at + 1))
    return "".join([*parts, text[done:]])


def _without_end(text: str, form: str) -> str:
    """Take the end of one spelling out of a text that was cut before it."""
    end, at = form[-SHORTEST:], 0
    while (at := text.find(end, at)) >= 0:
        begin = max(
            (text.rfind(cut, 0, at + SHORTEST) + len(cut) for cut in CUT if cut in text[:at]), default=-1
        )
        tail = text[begin : at + SHORTEST]
        if 0 <= begin <= at and len(tail) < len(form) and form.endswith(tail):
            text = text[:begin] + MARK + text[at + SHORTEST :]
            at = begin
        at += 1
    return text

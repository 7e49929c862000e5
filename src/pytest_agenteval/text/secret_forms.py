"""What secrets look like: shapes of keys, names that look secret, and the spellings of a known value."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import quote, quote_plus, unquote

MARK = "<redacted>"  # what stands in the place of a secret
SHORTEST = 8  # shorter values are no secrets worth the name, and stand in too many texts

# A value of letters only has to be as long: a word such as ``password`` stands in too many texts.
SHORTEST_WORD = 16

SHORTEST_NUMBER = 12  # figures of fewer digits are dates and amounts
CUT = ("…", "...")  # what stands where a text was cut, be it in the middle of a secret


def worth_hiding(value: str) -> bool:
    """Whether a value is so long and unusual that it stands in no text by accident."""
    value = value.strip()
    if len(value) < SHORTEST or value in MARK:
        return False
    if value.isdigit():
        return len(value) >= SHORTEST_NUMBER
    return len(value) >= SHORTEST_WORD or not (value.isalpha() and value.isascii())


def secret_spellings(value: str) -> set[str]:
    """Give the forms in which a value can stand in a text, a body or an address."""
    plain = {
        value.strip(),
        unquote(value.strip()),
        *{line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST_WORD},
    }
    plain |= {normalize(form, text) for text in plain for form in _UNICODE_FORMS}
    spelled = {value} | _in_json(plain)
    for text in plain:
        raw = {text.encode("utf-8", "replace")}
        with suppress(UnicodeEncodeError):
            raw.add(text.encode("latin-1"))
        spelled |= _in_address(text) | _in_page(text) | {repr(text)[1:-1], ascii(text)[1:-1]}
        for data in raw:
            spelled |= {repr(data)[2:-1], data.decode("latin-1"), data.hex(), data.hex().upper()}
            once = set(_in_base64(data))
            spelled |= once.union(*(_in_base64(form.encode()) for form in once))
    return {form for form in spelled if len(form) >= SHORTEST}


_UNICODE_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_JSON_IN_JSON = 3  # how many levels of JSON within JSON texts a value is looked for in
_ESCAPE = re.compile("%[0-9A-F]{2}")
_CODE_POINT = re.compile(r"\\u[0-9a-f]{4}")


def _in_json(texts: set[str]) -> set[str]:
    every, level = set(texts), texts
    for _ in range(_JSON_IN_JSON):
        level = {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in level for ascii in (True, False)}
        level |= {text.replace("/", "\\/") for text in level}  # as PHP writes it
        every |= level
    return every | {_CODE_POINT.sub(lambda code: rf"\u{code[0][2:].upper()}", text) for text in every}


def _in_address(text: str) -> set[str]:
    once = {
        quote(text, errors="replace"),
        quote(text, "", errors="replace"),
        quote_plus(text, errors="replace"),
        quote(text, "", encoding="latin-1", errors="replace"),
    }
    once |= {_ESCAPE.sub(lambda match: match[0].lower(), form) for form in once}
    return once | {quote(form, "") for form in once}


def _in_page(text: str) -> set[str]:
    forms = {html.escape(text, quote=quoted) for quoted in (True, False)}
    forms |= {form.replace("&#x27;", "&#39;").replace("&quot;", "&#34;") for form in forms}
    forms |= {form.replace("&#x27;", "&apos;") for form in forms}
    return forms | {form.encode("ascii", "xmlcharrefreplace").decode() for form in forms}


def _in_base64(raw: bytes) -> Iterator[str]:
    """Give what base64 makes of bytes at any offset, as after a name in a basic authorization."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)[(0, 2, 3)[before] :].decode()
        torn = (before + len(raw)) % 3  # then the last letter holds bits of what follows
        for form in (encoded, encoded.rstrip("=")[:-1]) if torn else (encoded,):
            yield form
            yield form.translate(_IN_ADDRESS)


_IN_ADDRESS = str.maketrans("+/", "-_")


_LONG_FORM = 24  # forms at least as long are looked for by samples of a text, shorter ones by their starts

_MOST_STEP = 32
_CUTS = re.compile(r"…+|\.{3,}")


class SecretForms:
    """The forms of secrets, and a quick look at whether one may stand in a text.

    There are hundreds of forms, and every text of every trial is checked. A text is sampled every ``step``
    characters, ``SHORTEST`` at a time; wherever a long form stands, one of the samples is a part of it, and
    ``_marks`` holds these parts of all forms. So a look takes the same time for any number of secrets.
    """

    def __init__(self) -> None:
        self._longest_first: tuple[str, ...] = ()
        self._short_starts: tuple[str, ...] = ()
        self._step = _MOST_STEP
        self._marks: set[str] = set()
        self._starts: set[str] = set()
        self._parts: set[str] = set()

    def with_more(self, forms: set[str]) -> SecretForms:
        more = SecretForms()
        every = {*self._longest_first, *forms}
        more._longest_first = tuple(sorted(every, key=lambda form: (-len(form), form)))
        more._short_starts = tuple({form[:SHORTEST]: None for form in every if len(form) < _LONG_FORM})
        longs = [form for form in forms if len(form) >= _LONG_FORM]
        more._step = min([self._step, *(len(form) - SHORTEST + 1 for form in longs)])
        more._marks = self._marks.union(
            part for form in longs for part in _parts(form[: more._step + SHORTEST - 1])
        )
        more._starts = self._starts.union(form[:SHORTEST] for form in forms)
        more._parts = self._parts.union(part for form in forms for part in _parts(form))
        return more

    def may_stand_in(self, text: str) -> bool:
        """Whether a form, or a part that was cut off, may stand in a text; never False where one does."""
        if not self._longest_first:
            return False
        for start in self._short_starts:
            if start in text:
                return True
        return not self._marks.isdisjoint(self._looked_at(text)) or bool(self._cut_parts(text))

    def removed_from(self, text: str) -> str:
        """Give the text with a mark in place of each form, also where the text was cut within one."""
        hits = self._marks.intersection(self._looked_at(text)) | self._cut_parts(text)
        hits.update(start for start in self._short_starts if start in text)
        forms = [form for form in self._longest_first if any(hit in form for hit in hits)] if hits else []
        for form in forms:
            parts, done, at = [], 0, text.find(form[:SHORTEST])
            while at >= 0:
                end = at + SHORTEST
                while end - at < len(form) and text[end : end + 1] == form[end - at]:
                    end += 1
                if end - at == len(form) or end == len(text) or text.startswith(CUT, end):
                    parts += [text[done:at], MARK]
                    done = end
                at = text.find(form[:SHORTEST], max(end if done == end else at + 1, at + 1))
            text = "".join([*parts, text[done:]])
        if _is_cut(text):
            for form in forms:
                text = _without_spelling_end(text, form)
        return text

    def _looked_at(self, text: str) -> list[str]:
        return [text[at : at + SHORTEST] for at in range(0, len(text) - SHORTEST + 1, self._step)]

    def _cut_parts(self, text: str) -> set[str]:
        # The pieces beside each cut, and at the end of the text, that may be part of a form.
        near, cuts = {""}, [*_CUTS.finditer(text)] if _is_cut(text) else []
        for end in (*(cut.start() for cut in cuts), len(text)):
            before = text[max(0, end - self._step - SHORTEST) : end]
            near.update(part for part in _parts(before) if part in self._starts)
        after = (text[cut.end() : cut.end() + SHORTEST] for cut in cuts)
        return near.union(part for part in after if part in self._parts) - {""}


def _is_cut(text: str) -> bool:
    return any(cut in text for cut in CUT)


def _parts(form: str) -> Iterator[str]:
    # Every piece of the form that is SHORTEST long.
    return (form[at : at + SHORTEST] for at in range(len(form) - SHORTEST + 1))


def _without_spelling_end(text: str, form: str) -> str:
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


# Parameters of an address that are credentials there, though such words are ordinary anywhere else.
IN_QUERY = frozenset({"key", "apikey", "sig", "signature", "code", "auth", "access"})

_VARIABLE = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|(?:^|_)(?:TOKEN|PAT|PASS|JWT|BEARER|CREDENTIALS?|(?:APP|CLIENT)?SECRET)$"
    r"|(?:^|_)(?:API|APP|ACCESS|SECRET|SERVICE|PRIVATE|ACCOUNT|MASTER|SIGNING|ENCRYPTION)_?KEY(?:_BASE|S)?$"
    r"|(?:^|_)(?:OPENAI|ANTHROPIC|GEMINI|AZURE)_KEY$",
    re.I,
)
# Such a name may also be that of a cache or a table: then the value has to look like a key.
_ANY_KEY = ("KEY", "KEYS")
_LIKE_A_KEY = r"(?=.*[0-9])(?=.*[A-Za-z])[\w.~+=-]{16,}"


class _Shape(NamedTuple):
    """A pattern, and ``literals`` of which one stands in every match: to look for those is much quicker.

    ``removal`` is the pattern of what is taken out of a text that has the shape, where that is another one:
    the end of one secret may be the beginning of the next one's match, and looking back finds both.
    """

    literals: tuple[str, ...]
    pattern: str
    removal: str = ""


def _shapes_of(*literals: str, then: str, begins: bool = False, removal: str = "") -> tuple[_Shape, ...]:
    """Give for each literal the pattern that it begins; ``begins`` where it stands within no word."""
    return tuple(
        _Shape((literal,), re.escape(literal) + (_at_word_start(literal) if begins else "") + then, removal)
        for literal in literals
    )


def _at_word_start(literal: str) -> str:
    """Look back over a literal: it does not stand within a word; the ``n`` of JSON's ``\\n`` is part of none.

    The look-back comes after the literal: a pattern that begins with a literal is found a hundred times as
    quickly as one that begins with a look-back.
    """
    literal = re.escape(literal)
    return rf"(?:(?<![A-Za-z0-9]{literal})|(?<=\\[nrt]{literal}))"


_BEARER = r"(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*"
_BASIC = r"(?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/]{12,}=*"
_SIGNED_IN = rf"(?i:(?<=bearer ){_BEARER}|(?<=basic ){_BASIC})"

# The first group of a match stays. No pattern backtracks over a text: it may be hostile, and of many
# megabytes. The group ``none`` matches where something only begins like a secret.
_SHAPES: tuple[_Shape, ...] = (
    *_shapes_of(
        "sk-",
        then=r"(?:(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_-]{16,}"
        rf"|{_at_word_start('sk-')}(?=[A-Za-z_-]{{0,99}}[0-9])[A-Za-z0-9_-]{{16,}})",
    ),
    *_shapes_of(
        *("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), then="[A-Za-z0-9]{16,}", begins=True
    ),
    *_shapes_of("AIza", then="[A-Za-z0-9_-]{30,}"),
    *_shapes_of("ya29.", then="[A-Za-z0-9_-]{20,}"),
    *_shapes_of("ghp_", "gho_", "ghu_", "ghs_", "ghr_", then="[A-Za-z0-9]{20,}"),
    *_shapes_of("github_pat_", "glpat-", then="[A-Za-z0-9_-]{20,}"),
    *_shapes_of("xox", then="[abeoprs]-[A-Za-z0-9-]{10,}"),
    *_shapes_of("xapp-", then="[A-Za-z0-9-]{10,}"),
    *_shapes_of("AKIA", "ASIA", then="[A-Z0-9]{16}(?![A-Z0-9])", begins=True),
    *_shapes_of("eyJ", then=r"[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}|(?P<none>))"),
    *_shapes_of("hf_", "gsk_", "npm_", "xai-", "pplx-", then="[A-Za-z0-9]{20,}", begins=True),
    *_shapes_of("shpat_", "dop_v1_", "r8_", then="[A-Za-z0-9]{20,}", begins=True),
    *_shapes_of("tvly-", then="(?:dev-)?[A-Za-z0-9]{20,}", begins=True),
    *_shapes_of("nvapi-", "GOCSPX-", "pypi-AgE", then="[A-Za-z0-9_-]{24,}", begins=True),
    _Shape(
        ("hooks.slack.com/services/",),
        r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
        r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}",
    ),
    *_shapes_of("SG.", then=r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _Shape(
        ("PRIVATE KEY-",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    *_shapes_of("bearer ", "Bearer ", "BEARER ", then=_BEARER, removal=_SIGNED_IN),
    *_shapes_of("basic ", "Basic ", "BASIC ", then=_BASIC, removal=_SIGNED_IN),
    _Shape(("@",), r"(://)[^/?#@\s\"'<>:]*:[^/?#@\s\"'<>]++(?=@)"),
    _Shape(
        ("key=", "oken=", "ecret=", "assword=", "ig=", "ature=", "Key=", "KEY="),
        r"([?&](?i:[\w-]*[_-])?(?i:api_?key|service_?key|key|token|secret|password|signature|sig)=)"
        r"(?!<redacted>)[^&#\s\"'<>\\]{8,}",
    ),
)

# Characters of which each literal holds one; first those that are rare in what models read and write.
_SIGNS = "@=J_Ix-Bb."

# Characters of a text from which on it is quicker to look beside each sign than for each literal.
_LONG_TEXT = 2_000


class _Literal(NamedTuple):
    """A literal as it stands around its sign, and the pattern of the shape that it belongs to."""

    text: str
    before: str
    after: str
    pattern: str


class _Sign(NamedTuple):
    """The literals that hold a sign, found by what stands before it or, if that is longer, after it."""

    sign: str
    literals: tuple[_Literal, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    def patterns_for(self, text: str) -> Iterable[str]:
        """Give the patterns that may match in a text which holds the sign; no other of its patterns does."""
        if len(text) < _LONG_TEXT:
            return [literal.pattern for literal in self.literals if literal.text in text]
        parts = text.split(self.sign)
        ends = [part for part in parts if part.endswith(self.before)] if self.before else []
        starts = [part for part in parts if part.startswith(self.after)] if self.after else []
        return {
            literal.pattern
            for literal in self.literals
            if (
                any(part.startswith(literal.after) for part in starts)
                if literal.after in self.after
                else any(part.endswith(literal.before) for part in ends)
            )
        }


def _sign(sign: str) -> _Sign:
    literals = tuple(
        _Literal(text, *_around(sign, text), shape.pattern)
        for shape in _SHAPES
        for text in shape.literals
        if next(sign for sign in _SIGNS if sign in text) == sign
    )
    after = tuple(it.after for it in literals if len(it.after) > len(it.before))
    before = tuple(it.before for it in literals if len(it.after) <= len(it.before))
    return _Sign(sign, literals, before, after)


def _around(sign: str, literal: str) -> tuple[str, str]:
    *_, before, after = literal.split(sign)
    return before, after


_BY_SIGN = tuple(map(_sign, _SIGNS))


# Compiled when a text first holds its literal: all of them together take longer than a whole offline trial.
@cache
def _compiled_shape(shape: str) -> re.Pattern[str]:
    return re.compile(shape)


def has_shape(text: str) -> bool:
    """Whether something in a text has the shape of a key."""
    for sign in _BY_SIGN:
        if sign.sign in text:
            for pattern in sign.patterns_for(text):
                if _compiled_shape(pattern).search(text):
                    return True
    return False


def without_shapes(text: str) -> str:
    """Give the text with a mark in place of whatever has the shape of a key."""
    for shape in _SHAPES:
        if _holds(shape, text):
            text = _compiled_shape(shape.removal or shape.pattern).sub(_mark, text)
    return text


def _holds(shape: _Shape, text: str) -> bool:
    return any(literal in text for literal in shape.literals)


def _mark(match: re.Match[str]) -> str:
    if match.lastgroup == "none":
        return match[0]
    return f"{match[1]}{MARK}" if match.re.groups and match[1] else MARK


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable holds a secret: its name says so, or its name and its value do."""
    if names_a_secret(name):
        return True
    return name.upper().endswith(_ANY_KEY) and _compiled_shape(_LIKE_A_KEY).fullmatch(value) is not None


@lru_cache(4096)
def names_a_secret(name: str) -> bool:
    return _VARIABLE.search(name) is not None


_HEADER = (
    r"(?i)authorization|^x-auth|cookie|passw|secret|session|signature|jwt|token(?!s)"
    r"|(?:api|app|access|service)-?key|(?:^|[-_])key(?:$|[-_])|key$|credential"
)


def is_secret_header(name: str) -> bool:
    return _compiled_shape(_HEADER).search(name) is not None

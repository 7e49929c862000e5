"""What secrets look like: shapes of keys, and names of variables, parameters and headers that tell of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from pytest_agenteval.text.redaction.spellings import MARK

IN_QUERY = frozenset({"key", "apikey", "sig", "signature", "code", "auth", "access"})
"""Parameters of an address that are credentials there, though such words are ordinary anywhere else."""

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
    """A pattern, and texts of which one stands in every match: to look for those costs next to nothing.

    ``removal`` is what to take out of a text that has the shape, where that is another pattern: one secret
    may end in what another begins behind, and looking back finds both.
    """

    literals: tuple[str, ...]
    pattern: str
    removal: str = ""


def _each(*literals: str, then: str, begins: bool = False, removal: str = "") -> tuple[_Shape, ...]:
    """Give for each literal the pattern that it begins; ``begins`` where it stands within no word."""
    return tuple(
        _Shape((literal,), re.escape(literal) + (_begun(literal) if begins else "") + then, removal)
        for literal in literals
    )


def _begun(literal: str) -> str:
    """Look back over a literal: it stands within no word; the letter of JSON's line break is part of none.

    It is written after the literal: a pattern is looked for by what it begins with, and by a literal a
    hundred times as quickly as by what may stand before one.
    """
    literal = re.escape(literal)
    return rf"(?:(?<![A-Za-z0-9]{literal})|(?<=\\[nrt]{literal}))"


_BEARER = r"(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*"
_BASIC = r"(?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/]{12,}=*"
_SIGNED_IN = rf"(?i:(?<=bearer ){_BEARER}|(?<=basic ){_BASIC})"

# What stays of a match is its first group. None goes over a text twice: it may be hostile, and of many
# megabytes. ``none`` is where what begins like a secret is over.
_SHAPES: tuple[_Shape, ...] = (
    *_each(
        "sk-",
        then=r"(?:(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_-]{16,}"
        rf"|{_begun('sk-')}(?=[A-Za-z_-]{{0,99}}[0-9])[A-Za-z0-9_-]{{16,}})",
    ),
    *_each(*("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), then="[A-Za-z0-9]{16,}", begins=True),
    *_each("AIza", then="[A-Za-z0-9_-]{30,}"),
    *_each("ya29.", then="[A-Za-z0-9_-]{20,}"),
    *_each("ghp_", "gho_", "ghu_", "ghs_", "ghr_", then="[A-Za-z0-9]{20,}"),
    *_each("github_pat_", "glpat-", then="[A-Za-z0-9_-]{20,}"),
    *_each("xox", then="[abeoprs]-[A-Za-z0-9-]{10,}"),
    *_each("xapp-", then="[A-Za-z0-9-]{10,}"),
    *_each("AKIA", "ASIA", then="[A-Z0-9]{16}(?![A-Z0-9])", begins=True),
    *_each("eyJ", then=r"[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}|(?P<none>))"),
    *_each("hf_", "gsk_", "npm_", "xai-", "pplx-", then="[A-Za-z0-9]{20,}", begins=True),
    *_each("shpat_", "dop_v1_", "r8_", then="[A-Za-z0-9]{20,}", begins=True),
    *_each("tvly-", then="(?:dev-)?[A-Za-z0-9]{20,}", begins=True),
    *_each("nvapi-", "GOCSPX-", "pypi-AgE", then="[A-Za-z0-9_-]{24,}", begins=True),
    _Shape(
        ("hooks.slack.com/services/",),
        r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
        r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}",
    ),
    *_each("SG.", then=r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _Shape(
        ("PRIVATE KEY-",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    *_each("bearer ", "Bearer ", "BEARER ", then=_BEARER, removal=_SIGNED_IN),
    *_each("basic ", "Basic ", "BASIC ", then=_BASIC, removal=_SIGNED_IN),
    _Shape(("@",), r"(://)[^/?#@\s\"'<>:]*:[^/?#@\s\"'<>]++(?=@)"),
    _Shape(
        ("key=", "oken=", "ecret=", "assword=", "ig=", "ature=", "Key=", "KEY="),
        r"([?&](?i:[\w-]*[_-])?(?i:api_?key|service_?key|key|token|secret|password|signature|sig)=)"
        r"(?!<redacted>)[^&#\s\"'<>\\]{8,}",
    ),
)

_SIGNS = "@=J_Ix-Bb."
"""Characters of which each literal holds one, those first that are rare in what models read and write."""

_LONG = 2_000
"""Characters from which on it is quicker to look beside each sign than for each literal."""


class _Literal(NamedTuple):
    """A literal as it stands around its sign, and the pattern of the shape that it belongs to."""

    text: str
    before: str
    after: str
    pattern: str


class _Sign(NamedTuple):
    """The literals that hold a sign: sought beside it by what stands before it, else by what stands after."""

    sign: str
    literals: tuple[_Literal, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    def patterns_for(self, text: str) -> Iterable[str]:
        """Give the patterns that may match in a text which holds the sign: no other does."""
        if len(text) < _LONG:
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
def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(shape)


def has_shape(text: str) -> bool:
    """Whether something in a text has the shape of a key."""
    for sign in _BY_SIGN:
        if sign.sign in text:
            for pattern in sign.patterns_for(text):
                if _compiled(pattern).search(text):
                    return True
    return False


def without_shapes(text: str) -> str:
    """Give the text with a mark in place of whatever has the shape of a key."""
    for shape in _SHAPES:
        if _holds(shape, text):
            text = _compiled(shape.removal or shape.pattern).sub(_mark, text)
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
    return name.upper().endswith(_ANY_KEY) and _compiled(_LIKE_A_KEY).fullmatch(value) is not None


@lru_cache(4096)
def names_a_secret(name: str) -> bool:
    """Whether the name of a variable, a setting or a parameter says that its value is secret."""
    return _VARIABLE.search(name) is not None


_HEADER = (
    r"(?i)authorization|^x-auth|cookie|passw|secret|session|signature|jwt|token(?!s)"
    r"|(?:api|app|access|service)-?key|(?:^|[-_])key(?:$|[-_])|key$|credential"
)


def is_secret_header(name: str) -> bool:
    """Whether a header's name says that its value is secret."""
    return _compiled(_HEADER).search(name) is not None

"""What secrets look like: shapes of keys, and names of variables, parameters and headers that tell of one."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from pytest_agenteval.redaction.spellings import MARK

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


def has_shape(text: str) -> bool:
    """Whether something in a text has the shape of a key."""
    for sign, literals in _LITERALS_BY_SIGN:
        if sign not in text:
            continue
        for literal, shape in literals:
            if literal in text and _compiled(shape).search(text):
                return True
    return False


def without_shapes(text: str) -> str:
    """Give the text with a mark in place of whatever has the shape of a key."""
    for literal, shape in _LITERALS:
        if literal in text:
            text = _compiled(shape).sub(_mark, text)
    return text


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

"""Shapes of keys are found quickly, and just as plain patterns find them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.text.secret_forms import MARK, has_shape, without_shapes

BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
PLAIN = (
    rf"sk-(?:ant|proj|svcacct|or-v1)-[A-Za-z0-9_-]{{16,}}|{BEGINS}sk-(?=[A-Za-z_-]{{0,99}}[0-9])[A-Za-z0-9_-]{{16,}}",
    rf"{BEGINS}(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{{16,}}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"(?:github_pat_|glpat-)[A-Za-z0-9_-]{20,}",
    r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}",
    rf"{BEGINS}A[KS]IA[A-Z0-9]{{16}}(?![A-Z0-9])",
    r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}",
    rf"{BEGINS}(?:hf|gsk|npm)_[A-Za-z0-9]{{20,}}",
    rf"{BEGINS}(?:(?:xai-|pplx-|tvly-(?:dev-)?|shpat_|dop_v1_|r8_)[A-Za-z0-9]{{20,}}"
    r"|(?:nvapi-|GOCSPX-|pypi-AgE)[A-Za-z0-9_-]{24,})",
    r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?<=[Bb]earer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*"
    r"|(?<=[Bb]asic )(?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/]{12,}=*",
    r"(?<=://)[^/?#@\s\"'<>:]*:[^/?#@\s\"'<>]++(?=@)",
    r"(?i)(?<=[?&])((?:[\w-]*[_-])?(?:api_?key|service_?key|key|token|secret|password|signature|sig)=)"
    r"(?!<redacted>)[^&#\s\"'<>\\]{8,}",
)
"""What is a key, in the fewest words: one pattern after the other goes over the whole text."""

BEGINNINGS = st.sampled_from(
    [
        *("sk-", "sk-proj-", "task-", "sk_live_", "rk_test_", "whsec_", "AIza", "ya29.", "ghp_", "ghr_"),
        *("github_pat_", "glpat-", "xoxb-", "xapp-", "AKIA", "ASIA", "eyJ", "hf_", "gsk_", "npm_", "xai-"),
        *(
            "tvly-dev-",
            "shpat_",
            "dop_v1_",
            "r8_",
            "nvapi-",
            "GOCSPX-",
            "pypi-AgE",
            "SG.",
            "bearer",
            "Bearer",
        ),
        *("hooks.slack.com/services/", "basic", "Basic", "://", "?key=", "&api_key=", "&x-token=", "?sig="),
        *("&KEY=", "?page=", "a_", "-----BEGIN PRIVATE KEY-----"),
    ]
)
BODIES = st.sampled_from(
    (
        "a1" * 20,
        "A1" * 8,
        "a1b2c3d4e5f6.g7h8i9j0k1l2m3n4.o5p6q7r8s9",
        "abcdefghijklmnop",
        "mina:pa:ss@host",
        "9",
        "",
    )
)
BETWEEN = st.sampled_from(["", " "])
REST = st.builds("".join, st.tuples(BODIES, st.text("aZ09_-./ =:@&\\n", max_size=9)))
TEXTS = st.lists(
    st.tuples(st.sampled_from(["", " ", "x", "\\n", "\n", "9"]), BEGINNINGS, BETWEEN, REST), max_size=6
)


def plainly(text: str) -> str:
    """Give the text as the plain patterns leave it."""
    for pattern in PLAIN:
        text = re.sub(pattern, lambda match: f"{match[1] if match.re.groups else ''}{MARK}", text)
    return text


@given(TEXTS, st.sampled_from([0, 300]))
def test_what_is_found_beside_rare_characters_is_what_plain_patterns_find(
    pieces: list[tuple[str, ...]], filler: int
) -> None:
    """Short texts are looked through for literals and long ones beside signs: neither misses a key."""
    text = "".join(map("".join, pieces)) + " " + "so it is; " * filler

    assert without_shapes(text) == plainly(text)
    if any(re.search(pattern, text) for pattern in PLAIN):
        assert has_shape(text)
    elif "eyJ" not in text:  # whose beginning is enough to look closely
        assert not has_shape(text)


@pytest.mark.parametrize(
    "header", ["Authorization: bearer ", "Authorization: Bearer ", "AUTHORIZATION: BEARER "]
)
def test_what_a_header_says_before_its_key_stays(header: str) -> None:
    """However the word is written: the key goes, the word stays."""
    assert without_shapes(f"{header}abcdefgh12345678") == f"{header}{MARK}"


@pytest.mark.parametrize(
    ("before", "word"),
    [
        ("Bearer ", "Bearer "),
        ("Bearer ", "basic "),
        ("hooks.slack.com/services/", "hooks.slack.com/services/"),
    ],
    ids=["bearer", "basic", "slack"],
)
def test_a_key_is_found_where_another_ends_in_the_word_before_it(before: str, word: str) -> None:
    """Two texts were put together without a blank: the second key is one all the same."""
    keys = "abcdefghij0123456789abcd", "zyxwvutsrq9876543210zyxw"

    clean = without_shapes(f"{before}{keys[0]}{word}{keys[1]}")

    assert not [key for key in keys if key in clean]

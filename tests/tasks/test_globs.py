"""Globs: which paths a pattern means."""

from __future__ import annotations

import re
import time
from fnmatch import translate
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.tasks.globs import MOST_ALTERNATIVES, matches, select

TABLE = """
*.md            a.md            yes
*.md            x/a.md          no
*.md            a.txt           no
A.md            a.md            no
?.md            한.md           yes
?.md            ab.md           no
a?b             a/b             no
*               a/b             no
*               .keep           yes
**              .keep           yes
**/*            x/.keep/y       yes
**              a/b.md          yes
**/a.md         a.md            yes
**/a.md         x/y/a.md        yes
**/a.md         x/ba.md         no
a/**            a/b             yes
a/**            a/b/c           yes
a/**            a               no
a/**            ab/c            no
a/**/b          a/b             yes
a/**/b          a/x/y/b         yes
a/**/b          a/xb            no
a/**/**/b       a/b             yes
**/a/**         x/a/y           yes
**/a/**         x/a             no
a**b            axyb            yes
a**b            a/b             no
***             a/b             no
a//b            a/b             yes
/a              a               no
a/              a               no
a/*             a/              no
./a             a               no
[ab].md         b.md            yes
[ab].md         c.md            no
[!ab].md        c.md            yes
[^ab].md        b.md            no
[a-c]x          bx              yes
[a-c]x          dx              no
[]a]            ]               yes
[a-]            -               yes
[!-a]           b               yes
[*]             *               yes
[*]             a               no
[ab             [ab             yes
a[/]b           a/b             no
{a,b}.md        b.md            yes
{a,b}.md        {a,b}.md        no
{a,b/c}/d       b/c/d           yes
{a,{b,c}d}      cd              yes
{,x}a           a               yes
a{,/**}         a               yes
a{,/**}         a/b/c           yes
{a}             {a}             yes
{a              {a              yes
a}              a}              yes
{{a,b}          {b              yes
a,b             a,b             yes
\\*             *               yes
\\*             a               no
\\**            *x              yes
\\{a,b}         {a,b}           yes
{a\\,b,c}       a,b             yes
a.c             abc             no
(a|b)           a               no
!a              b               no
~               ~               yes
"""
ROWS = [row.split() for row in TABLE.replace("\\\\", "\\").strip().splitlines()]

names = st.text(st.sampled_from("ab.-"), min_size=1, max_size=4)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
pieces = st.sampled_from(["a", "b", ".", "-", "*", "?", "[ab]", "[!a]", "[a-b]", "**"])
plain = st.lists(pieces, min_size=1, max_size=4).map("".join)
patterns = st.lists(st.just("**") | plain, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(("pattern", "path", "fits"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_patterns_mean_what_they_mean_in_a_shell(pattern: str, path: str, fits: str) -> None:
    """Stars, sets, braces and backslashes are read alike by every tool and grader."""
    assert matches(pattern, path) == (fits == "yes")


def by_trying(pattern: list[str], path: list[str]) -> bool:
    """Say the same in the plainest way: try every number of folders, and the standard library's names."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        least = 1 if len(pattern) == 1 else 0
        return any(by_trying(pattern[1:], path[taken:]) for taken in range(least, len(path) + 1))
    return (
        bool(path)
        and re.match(translate(pattern[0]), path[0]) is not None
        and by_trying(pattern[1:], path[1:])
    )


@given(patterns, paths)
def test_a_pattern_fits_what_trying_every_way_fits(pattern: str, path: str) -> None:
    """The quick way says what the slow way says."""
    assert matches(pattern, path) == by_trying(pattern.split("/"), path.split("/"))


@given(st.lists(st.text(st.characters(exclude_characters="/"), min_size=1), min_size=1).map("/".join))
def test_a_path_with_all_its_signs_escaped_fits_itself(path: str) -> None:
    """A backslash takes away every special meaning, whatever the name holds."""
    escaped = "".join(letter if letter == "/" else f"\\{letter}" for letter in path)

    assert matches(escaped, path)
    assert not matches(escaped, f"{path}x")


@given(patterns, st.lists(paths))
def test_what_is_selected_keeps_its_order(pattern: str, found: list[str]) -> None:
    """Selecting leaves out and changes nothing else, also where a path comes twice."""
    assert select(pattern, iter(found)) == [path for path in found if matches(pattern, path)]


@given(st.lists(st.lists(names, min_size=2, max_size=3), min_size=1, max_size=3), paths)
def test_braces_stand_for_each_of_their_alternatives(groups: list[list[str]], path: str) -> None:
    """A pattern with braces fits what any of the patterns without them fits."""
    pattern = "/".join("{" + ",".join(group) + "}" for group in groups)

    assert matches(pattern, path) == any(matches("/".join(choice), path) for choice in product(*groups))


@given(
    st.text(st.sampled_from("ab/*?[]{},!^-\\"), max_size=20),
    st.text(st.sampled_from("ab/*[]{},\\"), max_size=8),
)
def test_any_text_is_a_pattern(pattern: str, path: str) -> None:
    """No pattern is wrong: what has no meaning stands for itself."""
    assert matches(pattern, path) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "*b", "a" * 250),
        ("**/a/" * 30 + "b", "/".join("a" * 100)),
        ("[ab]*" * 30 + "c", "ab" * 120),
        ("{a,b}" * 50, "a" * 50),
        ("{*a,*}" * 9 + "b", "a" * 250),
        ("{" * 3000 + "a,b" + "}" * 3000, "a"),
        ("{a," * 3000, "a"),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """Patterns come from models: none may hold up a run, whatever it is made of."""
    began = time.monotonic()
    assert not matches(pattern, path)
    assert time.monotonic() - began < 20


def test_braces_that_mean_too_many_patterns_fit_nothing() -> None:
    """A thousand alternatives are read; beyond, the pattern means nothing."""
    most = ",".join(map(str, range(MOST_ALTERNATIVES)))

    assert matches("{" + most + "}", "999")
    assert not matches("{" + most + ",x}", "999")

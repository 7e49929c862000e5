"""README, Start and the pages of the benchmarks exist in three languages, with equal commands and figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.documentation import DOCS, LANGUAGES, ROOT

SECTIONS = ("start", "benchmarks")
"""The sections that every language has in full, besides README and the front page."""

BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    \S.*$", re.MULTILINE)
REMARK = re.compile(r"(?:^|(?<=\s))#\s.*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
TARGET = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
FIGURE = re.compile(r"\d[\d,.]*\d|\d(?= ?%)")
"""Numbers of several digits, and percentages: small ones are words in one language, digits in another."""


def _pages() -> list[str]:
    """Give the English pages, from the project's root, that have to exist in each language."""
    pages = [page for section in SECTIONS for page in sorted((DOCS / section).glob("*.md"))]
    return ["README.md", "docs/index.md", *(str(page.relative_to(ROOT)) for page in pages)]


def _in(language: str, page: str) -> Path:
    if page == "README.md":
        return ROOT / f"README.{language}.md"
    return DOCS / language / Path(page).relative_to("docs")


def _code(text: str) -> list[str]:
    """Give every block and command without its remarks, which each language writes in its own words."""
    blocks = [*BLOCK.findall(text), *COMMAND.findall(BLOCK.sub("", text))]
    return ["\n".join(line.rstrip() for line in REMARK.sub("", each).splitlines()) for each in blocks]


def _prose(text: str) -> str:
    return re.sub(r"<!--.*?-->", "", COMMAND.sub("", BLOCK.sub("", text)), flags=re.DOTALL)


def _names(text: str) -> Counter[str]:
    return Counter(CODE.findall(_prose(text)))


def _figures(text: str) -> Counter[str]:
    words = TARGET.sub("", CODE.sub("", _prose(text)))
    return Counter(number.rstrip(".,") for number in FIGURE.findall(words))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", _pages())
def test_a_page_has_equal_commands_names_and_figures_in_each_language(page: str, language: str) -> None:
    """Only words differ: a command, an option or a figure that changes changes in all languages."""
    english = (ROOT / page).read_text(encoding="utf-8")
    theirs = _in(language, page).read_text(encoding="utf-8")

    assert _code(theirs) == _code(english)
    assert _names(theirs) == _names(english)
    assert _figures(theirs) == _figures(english)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_of_a_language_is_left_over(language: str) -> None:
    """A page whose English original is gone, or is not written in three languages, would grow old unseen."""
    expected = {_in(language, page) for page in _pages()}
    found = {*(DOCS / language).rglob("*.md"), *ROOT.glob(f"README.{language}.md")}

    assert found == expected

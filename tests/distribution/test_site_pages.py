"""What the site needs, checked without building it: the index lists all pages, links name headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LANGUAGES = [folder for folder in (DOCS, DOCS / "ko", DOCS / "ja") if (folder / "index.md").is_file()]
LINK = re.compile(r"\]\(([^()\s#]*)#([^()\s]+)\)")


def _pages(folder: Path) -> list[Path]:
    """Give the pages of one language."""
    others = {language for language in LANGUAGES if language != folder and folder in language.parents}
    return [page for page in sorted(folder.rglob("*.md")) if not others & set(page.parents)]


def _anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = [
        re.sub(r"\[(.*?)\]\(.*?\)|[`*]", r"\1", heading)
        for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("folder", LANGUAGES, ids=lambda folder: folder.name)
def test_the_table_of_the_index_lists_every_page_once(folder: Path) -> None:
    """It is the navigation of the site and of llms.txt; its order is theirs."""
    index = folder / "index.md"
    rows = re.findall(r"^\|.*\|$", index.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [(folder / path).resolve() for row in rows for path in re.findall(r"\]\((\S+?\.md)\)", row)]
    own = [page for page in listed if page in set(_pages(folder))]
    assert sorted(own) == [page for page in _pages(folder) if page != index]


def test_links_name_headings_that_are_there() -> None:
    """`page.md#heading` of README and docs is a heading of that page."""
    lost = []
    for page in [*ROOT.glob("README*.md"), *DOCS.rglob("*.md")]:
        for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / path).resolve() if path else page
            if "://" not in path and target.suffix == ".md" and anchor not in _anchors(target):
                lost.append((page.relative_to(ROOT).as_posix(), f"{path}#{anchor}"))
    assert lost == []

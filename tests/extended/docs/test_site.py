"""The site has every page, in HTML and Markdown; what leads nowhere fails its build."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.extended.docs.sites import ROOT, build_site, small_project, translated_project, write_page

pytest.importorskip("furo", reason="the extra docs is not installed")
pytest.importorskip("myst_parser", reason="the extra docs is not installed")

DOCS = ROOT / "docs"
ENGLISH = sorted(
    page.relative_to(DOCS).with_suffix("").as_posix()
    for page in DOCS.rglob("*.md")
    if page.relative_to(DOCS).parts[0] not in ("ko", "ja")
)
INDEX = "# Shop\n\nIt sells.\n\n| section | pages |\n|---|---|\n| Guides | [One](guides/one.md) |\n"
PAGES = {"docs/index.md": INDEX, "docs/guides/one.md": "# One\n\n## A part\n\nText.\n", "LICENSE": "MIT\n"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the project's site, in three languages."""
    out = tmp_path_factory.mktemp("site")
    built = build_site(translated_project(tmp_path_factory.mktemp("project")), out)
    assert built.returncode == 0, built.stderr
    return out


def test_each_page_is_there_as_html_and_as_markdown(site: Path) -> None:
    """The Markdown lies beside the HTML, under the same name."""
    assert [name for name in ENGLISH if not (site / f"{name}.html").is_file()] == []
    assert [name for name in ENGLISH if not (site / f"{name}.md").is_file()] == []
    options = (site / "reference" / "options.md").read_text(encoding="utf-8")
    assert options == (DOCS / "reference" / "options.md").read_text(encoding="utf-8")


def test_each_page_is_in_the_navigation_and_in_llms_txt(site: Path) -> None:
    """Both have the sections of docs/index.md; llms.txt has a sentence for each page."""
    front = (site / "index.html").read_text(encoding="utf-8")
    tree = front[front.index('<div class="sidebar-tree">') :]
    listed = set(re.findall(r'class="reference internal" href="([\w/-]+)\.html"', tree))
    assert set(ENGLISH) - {"index"} <= listed
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# pytest-agenteval"
    assert lines[2].startswith("> ")
    assert [line[3:] for line in lines if line.startswith("## ")] == (
        ["Start", "Guides", "Concepts", "Reference", "Benchmarks", "Project"]
    )
    links = dict(re.findall(r"^- \[.+\]\((\S+)\.md\): (.+)$", "\n".join(lines), re.MULTILINE))
    assert set(links) == set(ENGLISH) - {"index"}


def test_llms_full_txt_is_all_pages(site: Path) -> None:
    """The changelog and the guide for contributors are left out."""
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert [name for name in ENGLISH if (DOCS / f"{name}.md").read_text("utf-8").strip() not in full] == (
        ["project/changes", "project/contributing"]
    )


def test_every_link_of_every_page_leads_somewhere(site: Path) -> None:
    """Pages, headings, pictures and files, across languages; the Markdown's own links to pages, too."""
    lost = []
    headings = {
        page: set(re.findall(r'\bid="([^"]+)"', page.read_text("utf-8"))) for page in site.rglob("*.html")
    }
    for page in headings:
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            path, heading = urldefrag(link)
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            if re.match(r"[a-z]+:", link):
                continue
            if not target.is_file() or (heading and heading not in headings[target]):
                lost.append((page.relative_to(site).as_posix(), link))
    assert lost == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    loads = re.compile(r'(?:\bsrc="|url\(["\']?|@import ["\']?|<link [^>]*href=")(?:https?:)?//[^"\')>]*')
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    assert len(files) > 40
    assert [(file.name, found[0]) for file in files if (found := loads.search(file.read_text("utf-8")))] == []


def test_each_language_has_its_own_pages_and_links_the_others(site: Path) -> None:
    """`lang` is right, the switch leads to the same page where there is one, else to the first page."""
    for language, page in (("en", "index.html"), ("ko", "ko/index.html"), ("ja", "ja/index.html")):
        text = (site / page).read_text(encoding="utf-8")
        assert f'lang="{language}"' in re.search("<html[^>]*>", text)[0]  # type: ignore[index]
    page = (site / "ko" / "start" / "first-suite.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="(\S+)" lang="(\w\w)"', page)[:2] == [
        ("../../start/first-suite.html", "en"),
        ("../../ko/start/first-suite.html", "ko"),
    ]


@pytest.mark.parametrize("language", ["ko", "ja"])
def test_words_of_the_theme_are_in_the_language_of_the_page(site: Path, language: str) -> None:
    """Buttons, icons and links of headings, which a screen reader reads, too."""
    words = re.compile(
        r'aria-label="([A-Z][^"]*)|title="(Link to[^"]*)|(Made with)'
        r"|<title>([A-Z][^<]*)</title>\s*<(?:svg|path)"
    )
    pages = [page.read_text(encoding="utf-8") for page in (site / language).rglob("*.html")]
    assert len(pages) > 2
    assert {word[0] for text in pages for word in words.finditer(text)} == set()


@pytest.mark.parametrize(
    ("page", "text", "problem"),
    [
        ("docs/guides/one.md", "# One\n\n[x](two.md)\n", "two.md"),
        ("docs/guides/one.md", "# One\n\n[x](one.md#nothing)\n", "nothing"),
        ("docs/guides/one.md", "# One\n\n[x](../../NOTICE)\n", "NOTICE"),
        ("docs/guides/one.md", "# One\n\n![x](one.png)\n", "one.png"),
        ("docs/guides/two.md", "# Two\n\nNobody lists it.\n", "guides/two.md"),
        ("docs/ko/index.md", "# 가게\n\n[x](../guides/two.md)\n", "two.md"),
        ("docs/ko/index.md", "# 가게\n\n[x](../guides/one.md#nothing)\n", "nothing"),
    ],
    ids=["page", "heading", "file", "picture", "unlisted", "other language", "heading of another language"],
)
def test_what_leads_nowhere_fails_the_build(tmp_path: Path, page: str, text: str, problem: str) -> None:
    """The message names the page and what is missing."""
    project = small_project(tmp_path / "project", {**PAGES, page: text})
    built = build_site(project, tmp_path / "out")
    assert built.returncode != 0
    (line,) = [line for line in built.stderr.splitlines() if "WARNING" in line]
    assert problem in line
    assert page.rpartition("/")[2] in line


def test_files_of_the_repository_are_links_to_github_or_copies(tmp_path: Path) -> None:
    """The address is the one that GitHub's workflows give; without it the site has the file itself."""
    project = small_project(tmp_path / "project", PAGES)
    write_page(project / "docs/guides/one.md", "# One\n\n[the licence](../../LICENSE)\n")
    for repository, pattern in (
        ("mina/shop", r'href="https://github\.com/mina/shop/blob/main/LICENSE"'),
        ("", r'href="\.\./_downloads/\w+/LICENSE"'),
    ):
        out = tmp_path / (repository.replace("/", "-") or "copy")
        built = build_site(project, out, **({"GITHUB_REPOSITORY": repository} if repository else {}))
        assert built.returncode == 0, built.stderr
        assert re.search(pattern, (out / "guides" / "one.html").read_text(encoding="utf-8"))

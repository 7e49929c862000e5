"""How Sphinx builds the site from these pages: `.ci/docs OUT` runs it once for each language.

The pages are written for GitHub. This file adds what only the site needs: navigation from the table in
``index.md``, links to files outside this build, each page as Markdown, ``llms.txt`` and ``llms-full.txt``.
"""

from __future__ import annotations

import gettext
import os
import re
import shutil
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify
from sphinx.application import Sphinx
from sphinx.search import SearchLanguage
from sphinx.util import logging

logger = logging.getLogger(__name__)

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LANGUAGES = {"en": ("English", DOCS), "ko": ("한국어", DOCS / "ko"), "ja": ("日本語", DOCS / "ja")}
APPENDED = {
    "project/changes": ROOT / "CHANGELOG.md",
    "project/contributing": ROOT / ".github" / "CONTRIBUTING.md",
}
"""Pages that are one sentence with a link on GitHub. The site appends the linked file."""

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s:#]+)(#[^()\s]*)?\)")
LABEL = re.compile(r'(?<= aria-label=")[^"]+|(?<=<title>)[^<]+')
TOCTREE = "\n\n```{{toctree}}\n:hidden:\n:caption: {}\n\n{}\n```\n"

INTERFACE = {
    "ko": {
        "Next": "다음",
        "Previous": "이전",
        "Home": "처음",
        "On this page": "이 페이지에서",
        "Back to top": "맨 위로",
        "Skip to content": "본문으로 건너뛰기",
        "Link to this heading": "이 제목의 링크",
        "Made with": "테마:",
        "Please activate JavaScript to enable the search functionality.": "검색하려면 JavaScript를 켜세요.",
        "Language": "언어",
        "Contents": "목차",
        "Menu": "메뉴",
        "Expand": "펼치기",
        "Toggle site navigation sidebar": "메뉴 열고 닫기",
        "Toggle table of contents sidebar": "목차 열고 닫기",
        "Toggle Light / Dark / Auto color theme": "라이트 모드, 다크 모드, 자동 전환",
        "Light mode": "라이트 모드",
        "Dark mode": "다크 모드",
        "Auto light/dark, in light mode": "자동(지금은 라이트 모드)",
        "Auto light/dark, in dark mode": "자동(지금은 다크 모드)",
    },
    "ja": {
        "Next": "次へ",
        "Previous": "前へ",
        "Home": "ホーム",
        "On this page": "このページの内容",
        "Back to top": "トップに戻る",
        "Skip to content": "本文へスキップ",
        "Link to this heading": "この見出しへのリンク",
        "Made with": "テーマ：",
        "Please activate JavaScript to enable the search functionality.": "検索には JavaScript が必要です。",
        "Language": "言語",
        "Contents": "目次",
        "Menu": "メニュー",
        "Expand": "展開",
        "Toggle site navigation sidebar": "メニューを開閉",
        "Toggle table of contents sidebar": "目次を開閉",
        "Toggle Light / Dark / Auto color theme": "配色の切り替え（ライト、ダーク、自動）",
        "Light mode": "ライトモード",
        "Dark mode": "ダークモード",
        "Auto light/dark, in light mode": "自動（現在はライト）",
        "Auto light/dark, in dark mode": "自動（現在はダーク）",
    },
}
"""Words of the theme, which Sphinx does not translate."""

project = html_title = "pytest-agenteval"
extensions = ["myst_parser"]
exclude_patterns = ["ko", "ja"]
templates_path = [str(DOCS / "_templates")]
html_static_path = [str(DOCS / "_static")]
html_css_files = ["site.css"]
myst_heading_anchors = 6
myst_url_schemes = {"http": None, "https": None, "mailto": None}
myst_url_schemes |= {"page": {"url": "{{path}}"}, "heading": {"url": "{{path}}#{{fragment}}"}}
suppress_warnings = ["misc.highlighting_failure"]  # code blocks in languages that Pygments does not know
smartquotes = False  # `--option` keeps its hyphens
html_theme = "furo"
html_copy_source = html_show_sphinx = html_show_copyright = html_use_index = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "languages.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


class KoreanSearch(SearchLanguage):
    """Finds 점수 in 점수를: words that are not Latin are also indexed as pairs of letters."""

    lang = "ko"
    js_splitter_code = r"""
    var splitQuery = (query) => (query.match(/[\p{L}\p{N}_]+/gu) || []).flatMap((word) =>
      /^[\x00-\u02ff]*$/.test(word) || word.length < 3 ? [word]
        : [...word].slice(1).map((character, at) => word[at] + character));
    """

    def split(self, input: str) -> list[str]:
        """Give the words of a text, then the pairs."""
        words = super().split(input)
        others = [word for word in words if not re.fullmatch(r"[\x00-\u02ff]*", word)]
        return words + [word[at : at + 2] for word in others for at in range(len(word) - 1)]


class JapaneseSearch(KoreanSearch):
    """Finds 変更 in a sentence, which has no spaces."""

    lang = "ja"


class InterfaceWords(gettext.NullTranslations):
    """Translates the theme's words into one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.words = INTERFACE.get(language, {})

    def gettext(self, message: str) -> str:
        """Give the translation, else the word itself."""
        return self.words.get(message.strip(), message)


def sections(index: str) -> dict[str, list[tuple[str, str]]]:
    """Give the links in each row of the table of sections, as (text, page without ``.md``)."""
    rows = re.findall(r"^\| *([^|]+?) *\|(.*)\|$", index, re.MULTILINE)
    return {
        section: links
        for section, cells in rows
        if (links := [(text, path[:-3]) for text, path, _ in LINK.findall(cells) if path.endswith(".md")])
    }


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ +(.+?) *$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {slugify(re.sub(r"\[(.*?)\]\(.*?\)|[`*]", r"\1", heading)) for heading in headings}


def relative(target: Path, folder: Path) -> str:
    """Give the path from a folder, as links write it."""
    return Path(os.path.relpath(target, folder)).as_posix()


def appended(file: Path, folder: Path) -> str:
    """Give the file without its title, with links that hold from a page in the folder.

    A link to a heading that is gone leads to its page: the changelog is not rewritten when pages are.
    """

    def moved(link: re.Match[str]) -> str:
        target = (file.parent / link[2]).resolve()
        anchor = link[3] if link[3] and link[3][1:] in anchors(target) else ""
        return f"[{link[1]}]({relative(target, folder)}{anchor})"

    return LINK.sub(moved, file.read_text(encoding="utf-8").partition("\n")[2])


def address(app: Sphinx, docname: str, path: str, anchor: str) -> str:
    """Give the link target for the site: unchanged within this build, else another language or a file."""
    folder = (Path(app.srcdir) / docname).parent
    target = (folder / path).resolve()
    if not target.is_file() or app.env.path2doc(str(target)) in app.env.found_docs:
        return path + anchor  # MyST checks it
    for page, file in APPENDED.items():
        if target == file:
            target = DOCS / f"{page}.md"
            path = relative(target, folder)
    if target.suffix == ".md" and target.is_relative_to(DOCS):
        if anchor and anchor[1:] not in anchors(target):
            logger.warning("%s%s: that page has no such heading", path, anchor, location=docname)
        return f"{'heading' if anchor else 'page'}:{path.removesuffix('.md')}.html{anchor}"
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
        return f"{server}/{repository}/blob/main/{target.relative_to(ROOT).as_posix()}{anchor}"
    return f"path:{path}"  # no public address is known: MyST copies the file into the site


def read_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Before a page is parsed, append its file, adapt its links and add the navigation."""
    text = content[0]
    if docname in APPENDED and app.config.language == "en":
        text += appended(APPENDED[docname], (DOCS / docname).parent)
    app.env.markdown[docname] = text
    content[0] = LINK.sub(lambda link: f"[{link[1]}]({address(app, docname, link[2], link[3] or '')})", text)
    for section, links in sections(text).items() if docname == "index" else ():
        pages = [f"{label} <{page}>" for label, page in links if page in app.env.found_docs]
        content[0] += TOCTREE.format(section, "\n".join(pages)) if pages else ""
        if not pages:
            app.env.english[section] = links


def complete_page(app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object) -> None:
    """Link the same page in each language, or its first page; complete what the theme lacks for keys."""
    tree = str(context.get("furo_navigation_tree", ""))
    for section, links in app.env.english.items():
        tree += f'<p class="caption" role="heading"><span class="caption-text">{section}</span></p><ul>'
        for label, name in links:
            link = f"{'../' * page.count('/')}{name}.html"
            tree += (
                f'<li class="toctree-l1"><a class="reference" hreflang="en" href="{link}">{label}</a></li>'
            )
        tree += "</ul>"
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    context["body"] = str(context.get("body", "")).replace("<pre>", '<pre tabindex="0">')  # keys scroll it
    tags = '<link rel="icon" href="data:,">'  # no request for a favicon
    if page in app.env.markdown:
        tags += f'<link rel="alternate" type="text/markdown" href="{page.rpartition("/")[2]}.md">'
    context["metatags"] = f"{context.get('metatags', '')}{tags}"
    up = "../" * (page.count("/") + (app.config.language != "en"))
    context["languages"] = languages = []
    for code, (name, folder) in LANGUAGES.items():
        if (folder / "index.md").is_file():
            same = page if (folder / f"{page}.md").is_file() else "index"
            link = f"{up}{code}/{same}.html" if code != "en" else f"{up}{same}.html"
            languages.append({"code": code, "name": name, "link": link})


def write_markdown(app: Sphinx, error: Exception | None) -> None:
    """Write each page as Markdown beside its HTML, in English also llms.txt (llmstxt.org)."""
    if error:
        return
    pages, out = app.env.markdown, Path(app.outdir)
    for name, text in pages.items():
        (out / f"{name}.md").write_text(text, encoding="utf-8")
    if app.config.language != "en":
        return
    shutil.copytree(DOCS / "images", out / "images", dirs_exist_ok=True)  # which the Markdown and <img> name
    lines = [f"# {project}", "", f"> {first_sentence(pages['index'])}"]
    full = [pages["index"]]
    for section, links in sections(pages["index"]).items():
        lines += ["", f"## {section}", ""]
        for _, name in links:
            title = pages[name].partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({name}.md): {first_sentence(pages[name])}")
            full += [pages[name]] * (name not in APPENDED)
    (out / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")


def translate_labels(app: Sphinx, error: Exception | None) -> None:
    """Translate labels of buttons and icons, which the theme's templates hold as fixed English text."""
    words = INTERFACE.get(app.config.language)
    if error or not words:
        return
    for file in Path(app.outdir).rglob("*.html"):
        text = LABEL.sub(lambda label: words.get(label[0], label[0]), file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8", newline="\n")


def first_sentence(text: str) -> str:
    """Give the first sentence below a page's title, without links."""
    prose = (part for part in re.split(r"\n\s*\n", text) if re.match(r"[\w`*\[]", part))
    words = re.sub(r"\[(.*?)\]\([^)]*\)", r"\1", " ".join(next(prose, "").split()))
    return re.split(r"(?<=[.?!])\s", words)[0]


def _prepare(app: Sphinx) -> None:
    app.env.markdown = {}
    app.env.english = {}  # sections of the navigation that lead to English pages
    app.translator.add_fallback(InterfaceWords(app.config.language))


def setup(app: Sphinx) -> None:
    """Register all of the above with Sphinx."""
    app.add_search_language(KoreanSearch)
    app.add_search_language(JapaneseSearch)
    app.connect("builder-inited", _prepare)
    app.connect("source-read", read_page)
    app.connect("html-page-context", complete_page, priority=900)  # after the theme
    app.connect("build-finished", write_markdown)
    app.connect("build-finished", translate_labels)

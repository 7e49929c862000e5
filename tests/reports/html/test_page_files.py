"""The files that a page is made of: whose they are, and what they may not contain."""

import hashlib
import re
from importlib.resources import files

import pytest

from pytest_agenteval.reports.html_report import LIVE_SCRIPTS
from pytest_agenteval.reports.view_pages import SHARED_SCRIPTS

PAGE = files("pytest_agenteval") / "reports" / "html" / "page"
VENDORED = "vendor/preact-htm.js"
PAGES = [LIVE_SCRIPTS, *((*SHARED_SCRIPTS, f"served/{own}.js") for own in ("runs", "leaderboard"))]
SCRIPTS = sorted(path.name for path in PAGE.iterdir() if path.name.endswith(".js"))
SERVED = sorted(f"served/{path.name}" for path in (PAGE / "served").iterdir() if path.name.endswith(".js"))


def _text(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _part(name: str) -> str:
    """Give what stands in the vendored file of one file of npm."""
    return _text(VENDORED).split(f"/* {name} */\n")[1].split("\n/* end */")[0]


def test_vendored_file_is_the_one_that_was_recorded():
    """Nobody changes what is not ours without its record: the README has the file's hash."""
    assert f"sha256 of `preact-htm.js`: `{_sha256(_text(VENDORED))}`" in _text("vendor/README.md")


def test_vendored_preact_is_what_npm_publishes():
    """With its export line as it was, the part is npm's file to the byte."""
    body, names = _part("dist/preact.mjs").rsplit("return{", 1)
    exports = ",".join(" as ".join(reversed(pair.split(":"))) for pair in names.removesuffix("};").split(","))
    published = f"{body}export{{{exports}}};\n//# sourceMappingURL=preact.mjs.map\n"
    assert f"`{_sha256(published.replace('h as h', 'h'))}`" in _text("vendor/README.md")


def test_vendored_htm_is_what_npm_publishes():
    """With its export line as it was, the part is npm's file to the byte."""
    published = _part("dist/htm.mjs").replace("return function", "export default function", 1) + "\n"
    assert f"`{_sha256(published)}`" in _text("vendor/README.md")


@pytest.mark.parametrize("package", ["preact", "htm"])
def test_vendored_packages_come_with_their_licences(package):
    """What is handed on is handed on with its terms."""
    assert "Licen" in _text(f"vendor/{package}.LICENSE") or "LICENSE" in _text(f"vendor/{package}.LICENSE")


@pytest.mark.parametrize("name", [*SCRIPTS, *SERVED, VENDORED])
def test_scripts_stand_inline(name):
    """Nothing in a script ends or hides the element that it stands in."""
    assert not re.search(r"</script|<!--", _text(name), re.IGNORECASE)


@pytest.mark.parametrize("name", [*SCRIPTS, *SERVED])
def test_scripts_make_no_markup_and_ask_for_nothing(name):
    """Texts of transcripts become text nodes: no script of ours writes markup, runs texts, or goes online.

    One of the pages that are served asks, by a path of its own server; no file has that script.
    """
    forbidden = r"(inner|outer)HTML|insertAdjacent|\.write\(|(eval|Function|fetch|import)\(|XMLHttp|Storage"
    calls = re.findall(rf".*(?:{forbidden}).*", _text(name))
    found = [call.group() for call in re.finditer(rf"{forbidden}", _text(name))]
    assert found == (["fetch("] if name == "served/ask.js" else []), calls


def test_only_paths_of_the_own_server_are_asked_for():
    """Whatever a script hands over: an address elsewhere is refused before anything is sent."""
    asking = _text("served/ask.js")
    check = "if (!path.startsWith('/api/')) throw new Error('no address of this server');"
    assert asking.index(check) < asking.index("fetch(path, ")


def test_scripts_share_one_scope_without_sharing_names():
    """All scripts are one function of the page: a name that two of them declare would stop all of it."""
    declared = r"^(?:async )?(?:function|class|const|let) ([A-Za-z_$]+)"
    for scripts in PAGES:
        names = [name for script in scripts for name in re.findall(declared, _text(script), re.MULTILINE)]
        assert [name for name in names if names.count(name) > 1] == []


def test_our_scripts_stay_small():
    """The page's own scripts are a weight in every report, whose comments do not count."""
    lines = [line.strip() for name in SCRIPTS for line in _text(name).splitlines()]
    assert sum(len(line.encode()) + 1 for line in lines if not line.startswith("//")) < 160_000


def test_style_asks_for_nothing():
    """The style sheets name no file and no address."""
    sheets = [
        path for folder in (PAGE, PAGE / "served") for path in folder.iterdir() if path.name.endswith(".css")
    ]
    assert len(sheets) >= 7
    assert not re.search(r"url\(|@import", "".join(path.read_text(encoding="utf-8") for path in sheets))

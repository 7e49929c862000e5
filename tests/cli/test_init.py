"""``agenteval init``: what it writes passes at once, offline; what is there is left as it is."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.cli import project_files
from pytest_agenteval.cli.init import STARTERS
from pytest_agenteval.cli.main import main
from pytest_agenteval.cli.project_files import guide_page
from tests.cli.documents import valid_document
from tests.journals import trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

PARTIAL = {
    "python": {"where_is_it": 1.0, "refund": 0.67},
    "command": {"sunday": 1.0, "monday": 0.5},
    "tools": {"speed": 1.0, "marathon": 1.0},
    "workspace": {"shopping": 1.0, "standup": 0.75},
}
"""The scores of each kind's two tasks."""

CALLS = {
    "python": ["find_order"],
    "command": [],
    "tools": ["knots"],
    "workspace": ["read_note", "write_note"],
}
"""What the first task's agent calls."""


def init(capsys: pytest.CaptureFixture[str], *args: str, rc: int = 0) -> str:
    """Give what a command prints."""
    capsys.readouterr()
    assert main(["init", *args]) == rc
    printed = capsys.readouterr()
    return printed.err if rc else printed.out


def run_line(screen: str) -> str:
    """Give the command that is to be typed, which stands alone on its line."""
    lines = screen.splitlines()
    return lines[lines.index("run it, offline and without a key") + 1].strip()


def everything(folder: Path) -> Mapping[str, bytes]:
    """Give the content of all files."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", STARTERS)
def test_a_first_suite_passes_at_once(
    kind: str, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command that is printed, without a key: its calls in the transcript, and a partial score."""
    command = shlex.split(run_line(init(capsys, "--agent", kind)))
    assert Path(command[0]).name == "pytest"

    result = pytester.runpytest(*command[1:])

    assert result.ret == 0
    ended = trials(pytester.path)
    assert {name: round(trial.score or 0, 2) for name, trial in ended.items()} == PARTIAL[kind]
    first = next(iter(PARTIAL[kind]))
    assert [call.tool for call in ended[first].transcript.calls] == CALLS[kind]
    assert "Traceback" not in result.stdout.str()
    misses = [name for name, score in PARTIAL[kind].items() if score < 1]
    result.stdout.fnmatch_lines([f"*MISSED {PARTIAL[kind][name]}*{name}*" for name in misses])
    (workflow,) = yaml.safe_load(Path(".github/workflows/evals.yml").read_text("utf-8"))["jobs"].values()
    steps = [step.get("run", "") for step in workflow["steps"]]
    assert any(step.startswith(f"pytest {shlex.join(command[1:])} ") for step in steps)


def test_nothing_is_written_over(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """A second time all that is there is named, and stays; ``--force`` writes it, and adds nothing twice."""
    Path("AGENTS.md").write_text("# Ours\n", encoding="utf-8")
    Path(".gitignore").write_text("dist/", encoding="utf-8")
    assert "AGENTS.md (lines at its end)" in init(capsys)
    Path("evals/orders/suite.yaml").write_text("name: orders\n", encoding="utf-8")
    before = everything(pytester.path)

    refusal = init(capsys, rc=2)

    assert "evals/orders/suite.yaml" in refusal
    assert "cassettes/orders/where_is_it.chat/own-1.yaml" in refusal
    assert "--force" in refusal
    assert everything(pytester.path) == before
    init(capsys, "--force")
    assert "orders_bot:answer" in Path("evals/orders/suite.yaml").read_text("utf-8")
    assert Path("AGENTS.md").read_text("utf-8") == f"# Ours\n\n{guide_page().markdown}"
    assert Path(".gitignore").read_text("utf-8") == "dist/\n\n.agenteval/\n"


def test_a_suite_joins_the_project_that_is_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From any folder below: beside its other suites, at pytest's root, the workflow at Git's top."""
    (pytester.path / ".git").mkdir()
    project = pytester.path / "packages" / "shop"
    for path, text in {
        "pyproject.toml": "[project]\nname = 'shop'\n",
        "checks/old/suite.yaml": "name: orders\n",
        "src/shop/__init__.py": "",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(project / "src" / "shop")

    assert "'orders' already: " in init(capsys, rc=2)
    screen = init(capsys, "--suite", "my-orders")

    cd, _, command = run_line(screen).partition(" && ")
    assert cd == "cd ../.."
    monkeypatch.chdir(project)
    assert pytester.runpytest(*shlex.split(command)[1:]).ret == 0
    assert (project / "cassettes/checks/my-orders/where_is_it.chat/own-1.yaml").is_file()
    assert not (project / "pytest.ini").exists()
    workflow = (pytester.path / ".github/workflows/evals.yml").read_text("utf-8")
    assert 'working-directory: "packages/shop"' in workflow
    assert "pip install -e ." in workflow
    screen = init(capsys, "--agent", "tools")
    assert "left as it is: ../../.github/workflows/evals.yml" in screen
    assert "- run: pytest checks/units --agent-model=oracle" in screen


def test_the_root_is_pytests_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where only a setup.py makes it; where pytest cannot read its settings nothing is written."""
    pytester.makefile(".py", setup="")
    monkeypatch.chdir(pytester.mkdir("below"))
    assert json.loads(init(capsys, "--dry-run", "--json", "-"))["root"] == str(pytester.path)

    pytester.makefile(".ini", pytest="[pytest")
    assert "pytest cannot read its settings" in init(capsys, rc=2)
    assert (pytester.path / "pytest.ini").read_text("utf-8") == "[pytest"


def test_a_dry_run_tells_and_writes_nothing(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A named folder need not be there; the document says the same as what is then written."""
    told = init(capsys, "new/shop", "--dry-run", "--json", "-")
    assert everything(pytester.path) == {}

    assert "would write, in " in init(capsys, "new/shop", "--dry-run")
    written = valid_document("init", init(capsys, "new/shop", "--json", "-"))

    assert {**json.loads(told), "dry_run": False} == written
    there = {path.relative_to(written["root"]).as_posix() for path in map(Path, everything(pytester.path))}
    assert there == set(written["written"])
    assert written["run"].startswith("cd new/shop && ")
    assert Path("new/shop/pytest.ini").read_text("utf-8") == "[pytest]\ntestpaths = evals\n"


BOT = """
class Bot:
    def run(self, question: str) -> str:
        return answer(question)


def answer(question: str, system_prompt: str = "You work in a shop.") -> str:
    body = {"model": "m", "messages": [{"role": "system", "content": system_prompt},
                                       {"role": "user", "content": question}]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urlopen(request))["choices"][0]["message"]["content"]


def order(question: str, customer: int) -> str:
    return ""


def nothing() -> str:
    return ""


print("imported")
"""


def test_a_suite_around_a_function_is_one_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its printed commands work as they stand: recorded once, replayed without a server, prompts compared."""
    imports = "import json, os\nfrom urllib.request import Request, urlopen\n"
    write(pytester.path, {"support/bot.py": imports + BOT, "prompts/new.md": "Thank them."})
    written = json.loads(init(capsys, "support.bot:answer", "--json", "-"))
    assert written["written"] == ["evals/support/suite.yaml", "pytest.ini", ".gitignore"]
    record, replay, miss, compare = (step["line"] for step in written["steps"])
    assert written["run"] == record
    with ModelServer(lambda body, n: ReplyPlan(text="Hello! " + body["messages"][0]["content"])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        first = pytester.runpytest(*shlex.split(record)[1:])
        compared = pytester.runpytest(*shlex.split(compare)[1:])
    assert (first.ret, compared.ret) == (0, 0)
    assert miss in first.outlines
    compared.stdout.fnmatch_lines(["own: m *", "own: m@new *"])
    again = pytester.runpytest(*shlex.split(replay)[1:])
    again.assert_outcomes(passed=1, xfailed=1)


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ("support.bot", "support.bot is a module: name the function in it too, as in support.bot:answer"),
        (
            "support/bot.py:anser",
            "support.bot has no 'anser'; it has Bot, answer, nothing, order; did you mean 'answer'?",
        ),
        ("suport.bot:answer", "there is no module 'suport' in "),
        ("suport.bot:answer", "did you mean 'support.bot'?"),
        ("support.bot:order", "order(customer): nothing fills these parameters"),
        ("support.broken:answer", "support.broken:answer: importing it raised ValueError: no settings"),
        ("support.bot:nothing", "support.bot:nothing(), which takes nothing\n  expected a function with a"),
        (
            "support.bot:Bot --agent tools",
            "--agent is for an example, and support.bot:Bot is an agent of your own",
        ),
    ],
)
def test_a_wrong_function_is_one_line_with_what_is_there(
    named: str, complaint: str, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written; what the module prints does not get into the document."""
    there = {"support/bot.py": BOT, "support/broken.py": "raise ValueError('no settings')", "pytest.ini": ""}
    write(pytester.path, there)
    assert complaint in init(capsys, *named.split(), rc=2)
    assert not (pytester.path / "evals").exists()


def test_a_class_and_an_object_are_agents_too(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a parameter for the prompt a line says how it gets one; setuptools learns its own package."""
    project = {"pyproject.toml": f"{PROJECT}{SETUPTOOLS}", "shopbot/__init__.py": BOT + "bot = Bot()\n"}
    write(pytester.path, project)
    for number, name in enumerate(("Bot", "bot")):
        screen = init(capsys, f"shopbot:{name}", "--suite", f"s{number}")
        assert f"to compare prompts: give {name} a parameter `system_prompt`" in screen
        assert "or name the prompt's file in suite.yaml: prompts: {system: ../../prompts/system.md}" in screen
        # From then on the project has two packages, as setuptools sees it.
        assert ('include = ["shopbot", "shopbot.*"]' in screen) == (number == 0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--suite", "my orders"), "--suite=my orders: expected letters"),
        (("--example", "nobodys"), "unknown example 'nobodys'"),
        (("file.txt",), "file.txt: expected a folder"),
    ],
)
@pytest.mark.usefixtures("pytester")
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written."""
    Path("file.txt").touch()
    assert complaint in init(capsys, *arguments, rc=2)
    assert [path.name for path in Path().iterdir()] == ["file.txt"]


def test_templates_hold_no_words_of_a_recorder() -> None:
    """Recordings name the model's own address, no header that says who recorded them, and no key."""
    for kind in STARTERS:
        folder = files("pytest_agenteval.cli") / "templates" / kind / "cassettes"
        for path in Path(str(folder)).rglob("*.yaml"):
            text = path.read_text("utf-8")
            assert "127.0.0.1" not in text
            assert "authorization" not in text.lower()


def test_the_page_shows_what_is_printed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Screens and files of docs/start/first-suite.md, but for where the project and the programs are."""
    page = Path(__file__).parents[2].joinpath("docs", "start", "first-suite.md").read_text("utf-8")
    bot = page.partition("```python\n")[2].partition("```")[0]
    write(pytester.path, {"support/bot.py": bot})
    command, _, shown = page.partition("\n$ agenteval ")[2].partition("```")[0].partition("\n")
    printed = init(capsys, *command.split()[1:]).replace(str(pytester.path), "/home/mina/shop")
    assert re.sub(r"\S*/pytest evals", "pytest evals", printed) == shown
    assert f"```yaml\n{Path('evals/support/suite.yaml').read_text('utf-8')}```" in page

    command, _, shown = page.partition("\n$ pytest ")[2].partition("```")[0].partition("\n")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    replies = [ReplyPlan(text="Hello!"), ReplyPlan(text="We are open from 10:00 to 18:00 on Sundays.")]
    with ModelServer(lambda body, n: replies["open" in str(body)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        result = pytester.runpytest(*command.split())
    assert [line for line in shown.splitlines() if line and line not in result.outlines] == []


PROJECT = '[project]\nname = "shopbot"\nversion = "1"\n'
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'


PACKAGED: list[tuple[dict[str, str], str]] = [
    ({"shopbot/__init__.py": ""}, 'include = ["shopbot", "shopbot.*"]'),
    ({"shopbot/bot.py": "", "tests/test_a.py": "", "docs/a.md": ""}, 'include = ["shopbot", "shopbot.*"]'),
    ({"shopbot.py": ""}, 'py-modules = ["shopbot"]'),
    ({"shopbot.py": "", "pyproject.toml": f"{PROJECT}[tool.setuptools]\nzip-safe = false\n"}, "py-modules"),
    ({}, "packages = []"),
    ({"pyproject.toml": PROJECT, "shopbot/__init__.py": ""}, "include"),
    (
        {"pyproject.toml": "", "setup.py": "import setuptools; setuptools.setup()", "shop/a.py": ""},
        "include = shop, shop.*",
    ),
    (
        {"pyproject.toml": "", "setup.cfg": "[metadata]\nname = shopbot\n", "shopbot.py": ""},
        "py_modules = shopbot",
    ),
    ({"evals/old/suite.yaml": "name: old\n", "src/shopbot/__init__.py": ""}, ""),
    ({"pyproject.toml": f'{PROJECT}[tool.setuptools]\npackages = ["a"]\n', "a/b.py": ""}, ""),
    ({"pyproject.toml": "", "setup.cfg": "[options]\npackages = find:\n[metadata]\nname = a\n"}, ""),
]
"""Files of a project, and what `init` shows for its packaging; nothing where that is clear already."""


@pytest.mark.parametrize(("there", "lines"), PACKAGED)
def test_the_packages_of_a_project_are_named(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], there: dict[str, str], lines: str
) -> None:
    """setuptools refuses several top-level packages, and takes new folders for some: lines name its own."""
    write(pytester.path, {"pyproject.toml": f"{PROJECT}{SETUPTOOLS}", **there})

    screen = init(capsys)

    assert lines in screen
    assert ("packaging: " in screen) == bool(lines)
    assert "run: pip install -e ." in Path(".github/workflows/evals.yml").read_text("utf-8")


def test_a_project_of_several_packages_is_not_installed(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several top-level packages setuptools installs none: a step that installs them would always fail."""
    write(pytester.path, {"pyproject.toml": PROJECT, "shop/__init__.py": "", "core/__init__.py": ""})

    assert "packaging: " not in init(capsys)
    assert "pip install -e" not in Path(".github/workflows/evals.yml").read_text("utf-8")


def test_folders_that_setuptools_leaves_out_need_no_lines(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where suites lie among tests, nothing new is taken for a package."""
    there = {"shopbot/__init__.py": "", "tests/old/suite.yaml": "name: old\n"}
    write(pytester.path, {"pyproject.toml": f"{PROJECT}{SETUPTOOLS}", **there})

    assert "packaging: " not in init(capsys, "--agent", "tools")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_added_lines_end_as_those_of_the_file(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], end: bytes
) -> None:
    """`init` takes over the line ending of a file, and changes none of its lines."""
    before = {"AGENTS.md": "# Ours\n", ".gitignore": "build/\n"}
    there = {pytester.path / name: text.encode().replace(b"\n", end) for name, text in before.items()}
    for file, content in there.items():
        file.write_bytes(content)

    init(capsys)

    for file, content in there.items():
        added = file.read_bytes().removeprefix(content)
        assert 0 < len(added) < len(file.read_bytes())
        assert added.count(end) == added.count(b"\n")


class Distribution:
    """An installed package, of which nothing is known but where it came from."""

    def __init__(self, origin: Any) -> None:
        self._origin = json.dumps(origin) if origin else None

    def read_text(self, name: str) -> str | None:
        """Give what PEP 610 has pip write."""
        assert name == "direct_url.json"
        return self._origin


COMMIT = "0123456789012345678901234567890123456789"
GIT = {"vcs": "git", "commit_id": COMMIT}
FILL_IN = 'pip install "${PYTEST_AGENTEVAL:?fill in PYTEST_AGENTEVAL at the top of this workflow}"'


@pytest.mark.parametrize(
    ("origin", "files", "installs"),
    [
        (None, {}, [FILL_IN]),
        ({"url": "file:///tmp/a.whl", "archive_info": {}}, {}, [FILL_IN]),
        ({"url": "http://127.0.0.1:3141/a.whl", "archive_info": {}}, {}, [FILL_IN]),
        ({"url": "ssh://git@host/o/r", "vcs_info": GIT}, {}, [FILL_IN]),
        (
            {"url": "https://host/o/r", "vcs_info": GIT},
            {"requirements.txt": "httpx\n"},
            [
                f'pip install "pytest-agenteval @ git+https://host/o/r@{COMMIT}"',
                "pip install -r requirements.txt",
            ],
        ),
        (None, {"requirements.txt": "pytest-agenteval @ file:a.whl\n"}, ["pip install -r requirements.txt"]),
        (None, {"requirements-dev.txt": "pytest_agenteval==1\n"}, ["pip install -r requirements-dev.txt"]),
        (None, {"requirements.txt": "pytest-agenteval-more\n"}, [FILL_IN, "pip install -r requirements.txt"]),
        (
            None,
            {"pyproject.toml": f'{PROJECT}[dependency-groups]\ndev = ["pytest-agenteval"]\n'},
            ["pip install --group dev", "pip install -e ."],
        ),
        (
            None,
            {"pyproject.toml": f'{PROJECT}optional-dependencies.dev = ["pytest-agenteval[sql]>=1"]\n'},
            ['pip install -e ".[dev]"'],
        ),
    ],
)
def test_the_workflow_takes_no_strangers_package(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    origin: Any,
    files: dict[str, str],
    installs: list[str],
) -> None:
    """What the project requires is installed, else what is installed here; else one line is to be filled."""
    monkeypatch.setattr(project_files, "distribution", lambda name: Distribution(origin))
    write(pytester.path, files)

    screen = init(capsys)

    workflow = yaml.safe_load(Path(".github/workflows/evals.yml").read_text("utf-8"))
    steps = [step["run"] for step in workflow["jobs"]["evals"]["steps"] if "run" in step]
    assert steps[:-1] == installs
    assert ("the workflow: PYTEST_AGENTEVAL in " in screen) == (FILL_IN in installs)
    assert workflow.get("env", {}) == ({"PYTEST_AGENTEVAL": ""} if FILL_IN in installs else {})

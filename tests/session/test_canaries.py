"""One run in which everything leaks wherever it can: no file of it, and no line, holds a secret."""

from __future__ import annotations

import base64
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from pytest_agenteval.store.run_reader import load_run
from tests.forked_workers import run_python
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.text.spelled import SPELLED

# Put together here: nobody's scanner has to be told that these are none.
DIGITS = "0123456789" * 4
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cF" * 2
CANARIES = {
    "openai": "sk-" + "proj-" + LETTERS[:40],
    "anthropic": "sk-" + "ant-" + "api03-" + LETTERS[3:43],
    "google": "AI" + "za" + LETTERS[:35],
    "github": "gh" + "p_" + LETTERS[5:41],
    "slack": "xox" + "b-" + DIGITS[:12] + "-" + LETTERS[:24],
    "aws": "AK" + "IA" + "J7QK2W9XNM4PTR5B",
    "jwt": "ey" + "J" + LETTERS[:20] + ".ey" + "J" + LETTERS[4:34] + "." + LETTERS[9:40],
    "environment": 'w3ather/k+y "quoted" \\ schlüssel',
    "api_key_env": "plain-looking-login-77",
    "declared": "Trumpet.Marmalade.42",
    "password in an address": "hunter-two-hunter",
    "key in an address": "q7-query-key-q7",
    "header": "team-header-value-19",
    "pattern": "CUST-604812-ZX",
    "begins another": "plain-looking-login-77-and-longer",
}
ADDRESS = f"http://me:{CANARIES['password in an address']}@h/v1?key={CANARIES['key in an address']}"
KNOWN = (
    *("environment", "api_key_env", "declared", "password in an address", "key in an address", "header"),
    "begins another",
)
VARIABLES = {
    "WEATHER_API_KEY": CANARIES["environment"],
    "MY_MODEL_LOGIN": CANARIES["api_key_env"],
    "TRUMPET": CANARIES["declared"],
    "LONGER_TOKEN": CANARIES["begins another"],
}

CONFTEST = """
import contextvars
import json
import logging
import os
import urllib.error
import urllib.request
import warnings

import pytest

from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.records.evidence import Answer

LEAK = open(os.path.join(os.path.dirname(__file__), "leak.txt"), encoding="utf-8").read()
LATE = "short-lived-" + "login-31"


def post(text):
    try:
        urllib.request.urlopen(urllib.request.Request(os.environ["LEAK_TO"] + "/leak", text.encode())).read()
    except urllib.error.HTTPError as refused:
        refused.read()


def stream(path):
    words = [{"role": "user", "content": "hello"}]
    body = json.dumps({"model": "m", "stream": True, "max_tokens": 9, "messages": words, "input": words})
    headers = {"Content-Type": "application/json"}
    sent = urllib.request.Request(os.environ["LEAK_TO"] + path, body.encode(), headers)
    urllib.request.urlopen(sent).read()


class Leaky:
    tools = ("gossip",)

    async def run(self, task_input, ctx):
        reply = await ctx.chat.ask([{"role": "user", "content": LEAK}], tools=ctx.tools.specs)
        for call in reply.calls:
            await ctx.tools.call(call)
        contextvars.Context().run(post, LEAK)
        for path in ("/chat/completions", "/messages", "/responses"):
            stream(path)
        os.environ["LATE_API_KEY"] = LATE
        del os.environ["LATE_API_KEY"]
        print("printed", LEAK, LATE)
        logging.getLogger("leaky").warning("logged %s", LEAK)
        warnings.warn(LEAK.replace("\\n", " "))
        (ctx.workspace.path / "notes.md").write_text(LEAK + LATE, encoding="utf-8")
        if task_input["content"] == "crash":
            raise RuntimeError("crashed with " + LEAK)
        return Answer(reply.text + LEAK + LATE, {"state": {LEAK: [LEAK]}})


class Quoting:
    version = "1"

    def grade(self, evidence):
        if evidence.task_input["content"] == "break":
            raise ValueError(LEAK)
        cut = [LEAK[:length] + "…" for length in range(100, 400, 7)]
        checks = [Check("says " + LEAK, False, LEAK, LEAK + cut[0]), *(Check(c, True) for c in cut)]
        return Grade("quoting", 0.5, "because of " + LEAK, tuple(checks), details={"seen": LEAK})


def pytest_agenteval_register(registry):
    registry.agent("leaky", Leaky)
    registry.grader("quoting", Quoting)


@pytest.fixture(autouse=True)
def loud(request):
    print("a fixture says", LEAK)
    assert "stumble" not in request.node.name, LEAK
"""

TOOLS = """
from pytest_agenteval.tools.toolsets import tool_of


def _gossip(word: str) -> dict:
    \"\"\"Repeats a word.\"\"\"
    return {"heard": word, word: 1}


gossip = tool_of(_gossip, name="gossip", taped=True)
"""

DECLARED = """
provider: {name: brass, base: "http://127.0.0.1:9", secrets: [TRUMPET], headers: {X-Trumpet: "${TRUMPET}"}}
tools:
  - name: blow
    description: Blows.
    parameters: {type: object, properties: {}}
    request: {url: /}
    result: {path: a}
"""


def _forms(kind: str) -> Iterator[str]:
    """Give a secret as it may stand in a file."""
    secret = CANARIES[kind]
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, "")
    yield base64.b64encode(f"me:{secret}".encode()).decode()
    if kind in KNOWN:  # what is only known by its shape has to stand there as it is
        yield from (spell(secret) for spell in SPELLED.values())


LEAK = "\n".join(
    [
        *CANARIES.values(),
        *(f"Authorization: Basic {form}" for kind in CANARIES for form in _forms(kind)),
        *(form for kind in CANARIES for form in list(_forms(kind))[:4]),
        "the end",
    ]
)


CUT = "\n".join(CANARIES.values())
"""What streams say, in pieces of twelve characters."""


def _joined(cassette: str) -> str:
    """Join the pieces of each text in a cassette's streams, as a client would."""
    texts: dict[object, str] = defaultdict(str)
    for number, each in enumerate(yaml.safe_load(cassette)["interactions"]):
        for line in str(each["response"]["body"]["string"]).splitlines():
            if line.startswith("data: {"):
                for place, piece in _pieces(json.loads(line.removeprefix("data: "))):
                    texts[number, place] += piece or ""
    return "\n".join(texts.values())


def _pieces(event: dict[str, Any]) -> Iterator[tuple[object, str | None]]:
    """Give the pieces that an event of chat completions, Anthropic's messages or responses brings."""
    for choice in event.get("choices", ()):
        for name in ("content", "reasoning_content"):
            yield name, choice["delta"].get(name)
        for call in choice["delta"].get("tool_calls", ()):
            yield call["index"], call["function"]["arguments"]
    delta = event.get("delta")
    if isinstance(delta, str):
        yield (event["type"], event["output_index"]), delta
    elif delta:
        for name in ("thinking", "text", "partial_json"):
            yield (event.get("index"), name), delta.get(name)


def _write(root: Path, server: ModelServer, via: str) -> None:
    tasks = {name: {"id": name, "input": {"content": name}} for name in ("miss", "crash", "break", "stumble")}
    headers = f'params = {{extra_headers = {{X-Team-Auth-Token = "{CANARIES["header"]}"}}}}'
    files = {
        "leak.txt": LEAK,
        "conftest.py": CONFTEST,
        "evals/suite.yaml": "name: leaks\nagent: leaky\nkind: mixed\ntools: [tools.py, brass.yaml]\n",
        "evals/tools.py": TOOLS,
        "evals/brass.yaml": DECLARED,
        "pyproject.toml": f"""
[tool.agenteval]
redact = ['CUST-\\d{{6}}-\\w+']
[tool.agenteval.models]
other = {{id = "openai/x", api_base = "{ADDRESS}"}}
[tool.agenteval.models.here]
id = "openai/gpt-4o-mini"
via = "{via}"
api_base = "{server.openai_base}"
api_key_env = "MY_MODEL_LOGIN"
{headers if via == "litellm" else ""}
[tool.agenteval.models.third]
id = "openai/x"
{headers}
""",
        **{
            f"evals/{name}.json": json.dumps({**task, "graders": [{"name": "quoting"}]})
            for name, task in tasks.items()
        },
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def via() -> str:
    """How the model is sent requests; ``tests/extended/litellm`` has the run through litellm."""
    return "direct"


@pytest.fixture(scope="module")
def leaked(tmp_path_factory: pytest.TempPathFactory, via: str) -> dict[str, str]:
    """Give everything that a run and a look at it left behind, by name."""
    root, out = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("out")
    reply = ReplyPlan(text="echo: " + LEAK, calls=(("gossip", {"word": LEAK}),), reasoning=LEAK)
    cut = ReplyPlan(text="echo: " + CUT, calls=(("gossip", {"word": CUT}),), reasoning=CUT)
    environ = {**os.environ, **VARIABLES, "GITHUB_STEP_SUMMARY": str(out / "summary.md")}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others take time, and have no part in it
    with ModelServer(lambda request, n: cut if request.get("stream") else reply) as server:
        environ["LEAK_TO"] = server.openai_base
        _write(root, server, via)
        plugins = ["-p", "agenteval", "-p", "xdist.plugin"]
        words = ["-m", "pytest", *plugins, "evals", "--agent-model=here", "-vv", "-rA", "-n1"]
        recording = ["--agent-record=once", "--agent-record-chat=once", f"--junitxml={out / 'junit.xml'}"]
        done = run_python(*words, *recording, cwd=root, env=environ, timeout=120)
        headers = server.requests[0].headers
    sent = {name.lower(): value for name, value in headers.items()}
    assert sent.get("x-team-auth-token") == (CANARIES["header"] if via == "litellm" else None)
    script = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main(sys.argv[1:]))"
    reports = ["--json", str(out / "report.json"), "--markdown", str(out / "report.md")]
    report_run = run_python("-c", script, "report", "latest", *reports, cwd=root)
    assert report_run.returncode == 0, report_run.stderr
    found = {"terminal": done.stdout, "errors": done.stderr, "report": report_run.stdout}
    for path in [*out.rglob("*"), *root.glob(".agenteval/**/*"), *root.glob("cassettes/**/*")]:
        if path.is_file() and not path.is_symlink():
            top = out if path.is_relative_to(out) else root
            found[path.relative_to(top).as_posix()] = path.read_text(encoding="utf-8")
    joined = {f"{name}, joined": _joined(found[name]) for name in found if name.startswith("cassettes/")}
    return {**found, **joined, "run": str((root / ".agenteval/runs/latest").resolve())}


def test_the_canaries_were_really_let_out(leaked: dict[str, str]) -> None:
    """A run that holds no secret because it holds nothing would prove nothing."""
    names = " ".join(leaked)
    for part in (
        "transcripts-",
        "journal-",
        "run.json",
        "planned.json",
        "junit.xml",
        "summary.md",
        "report.json",
    ):
        assert part in names
    taped = {name.removeprefix("cassettes/") for name in leaked if name.startswith("cassettes/")}
    tried = ("break", "crash", "miss")
    assert taped >= {f"{name}.yaml" for name in tried} | {f"{name}.chat/here-1.yaml" for name in tried}
    assert "/leak" in leaked["cassettes/miss.yaml"]
    for name in ("terminal", "junit.xml"):
        assert leaked[name].count("<redacted>") + leaked[name].count("&lt;redacted&gt;") > 20
    for word in ("printed", "logged", "a fixture says", "crashed with", "UserWarning"):
        assert word in leaked["terminal"]
    run = load_run(Path(leaked["run"]))
    assert {entry.key.task: entry.ending for entry in run.entries} == {
        "miss": "failed",
        "crash": "errored",
        "break": "errored",
    }
    marks = ["<redacted>"] * len(CANARIES)
    streamed = leaked["cassettes/miss.chat/here-1.yaml, joined"]
    assert streamed.count("echo: " + "\n".join(marks)) == 3
    assert streamed.count(json.dumps({"word": "\n".join(marks)})) == 3
    assert any("heard" in text and "<redacted>" in text for name, text in leaked.items() if "yaml" in name)


@pytest.mark.parametrize("kind", CANARIES)
def test_no_canary_comes_out(leaked: dict[str, str], kind: str) -> None:
    """Results, cassettes, what their streams say, JUnit, reports, the terminal: 0 hits, however spelled."""
    hits = [
        (name, form, text[max(0, text.find(form) - 60) : text.find(form) + 80])
        for name, text in leaked.items()
        for form in _forms(kind)
        if form in text
    ]
    assert hits == []


def test_a_key_that_was_gone_again_does_not_come_out(leaked: dict[str, str]) -> None:
    """Set and deleted within one stretch of an agent: nobody could have looked at the variables meanwhile."""
    assert [name for name, text in leaked.items() if "short-lived-login-31" in text] == []


def test_what_is_left_is_still_json(leaked: dict[str, str]) -> None:
    """A mark stands where a secret stood, within its text: every line can be read."""
    for name, text in leaked.items():
        if name.endswith(".jsonl"):
            assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
        if name.endswith(".json"):
            json.loads(text)

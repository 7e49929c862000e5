"""Models that are named: what keeps a run from them is said before it starts, and how they are asked."""

from __future__ import annotations

import os
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.chat.local.vllm_chat import GPU_FILES
from pytest_agenteval.records.plan import Model
from pytest_agenteval.session.planning.preflight import called_live, check_keys, check_local_models
from pytest_agenteval.text.errors import UsageMistake
from tests.journals import latest_run
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import collected_ids, journaled, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

TWO = {
    "evals/suite.yaml": suite(),
    "evals/a/task.json": task("here"),
    "evals/b/task.json": task("there"),
}
CLAUDE = "--agent-model=scripted,claude"
MISSING = "--agent-model=claude: no key: the environment variable ANTHROPIC_API_KEY is not set"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_missing_key_ends_the_run_before_any_trial_starts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Exit status 4 and the variable's name, once; trials that need no key are not begun either."""
    write(pytester.path, TWO)
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))

    result = run(pytester, CLAUDE, "-p", "no:cacheprovider", workers=workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {MISSING}", "*--agent-model=rules"])
    printed = str(result.stdout) + str(result.stderr)
    assert printed.count("ANTHROPIC_API_KEY") == 1
    assert not any(word in printed for word in ("Traceback", "INTERNALERROR", "crashed", "passed"))
    assert not (pytester.path / ".agenteval").exists()
    assert list((pytester.path / "temporary").iterdir()) == []


PANEL = """
def pytest_agenteval_register(registry):
    registry.judge_panel("three", ("openai/gpt-4o", "claude", "gemini"))
"""


def test_every_missing_key_is_named_at_once(pytester: pytest.Pytester) -> None:
    """Who lacks two keys is told of both, of a panel's too; an alias says which variable holds its key.

    A model that may take one of several variables names them all. Collecting calls nothing.
    """
    judged = task("here", graders=[{"name": "judge", "config": {"rubric": "task_fulfilment"}}])
    table = "[tool.agenteval.models]\nmine = {id = 'openai/x', api_key_env = 'MY_KEY'}\n"
    write(
        pytester.path,
        {**TWO, "evals/a/task.json": judged, "conftest.py": PANEL, "pyproject.toml": table},
    )

    run(pytester, "--agent-model=gpt,gemini,mine").stderr.fnmatch_lines(
        [
            "*gpt: no key: *OPENAI_API_KEY*",
            "*gemini: *GEMINI_API_KEY or GOOGLE_API_KEY*",
            "*--agent-model=mine: no key: the environment variable MY_KEY is not set",
        ]
    )
    run(pytester, "--agent-judge=three").stderr.fnmatch_lines(
        ["*OPENAI_API_KEY*", "*ANTHROPIC_API_KEY*", "*GEMINI_API_KEY*"]
    )
    assert len(collected_ids(pytester, "--agent-model=claude")) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_key_is_wanted_for_what_is_selected_only(pytester: pytest.Pytester, workers: int) -> None:
    """A model whose trials are all deselected needs no key."""
    write(pytester.path, TWO)

    result = run(pytester, CLAUDE, "-k", "scripted", workers=workers)

    result.assert_outcomes(passed=2, deselected=0 if workers else 2)
    assert journaled(pytester.path) == ["here[scripted-1]", "there[scripted-1]"]


@pytest.mark.parametrize(
    ("mode", "there", "expected"),
    [
        ("off", True, True),
        ("none", False, False),
        ("once", True, False),
        ("once", False, True),
        ("new_episodes", True, False),
        ("new_episodes", False, True),
        ("all", True, True),
    ],
)
def test_each_way_of_recording_says_whether_a_key_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, there: bool, expected: bool
) -> None:
    """A key is wanted where the model would be asked for certain, or nothing is recorded yet."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    cassette = tmp_path / "claude-1.yaml"
    if there:
        cassette.touch()

    with pytest.raises(UsageMistake, match="ANTHROPIC_API_KEY") if expected else nullcontext():
        check_keys(called_live([(Model("claude", "anthropic/claude-x"), str(cassette))], mode))


def test_a_key_that_is_set_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is a good one only its provider can say; an empty one is none."""
    gemini = [Model("gemini", "gemini/gemini-x")]
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "anything")
    check_keys(gemini)
    monkeypatch.setenv("GOOGLE_API_KEY", "")
    with pytest.raises(UsageMistake):
        check_keys(gemini)


ONE = {"evals/suite.yaml": suite(), "evals/a/task.json": task("here")}
FOLDER = {"tiny/config.json": "{}"}
FEWER_BITS = """
[tool.agenteval.models]
tiny = {id = "hf/org/tiny", quantization = "4bit"}
served = {id = "vllm/org/tiny", quantization = "4bit"}
"""
PLAYED = "--agent-record-chat=none"
without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
without_gpu = pytest.mark.skipif(any(map(os.path.exists, GPU_FILES)), reason="there is a GPU")


def _refused(pytester: pytest.Pytester, *args: str) -> str:
    """Run, and give what the refusal says; nothing else may have come of it."""
    result = run(pytester, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not (pytester.path / ".agenteval").exists()
    printed = result.stderr.str()
    assert "Traceback" not in printed + result.stdout.str()
    return printed.strip().removeprefix("ERROR: ")


@without_torch
def test_what_is_not_installed_is_named_with_what_to_install(pytester: pytest.Pytester) -> None:
    """In one line, and without importing anything."""
    write(pytester.path, {**ONE, **FOLDER})
    for name in ("hf/org/tiny", "hf/./tiny"):
        assert _refused(pytester, f"--agent-model={name}") == (
            f"--agent-model={name}: needs torch and transformers: pip install 'pytest-agenteval[local]'"
        )


def test_a_folder_stands_in_a_test_id(pytester: pytest.Pytester) -> None:
    """As it is typed; an alias gives it a shorter name. One without a model is refused by its path."""
    alias = '[tool.agenteval.models]\nmine = {id = "hf/./tiny", dtype = "float32"}\n'
    write(pytester.path, {**ONE, "pyproject.toml": alias})
    ids = collected_ids(pytester, "--agent-model=hf/./tiny,mine")
    assert [id.rpartition("::")[2] for id in ids] == ["here[hf/./tiny-1]", "here[mine-1]"]
    expected = "expected the folder of a model, with its config.json; found none at"
    said = _refused(pytester, "--agent-model=hf/./tiny")
    assert said == f"--agent-model=hf/./tiny: {expected} {pytester.path / 'tiny'}"


@without_gpu
def test_fewer_bits_without_a_gpu_are_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any trial, for a server of vLLM's too; a judge's trial is one as well."""
    write(pytester.path, {**ONE, "pyproject.toml": FEWER_BITS})
    monkeypatch.setenv("PATH", "")
    said = _refused(pytester, "--agent-model=served")
    assert said.splitlines() == [
        "--agent-model=served: 4bit needs a GPU; leave `quantization` out",
        "--agent-model=served: no program 'vllm' on the PATH: pip install vllm, or name a server with "
        "api_base",
    ]


def test_nothing_is_missing_for_what_is_played(pytester: pytest.Pytester) -> None:
    """A run from cassettes needs no torch, no GPU and no vLLM: the trial's own cassette is looked for."""
    write(pytester.path, {**ONE, "pyproject.toml": FEWER_BITS})
    result = run(pytester, "--agent-model=tiny", PLAYED)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["agenteval: 1 trial of 1 task: tiny (hf/org/tiny, 4bit)*", "cassette_miss: *", "*greetings*"]
    )
    (model,) = latest_run(pytester.path).header.models
    assert (model.id, model.note) == ("hf/org/tiny", "4bit")


def test_a_parameter_that_no_model_in_this_process_obeys_is_refused(tmp_path: Path) -> None:
    """It would do nothing, and nobody would know."""
    (tmp_path / "config.json").touch()
    params = {"temperature": 0, "extra_body": {"guided_json": {}}, "frequency_penalty": 1}
    with pytest.raises(UsageMistake, match=r"frequency_penalty, extra_body\.guided_json: not supported"):
        check_local_models([Model("m", f"hf/{tmp_path}", params=params)], "--agent-model")


GUARD = """
import os
import sys
from pathlib import Path

def pytest_unconfigure(config):
    found = [name for name in sys.modules if name.partition(".")[0] == "litellm"]
    Path(__file__).with_name(f"{os.getpid()}.imported").write_text(str(len(found)))
"""
TASK: dict[str, Any] = {
    "id": "add",
    "input": {"content": "What is 1 + 2?"},
    "graders": [{"name": "answer_contains", "config": {"text": "3"}}],
}
SUITE = "name: sums\nkind: capability\nagent: tool_calling\n"


def asked(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *options: str) -> pytest.RunResult:
    """Ask the shipped aliases' models, at the address and with the key that the environment names."""
    tables = '[tool.agenteval.models]\nslow = {id = "gpt", via = "litellm"}\n'
    write(
        pytester.path,
        {
            "pyproject.toml": tables,
            "conftest.py": GUARD,
            "evals/suite.yaml": SUITE,
            "evals/add.json": TASK,
        },
    )
    with ModelServer([ReplyPlan(text="It is 3.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_base)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_base)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "sk-of-the-test")
        result = pytester.runpytest_subprocess("evals", "-s", *options)
        sent = [request.headers for request in server.requests]
    keys = {headers.get("authorization") or headers.get("x-api-key") for headers in sent}
    assert keys <= {"Bearer sk-of-the-test", "sk-of-the-test"}
    return result


def litellm_modules(pytester: pytest.Pytester) -> list[bool]:
    """Say of each process of the run whether it has imported any of litellm's modules."""
    return [path.read_text() != "0" for path in pytester.path.glob("*.imported")]


@pytest.mark.parametrize(
    ("workers", "processes"),
    [((), 1), (("-p", "xdist.plugin", "-n1"), 2)],
    ids=["one-process", "one-worker"],
)
def test_a_run_of_shipped_models_never_imports_litellm(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...], processes: int
) -> None:
    """Prices, keys and replies are there all the same; header and record say how the models were asked.

    The process from which tests fork has imported all of ours, and nothing of litellm.
    """
    result = asked(pytester, monkeypatch, "--agent-model=gpt,claude", *workers)

    result.assert_outcomes(passed=2)
    if not workers:  # whose own collection says it
        told = "*gpt (openai/gpt-6.1-sol, direct), claude (anthropic/claude-sonnet-5-5, direct)*"
        result.stdout.fnmatch_lines([told])
    assert litellm_modules(pytester) == [False] * processes
    result.stdout.no_fnmatch_line("*cost unknown*")
    models = latest_run(pytester.path).header.models
    assert [(model.name, model.via) for model in models] == [("gpt", "direct"), ("claude", "direct")]


def test_an_address_that_cannot_be_asked_is_refused_before_any_trial(pytester: pytest.Pytester) -> None:
    """Each model's problem is told at once, in words."""
    tables = (
        "[tool.agenteval.models]\n"
        'bare = {id = "openai/m", api_base = "127.0.0.1:8000/v1"}\n'
        'nameless = {id = "openai/", api_base = "http://127.0.0.1:8000/v1"}\n'
    )
    write(pytester.path, {"pyproject.toml": tables, "evals/suite.yaml": SUITE, "evals/add.json": TASK})

    result = pytester.runpytest("evals", "--agent-model=bare,nameless")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*--agent-model bare: expected an address that begins with http:// or https:// and a host; "
            "found '127.0.0.1:8000/v1'*",
            "*--agent-model nameless: 'openai/' names no model*",
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()

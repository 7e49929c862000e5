"""Models that run on this machine: what keeps them from it is said before anything starts."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_agenteval.chat.local.vllm_chat import GPU_FILES
from pytest_agenteval.records.plan import Model
from pytest_agenteval.session.planning.preflight import check_local_models
from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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
    (header,) = pytester.path.glob(".agenteval/runs/2*/run.json")
    (model,) = json.loads(header.read_text(encoding="utf-8"))["models"]
    assert (model["id"], model["note"]) == ("hf/org/tiny", "4bit")


def test_a_parameter_that_no_model_in_this_process_obeys_is_refused(tmp_path: Path) -> None:
    """It would do nothing, and nobody would know."""
    from pytest_agenteval.text.errors import UsageMistake

    (tmp_path / "config.json").touch()
    params = {"temperature": 0, "extra_body": {"guided_json": {}}, "frequency_penalty": 1}
    with pytest.raises(UsageMistake, match=r"frequency_penalty, extra_body\.guided_json: nothing that"):
        check_local_models([Model("m", f"hf/{tmp_path}", params=params)], "--agent-model")

"""What ``agenteval init`` writes, as other programs take it: setuptools, node and bash."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest

from pytest_agenteval.cli.schema import SCHEMA_NAMES, schema_named
from tests.cli.test_init import PACKAGED, PROJECT, SETUPTOOLS, init
from tests.journals import trials
from tests.suites import write

pytest_plugins = ["pytester"]

BUILD = "import setuptools.build_meta as build; build.get_requires_for_build_wheel()"


@pytest.mark.parametrize("there", [there for there, _ in PACKAGED])
def test_a_project_can_be_installed_as_before(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], there: dict[str, str]
) -> None:
    """With the lines that `init` shows, folders that it adds are not taken for packages."""
    pytest.importorskip("setuptools")
    write(pytester.path, {"pyproject.toml": f"{PROJECT}{SETUPTOOLS}", **there})
    before = pytester.run(sys.executable, "-c", BUILD)
    before_them, _, shown = init(capsys).partition(", else setuptools finds several packages\n")
    lines = [line.strip() for line in shown.splitlines() if line.startswith("    ")]
    settings = Path(before_them.rpartition(" ")[2] if lines else "pyproject.toml")
    text = settings.read_text("utf-8") if settings.is_file() else ""
    # Into the table that is there, else at the end.
    own = "\n".join(lines)
    text = text.replace(lines[0], own) if lines and lines[0] in text else f"{text}\n{own}\n"
    settings.write_text(text, encoding="utf-8")

    assert before.ret == 0
    assert pytester.run(sys.executable, "-c", BUILD).ret == 0


@pytest.mark.parametrize("program", ["node", "bash"])
def test_a_command_is_shown_in_other_languages(
    program: str, pytester: pytest.Pytester, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands in suite.yaml behind ``#`` is a whole program, which plays the same recordings."""
    needed = {"node": ["node"], "bash": ["bash", "curl", "jq"]}[program]
    if not all(map(shutil.which, needed)):
        pytest.skip(f"needs {' and '.join(needed)}")
    init(capsys, "--agent", "command")
    suite = Path("evals/museum/suite.yaml")
    text = suite.read_text("utf-8")
    (named,) = re.findall(rf"agent: {{command: \[{program}, (\S+)\]}}", text)
    shown = text.partition(f"[{program}, {named}]}}\n#\n")[2].partition("\n#\n")[0]
    code = "".join(f"{line.removeprefix('#   ')}\n" for line in shown.splitlines())
    Path("evals/museum", named).write_text(code, encoding="utf-8")
    agent = f"agent: {{command: [{program}, {named}]}}"
    suite.write_text(re.sub(r"^agent: .*$", agent, text, flags=re.MULTILINE), encoding="utf-8")

    assert pytester.runpytest("evals", "--agent-record-chat=none", "-k", "sunday").ret == 0

    assert trials(pytester.path)["sunday"].score == 1.0


@pytest.mark.parametrize("what", SCHEMA_NAMES)
def test_each_schema_is_one_that_validators_take(what: str) -> None:
    """Plain JSON, of the draft that it names."""
    schema = json.loads(json.dumps(schema_named(what)))

    jsonschema.validators.validator_for(schema, default=None).check_schema(schema)

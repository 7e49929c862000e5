"""What ``run.json`` says of the conditions under which a run was made."""

from __future__ import annotations

import json

import jsonschema
import pytest

from pytest_agenteval.store.run_folder import read_header
from pytest_agenteval.store.run_schemas import SCHEMAS
from tests.journals import run_folder
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ((), ("none", "off")),
        (("--agent-record=once", "--agent-record-chat=new_episodes"), ("once", "new_episodes")),
    ],
)
def test_a_run_tells_whether_its_tools_and_chats_were_played(
    pytester: pytest.Pytester, options: tuple[str, ...], conditions: tuple[str, str]
) -> None:
    """Scores on live answers and scores on recorded ones are not the same thing."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/suite.yaml": suite(), "evals/t.json": task("a")})
    run(pytester, "evals", "-q", *options).assert_outcomes(passed=1)
    header = read_header(run_folder(pytester.path))
    assert (header.record, header.record_chat) == conditions
    written = json.loads((run_folder(pytester.path) / "run.json").read_text(encoding="utf-8"))
    jsonschema.validate(written, SCHEMAS["run"])

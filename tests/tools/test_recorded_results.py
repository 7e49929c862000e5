"""What an agent is shown while its calls are recorded is what a replay will show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.tape import Library
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool_tape import ToolTape
from pytest_agenteval.tools.toolbox import ToolBox
from pytest_agenteval.tools.toolsets import load_tools
from tests.tools.http.provider import playing

DECLARED = """
provider: {{name: loop, base: "{base}", headers: {{X-Api-Key: "${{{secret}}}"}}, secrets: [{secret}]}}
tools:
  - {{name: look, description: look, request: {{url: /look}}}}
"""


@pytest.mark.parametrize("secret", ["LOOP_TOKEN", "LAW_OC"])
def test_a_provider_that_says_a_key_again_shows_it_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """Neither the model nor the transcript gets it, live as in the replay."""
    monkeypatch.setenv(secret, "abcdefgh-1234-secret")
    redactor = Redactor.from_environ()
    results = []
    with playing(lambda asked: (200, {"you": asked.headers["x-api-key"]})) as provider:
        (tmp_path / "t.yaml").write_text(DECLARED.format(base=provider.base, secret=secret))
        tools = load_tools("t.yaml", tmp_path)
        for mode in ("once", "none"):
            library, recorder = Library(tmp_path, redactor=redactor), Recorder(lambda: 0.0)
            tape = ToolTape(library.open(Path("x.yaml"), mode, "tool"), retry_command="")  # type: ignore[arg-type]
            box = ToolBox(recorder, tape=tape)
            box.offer(*tools.values())
            results.append(asyncio.run(box.call(ToolCall("c", 1, 0, "look", {}))).value)
            library.save()
    assert results == [{"you": "<redacted>"}] * 2

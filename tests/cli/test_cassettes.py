"""``agenteval cassettes migrate``: recorded requests of a project's tools become calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.cassettes.cassette_files import read_cassette
from pytest_agenteval.cassettes.interaction import http_request_of, tool_call
from tests.cli.conftest import Agenteval

pytest_plugins = ["pytester"]

TOOLS = """
provider:
  {name: weather, base: https://weather.example, headers: {X-Key: "${A_KEY}"}, secrets: [A_KEY]}
tools:
  - name: weather
    description: The temperature of a city.
    parameters: {type: object, properties: {city: {type: string}, days: {type: integer, default: 1}}}
    request: {url: /now, query: {q: "{city}", days: "{days}"}}
"""
OLD = """# By hand.
interactions:
- request: {method: GET, uri: 'https://weather.example/now?q=Lima&days=1', body: null, headers: {}}
  response: {status: {code: 200, message: OK}, headers: {}, body: {string: '{"degrees": 18}'}}
- request: {method: GET, uri: 'https://elsewhere.example/', body: null, headers: {}}
  response: {status: {code: 204, message: ''}, headers: {}, body: {string: null}}
version: 1
"""
TASK = """
id: lima
input: {content: How warm is it in Lima?}
reference_solution: {turns: [{calls: [{tool: weather, args: {city: Lima}}]}, {text: 18 degrees}]}
graders: [{name: answer_contains, config: {text: "18"}}]
"""


@pytest.fixture
def old(pytester: pytest.Pytester) -> Path:
    """Give the cassette of a project whose tool was recorded by an earlier version."""
    files = {
        "evals/suite.yaml": "name: s\nagent: tool_calling\nkind: regression\ntools: [tools.yaml]\n",
        "evals/tools.yaml": TOOLS,
        "evals/lima.yaml": TASK,
        "cassettes/lima.yaml": OLD,
    }
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return pytester.path / "cassettes" / "lima.yaml"


def test_requests_of_tools_become_calls_and_play_as_before(
    pytester: pytest.Pytester, agenteval_command: Agenteval, old: Path
) -> None:
    """A dry run changes nothing; what no tool makes stays; a second migration finds nothing to do."""
    dry = agenteval_command("cassettes", "migrate", "--dry-run")
    assert dry.status == 0
    assert dry.out.splitlines() == [
        "cassettes/lima.yaml: 1 request would become a call; of no tool: 1",
        "1 cassette of 1 to change",
    ]
    assert old.read_text(encoding="utf-8") == OLD
    pytester.runpytest_subprocess("evals", "--agent-model=oracle").assert_outcomes(passed=1)

    assert agenteval_command("cassettes", "migrate", "cassettes/lima.yaml").out.splitlines()[-1] == (
        "1 cassette of 1 changed"
    )

    call, other = read_cassette(old).interactions
    assert tool_call(call.request) == ("weather", {"city": "Lima", "days": 1})
    sent = http_request_of(call.response)
    assert sent is not None
    assert sent.uri == "https://weather.example/now?q=Lima&days=1"
    assert other.request.uri == "https://elsewhere.example/"
    assert old.read_text(encoding="utf-8").startswith("# By hand.\n")
    pytester.runpytest_subprocess("evals", "--agent-model=oracle").assert_outcomes(passed=1)
    assert agenteval_command("cassettes", "migrate").out.splitlines() == ["0 cassettes of 1 changed"]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_migrated(
    agenteval_command: Agenteval, old: Path
) -> None:
    """The exit status says so; a path that is not there is a mistake in use."""
    old.with_name("broken.yaml").write_text("interactions: {\n", encoding="utf-8")

    migrated = agenteval_command("cassettes", "migrate")

    assert (migrated.status, migrated.out.splitlines()[-1]) == (1, "1 cassette of 2 changed")
    assert "cassettes/broken.yaml:2" in migrated.err
    assert agenteval_command("cassettes", "migrate", "gone").status == 2

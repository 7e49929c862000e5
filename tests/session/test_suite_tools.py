"""Tools that a suite brings along: recorded once from a real server, then played without any."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agenteval.store.run_reader import load_run
from tests.journals import trials
from tests.suites import run, suite, task, write
from tests.tools.http.provider import Answer, Asked, Provider, playing

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

DECLARED = """
provider:
  name: weather
  base: {base}
  headers: {{X-Key: "${{WEATHER_KEY}}"}}
  secrets: [WEATHER_KEY]
tools:
  - name: weather
    description: 도시의 기온을 알려 줍니다.
    parameters:
      type: object
      properties: {{city: {{type: string}}, days: {{type: integer, default: 1}}}}
      required: [city]
    request: {{url: /now, query: {{city: "{{city}}", days: "{{days}}"}}}}
    result: {{fields: {{city: "{{city}}", degrees: main.temp}}}}
    matching: {{city: folded, days: ignore}}
"""
PYTHON = """
import httpx

from pytest_agenteval.tools.toolsets import tool_of


async def _weather(city: str) -> dict:
    async with httpx.AsyncClient() as client:
        reply = await client.get("{base}/now", params={{"city": city}}, headers={{"X-Key": "s3cret-key-1"}})
    return {{"city": city, "degrees": reply.json()["main"]["temp"]}}


weather = tool_of(_weather, name="weather", uses_http=True)
"""


def weather(asked: Asked) -> Answer:
    """Answer who has the key."""
    if asked.headers.get("x-key") != "s3cret-key-1":
        return 401, {"message": "no key"}
    return 200, {"main": {"temp": 18 if asked.query["city"] == "서울" else 7}, "도시": asked.query["city"]}


def asking(*cities: str, id: str = "t") -> dict[str, Any]:
    """Give a task whose model asks for these cities and passes on what it hears."""
    return {
        "id": id,
        "input": {"content": "날씨 알려줘."},
        "settings": {"tools": ["weather"]},
        "script": [
            *({"calls": [{"tool": "weather", "args": {"city": city}}]} for city in cities),
            {"text": "18도"},
        ],
        "graders": [{"name": "tool_called", "config": {"tools": ["weather"], "succeeded": True}}],
    }


def project(provider: Provider, way: str, *tasks: dict[str, Any], more: str = "") -> dict[str, Any]:
    """Give the files of a suite whose tool asks this server."""
    file, text = ("tools.yaml", DECLARED) if way == "declared" else ("tools.py", PYTHON)
    return {
        "pytest.ini": "[pytest]\n",
        "evals/suite.yaml": suite(more=f"tools: [{file}]\n{more}"),
        f"evals/{file}": text.format(base=provider.base),
        **{f"evals/{task['id']}.json": task for task in tasks},
    }


RECORDED: dict[str, tuple[Provider, str]] = {}
"""For each way: where the server stood, and the cassette of a run that asked it for one city."""


def recorded(pytester: pytest.Pytester, way: str, more: str = "") -> Provider:
    """Write the suite with its cassette, recorded once; the server is gone, and no key is known."""
    if way not in RECORDED:
        with pytest.MonkeyPatch.context() as environment, playing(weather) as provider:
            environment.setenv("WEATHER_KEY", "s3cret-key-1")
            write(pytester.path, project(provider, way, asking("서울")))
            run(pytester, "evals", "-q", "--agent-record=once", "--agent-results=none").assert_outcomes(
                passed=1
            )
            tape = (pytester.path / "cassettes/t.yaml").read_text(encoding="utf-8")
            RECORDED[way] = Provider(provider.base), tape
    gone, tape = RECORDED[way]
    write(pytester.path, {**project(gone, way, asking("서울"), more=more), "cassettes/t.yaml": tape})
    return gone


@pytest.mark.parametrize("way", ["declared", "python"])
def test_what_was_recorded_is_played_when_the_server_is_gone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The cassette mirrors the task's path, reads as Korean, and holds no key; a replay needs none."""
    monkeypatch.setenv("WEATHER_KEY", "s3cret-key-1")
    with playing(weather) as provider:
        write(pytester.path, project(provider, way, asking("서울", "부산", "서울")))
        run(pytester, "evals", "-q", "--agent-record=once").assert_outcomes(passed=1)
        request_count = len(provider.asked)
        write(pytester.path, {"evals/t.json": asking("제주")})
        run(pytester, "evals", "-q", "--agent-results=missed").assert_outcomes(errors=1)
        assert len(provider.asked) == request_count
    write(pytester.path, project(provider, way, asking("서울", "부산", "서울")))
    tape = (pytester.path / "cassettes" / "t.yaml").read_text(encoding="utf-8")
    assert "도시" in tape
    assert "s3cret-key-1" not in tape
    assert request_count == 3
    live = [(call.tape, call.result) for call in trials(pytester.path)["t"].transcript.calls]

    monkeypatch.delenv("WEATHER_KEY")
    run(pytester, "evals", "-q", "--agent-results=again").assert_outcomes(passed=1)
    again = load_run("latest", pytester.path / "again")
    (entry,) = again.entries
    played = [(call.tape, call.result) for call in again.trial(entry).transcript.calls]
    assert [tape for tape, _ in live] == ["live", "live", "live"]
    assert [tape for tape, _ in played] == ["hit", "hit", "hit"]
    assert [result for _, result in live] == [result for _, result in played]
    assert live[0][1] == {"city": "서울", "degrees": 18}


@pytest.mark.parametrize("way", ["declared", "python"])
def test_a_call_that_was_not_recorded_is_an_error_that_says_how(pytester: pytest.Pytester, way: str) -> None:
    """It names the nearest recording, what differs, and the command; nothing is sent.

    Where the suite says so, the model is shown an error and goes on, and the summary counts such calls.
    """
    recorded(pytester, way)
    write(pytester.path, {"evals/t.json": asking("서울", "제주")})

    result = run(pytester, "evals", "-v")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*cassettes/t.yaml: *제주*",
            "*expected: a recorded call*",
            "*nearest*서울*",
            "*--agent-record=new_episodes*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    recorded(pytester, way, more="on_miss: tool_error\n")
    write(pytester.path, {"evals/t.json": asking("제주", "서울")})
    forgiven = run(pytester, "evals", "-v")
    forgiven.assert_outcomes(passed=1)
    forgiven.stdout.fnmatch_lines(["*1 of 2 calls not recorded*"])


def _cassette(*held: tuple[str, int]) -> str:
    interactions = [
        {
            "request": {"method": "POST", "uri": "tool://weather", "body": json.dumps({"city": city})},
            "response": {
                "status": {"code": 200, "message": "OK"},
                "body": {"string": json.dumps({"result": {"degrees": degrees}})},
            },
        }
        for city, degrees in held
    ]
    return json.dumps({"version": 1, "interactions": interactions}, ensure_ascii=False)


def test_what_a_suite_names_in_vain_is_told_at_its_line(pytester: pytest.Pytester) -> None:
    """With the file, the key, and what is near."""
    files = {
        "evals/tools.yaml": DECLARED.format(base="http://127.0.0.1:9"),
        "evals/a/suite.yaml": suite("a", more="tools: [../tols.yaml]\n"),
        "evals/a/t.json": asking("서울"),
        "evals/b/suite.yaml": suite("b", more="cassettes: [shard]\n"),
        "evals/b/t.json": asking("서울"),
    }
    write(pytester.path, {"pytest.ini": "[pytest]\n", **files})
    result = run(pytester, "evals")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["evals/a/suite.yaml:4: tools*0*", "*a file*", "*tols.yaml*not there*", "*tools.yaml*"]
    )
    result.stdout.fnmatch_lines(["evals/b/suite.yaml:4: cassettes*0*", "*file or folder*", "*shard*"])


def test_recorded_calls_that_nobody_played_are_told_where_somebody_looks(pytester: pytest.Pytester) -> None:
    """Under ``-v``: how many, and where; and those that no tool can make any more. Else nothing of it."""
    held = json.loads(_cassette(("서울", 18), ("부산", 2)))
    held["interactions"].append(
        json.loads(_cassette(("x", 1)).replace("tool://weather", "tool://gone"))["interactions"][0]
    )
    files = {
        "pytest.ini": "[pytest]\n",
        "evals/suite.yaml": suite(more="tools: [tools.yaml]\n"),
        "evals/tools.yaml": DECLARED.format(base="http://127.0.0.1:9"),
        "evals/t.json": asking("서울"),
        "cassettes/t.yaml": json.dumps(held, ensure_ascii=False),
    }
    write(pytester.path, files)
    for workers in (0, 1):
        result = run(pytester, "evals", "-v", workers=workers)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(
            [
                "2 of 3 recorded calls were not replayed: cassettes/t.yaml (2)",
                "1 of 3 recorded calls belong to tools that no longer exist: cassettes/t.yaml (1)",
            ]
        )
    run(pytester, "evals").stdout.no_fnmatch_line("*recorded calls*")


CONFTEST = """
from pytest_agenteval.tools.toolsets import tool_of

def search(q: str) -> str:
    return q

def pytest_agenteval_register(registry):
    registry.tool(tool_of(search, taped=True))
"""


def searching(id: str, *words: str) -> dict[str, object]:
    """Give a task that fails after searching for these words."""
    calls = [{"tool": "search", "args": {"q": word}} for word in words]
    script = [{"calls": calls}, {"text": "nothing"}]
    return task(id, script=script, settings={"tools": ["search"]}, wants="Mina")


def test_each_miss_is_named_and_the_worst_first(pytester: pytest.Pytester) -> None:
    """Where a miss is shown to the model the trial goes on: its reasons name each, -v the whole run's."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/conftest.py": CONFTEST})
    write(pytester.path, {"evals/suite.yaml": suite(more="on_miss: tool_error\n")})
    write(pytester.path, {"evals/t.json": searching("t", "부산")})
    run(pytester, "evals", "--agent-record=once")
    write(pytester.path, {"evals/t.json": searching("t", "서울", "서울", "제주", "부산")})

    result = run(pytester, "evals", "-v", "--repetitions=2", workers=2)

    output = result.stdout.str()
    reasons, _, summary = output.partition("not recorded, the most often missed first")
    command = "record it:  pytest evals/t.json -k t --agent-record=new_episodes --agent-model=scripted"
    for part, seoul, jeju in (
        (
            reasons,
            "  not recorded, 2 times: cassettes/t.yaml: search(q='서울')",
            "  not recorded: cassettes/",
        ),
        (
            summary,
            "4 times in 2 trials: cassettes/t.yaml: search(q='서울')",
            "2 times in 2 trials: cassettes/",
        ),
    ):
        assert 0 < part.index(seoul) < part.index(jeju + "t.yaml: search(q='제주')")
        assert "found: 1 call of this tool; the nearest differs in q: '부산'" in part
        assert command.replace(" ", "") in part.replace(" ", "").replace("\n", "")
    assert f"{command.partition('  ')[2]} --repetitions=2" in summary  # on one line, to be pasted
    assert "6 of 8 calls not recorded" in output


def test_a_broken_trial_names_its_miss_once(pytester: pytest.Pytester) -> None:
    """What its message says at length is not said again."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/conftest.py": CONFTEST})
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": searching("t", "서울")})
    result = run(pytester, "evals")
    result.assert_outcomes(errors=1)
    assert result.stdout.str().count("search(q='서울')") == 1

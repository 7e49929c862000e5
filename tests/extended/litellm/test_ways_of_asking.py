"""The shipped suites, asked of a model over HTTP: how it is asked changes no score."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.interaction import Request
from pytest_agenteval.cassettes.wire.reader import read_request
from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.chat.offline.rules import RulesChat
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.store.run_reader import Run, load_run
from tests.extended.litellm.differential.conversations import ALL
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import only_our_plugin

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
SAMPLE = (
    "card/ambiguous",
    "pkm/starter_mixed",
    "pkm/researcher",
    *(f"ko/L{level}/L{level}-001.yaml" for level in range(1, 8)),
)
WHERE = ("",) if os.environ.get(ALL) else SAMPLE
WAYS = ("direct", "litellm")
FORMATS = {
    "chat": "openai/gpt-4.1",
    "messages": "anthropic/claude-sonnet-4-5",
}

Scores = dict[tuple[Any, ...], Any]


class RulesOnTheWire:
    """A model behind HTTP that plays by the rules of `rules`, by what it reads of a request and no more."""

    def __init__(self) -> None:
        self._chat = RulesChat(installed_registry().player_of)

    def __call__(self, body: Mapping[str, Any], n: int) -> ReplyPlan:
        format = "anthropic.messages" if str(body["model"]).startswith("claude") else "openai.chat"
        reply = self._reply(format, body)
        return ReplyPlan(text=reply.text, calls=tuple((call.tool, dict(call.args)) for call in reply.calls))

    def _reply(self, format: str, body: Mapping[str, Any]) -> Reply:
        asked = read_request(format, Request("POST", "http://any", json.dumps(body)))
        tools = [ToolSpec(spec.name, spec.description, spec.parameters) for spec in asked.tools]
        asking = self._chat.ask(asked.messages, tools=tools)
        try:
            asking.send(None)
        except StopIteration as answered:
            reply: Reply = answered.value
            return reply
        raise AssertionError("the rules wait for nobody")


def _tables(server: ModelServer) -> str:
    """Give a model of each format for each way of asking, all of them at one server."""
    bases = dict.fromkeys(FORMATS, server.openai_base) | {"messages": server.anthropic_base}
    lines = [
        f'{format}_{way} = {{id = "{id}", api_base = "{bases[format]}", via = "{way}"}}'
        for format, id in FORMATS.items()
        for way in WAYS
    ]
    return "\n".join(("[tool.agenteval.models]", *lines, ""))


def _scores(run: Run, model: str) -> Scores:
    """Give ending, score and grades of each trial of a model."""
    return {
        (entry.key.suite, entry.key.task, entry.key.repetition): (
            entry.ending,
            entry.score,
            [(grade.grader, grade.score) for grade in entry.grades],
        )
        for entry in run.entries
        if entry.key.model == model
    }


def test_how_a_model_is_asked_changes_no_score(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each format, directly and by litellm: every grade of every trial is equal, and that of the same rules
    without any wire between.

    A run has a sample with every kind of agent; all tasks are asked where the environment says so.
    """
    only_our_plugin(monkeypatch)
    for folder in ("evals", "fixtures", "cassettes"):
        shutil.copytree(ROOT / folder, pytester.path / folder)
    models = [f"{format}_{way}" for format in FORMATS for way in WAYS]
    where = [f"evals/{part}" for part in WHERE]
    with ModelServer(RulesOnTheWire()) as server:
        pytester.makepyprojecttoml(_tables(server))
        result = pytester.runpytest_subprocess(
            *where, "-q", f"--agent-model={','.join(models)},rules", "--repetitions=1"
        )
    assert result.ret == 0, result.stdout.str()[-3000:]
    run = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    scores = {model: _scores(run, model) for model in (*models, "rules")}
    assert len(scores["rules"]) >= len(SAMPLE)
    assert len({score for _, score, _ in scores["rules"].values()}) > 2
    for model in models:
        assert scores[model] == scores["rules"], model

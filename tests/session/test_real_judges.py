"""Judges behind ``--agent-judge``, over HTTP on loopback."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.run_reader import load_run
from tests.graders.judge.judges import rubric_text
from tests.loopback.model_server import ModelServer, ReplyPlan, Request
from tests.suites import run, suite, write

pytest_plugins = ["pytester"]

IDS = {name: f"openai/{name}" for name in ("stern", "kind", "dull", "warm", "loose")}
NAMES = {id.partition("/")[2]: name for name, id in IDS.items()}


def reply(warmth: object = 0.5, clarity: object = 1, **more: Any) -> ReplyPlan:
    """Give a judge's reply with these scores."""
    text = json.dumps({"warmth": warmth, "clarity": clarity, "rationale": "as it reads"})
    return ReplyPlan(text=text, **more)


REPLIES: Mapping[str, tuple[ReplyPlan, ...]] = {
    "good": (reply(),),
    "fenced": (ReplyPlan(text=f"```json\n{reply().text}\n```\n"),),
    "prose": (ReplyPlan(text=f"Having read it twice: {reply().text} Hope that helps!"),),
    "unknown": (reply("unknown"),),
    "repaired": (reply(7), reply()),
    "hopeless": (reply(7), reply(-1)),
    "busy": (ReplyPlan(status=429, headers={"Retry-After": "0.4"}), reply()),
}
"""What the server answers about each task, request by request; the last answer repeats."""

SCORES = {"warmth": 0.5, "clarity": 1.0}


class Play:
    """A server's part in one run: each judge answers about each task by a list of its own."""

    def __init__(self, replies: Mapping[str, Sequence[ReplyPlan]]) -> None:
        self.replies = replies
        self.asked: Counter[str] = Counter()

    def reply(self, body: Any, number: int) -> ReplyPlan:
        """Answer by the task that stands in the prompt, and by who is asked."""
        text = json.dumps(body)
        found = re.search(r"case (\w+)", text)
        assert found is not None
        judge = NAMES[body["model"]]
        name = next(key for key in (f"{judge} {found[1]}", judge, found[1]) if key in self.replies)
        replies = self.replies[name]
        self.asked[f"{judge} {found[1]}"] += 1
        return replies[min(self.asked[f"{judge} {found[1]}"], len(replies)) - 1]


def write_project(
    root: Path,
    tasks: Sequence[str],
    server: ModelServer,
    *judges: str,
    request_s: float = 60,
    **rubrics: str,
) -> None:
    """Write scripted tasks, each judged by every rubric, and an alias of the server for each judge."""
    texts = rubrics or {"tone": rubric_text()}
    settings = f'api_base = "{server.openai_base}", request_seconds = {request_s}'
    aliases = [f'{name} = {{id = "{IDS[name]}", {settings}}}' for name in judges]
    graders = [
        {"name": "judge", "label": name, "config": {"rubric": f"{name}.jinja"}, "threshold": 0.5}
        for name in texts
    ]
    write(
        root,
        {
            "pyproject.toml": "\n".join(["[tool.agenteval.models]", *aliases, ""]),
            "evals/suite.yaml": suite("judged"),
            **{f"evals/{name}.jinja": text for name, text in texts.items()},
            **{f"evals/{name}.json": _task(name, graders) for name in tasks},
        },
    )


def _task(name: str, graders: Any) -> dict[str, Any]:
    answer = f"Hello from case {name}!"
    return {"id": name, "input": {"content": "Say hello."}, "script": [{"text": answer}], "graders": graders}


def graded_trials(root: Path) -> dict[str, Trial]:
    """Give every trial of the latest run, by its task."""
    run = load_run((root / ".agenteval/runs/latest").resolve())
    return {entry.key.task: run.trial(entry) for entry in run.entries}


def _grade(trial: Trial) -> Grade:
    (grade,) = trial.grades
    return grade


def _votes(trial: Trial) -> list[dict[str, Any]]:
    votes: list[dict[str, Any]] = _grade(trial).details["judgement"]["votes"]
    return votes


Judged = tuple[dict[str, Trial], Play, list[Request]]


_results: dict[str, Judged] = {}


@pytest.fixture
def project(quick: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """Where runs know no plugin but this one."""
    return pytester


@pytest.fixture
def result(project: pytest.Pytester) -> Judged:
    """Every task, judged once by one judge, whoever asks first."""
    if "judged" not in _results:
        play = Play(REPLIES)
        with ModelServer(replies=play.reply) as server:
            write_project(project.path, [*REPLIES], server, "stern")
            done = run(project, "evals", "--agent-judge=stern", "-v")
            requests = server.requests
        assert done.ret == 1, done.stdout.str()
        assert "Traceback" not in done.stdout.str()
        _results["judged"] = graded_trials(project.path), play, requests
    return _results["judged"]


@pytest.mark.parametrize("name", ["good", "fenced", "prose", "repaired", "busy"])
def test_a_reply_is_read_however_it_comes(result: Any, name: str) -> None:
    """Alone, fenced, among prose, at the second attempt, after a 429: the scores are those given."""
    trial = result[0][name]

    assert (trial.ending, _grade(trial).score) == ("passed", 0.75)
    assert _grade(trial).details["judgement"]["scores"] == SCORES
    assert _votes(trial)[0]["raw"][-1] == REPLIES[name][-1].text


def test_what_a_judge_cannot_tell_is_left_out(result: Any) -> None:
    """Unknown is in no mean and in no check."""
    grade = _grade(result[0]["unknown"])

    assert (grade.score, [check.claim for check in grade.checks]) == (1.0, ["clarity is good enough"])


def test_the_repair_shows_the_judge_its_reply(result: Any) -> None:
    """The second request holds the first reply and what is wrong with it, and both replies are kept."""
    trials, play, requests = result
    first, second = [each.body for each in requests if "case repaired" in json.dumps(each.body)]

    assert play.asked["stern repaired"] == 2
    assert len(second["messages"]) == len(first["messages"]) + 2
    assert "warmth is 7, outside of 0 to 1" in json.dumps(second["messages"][-1])
    assert len(_votes(trials["repaired"])[0]["raw"]) == 2


def test_a_judge_that_cannot_be_read_twice_could_not_tell(result: Any) -> None:
    """There is no third ask: the grade is undecided with the last problem, and nothing was clamped."""
    trials, play, _ = result
    trial = trials["hopeless"]

    assert play.asked["stern hopeless"] == 2
    assert (trial.ending, trial.cause, _grade(trial).score) == ("errored", "ungraded", None)
    assert _votes(trial)[0]["problem"] == "warmth is -1, outside of 0 to 1"


def test_what_judges_take_is_not_the_agents(result: Any) -> None:
    """Retries and replies of judges are events of the trial; the agent's usage knows nothing of them."""
    trial = result[0]["busy"]
    events = [event.kind for event in trial.transcript.events]

    assert events == ["chat_retry", "judge_ask"]
    assert trial.usage.tokens == 0


def test_a_judge_is_asked_for_a_schema_and_is_told_no_names(result: Any) -> None:
    """Schema and temperature are sent; no name of the judged model or agent stands in any prompt."""
    _, _, requests = result
    for request in requests:
        body = request.body
        asked = body["response_format"]["json_schema"]
        assert asked["schema"]["required"] == ["warmth", "clarity", "rationale"]
        assert body["temperature"] == 0
        sent_text = json.dumps([body["messages"], body.get("system")])
        assert not any(name in sent_text for name in ("scripted", "tool_calling", "stern"))

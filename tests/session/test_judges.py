"""``--agent-judge``: who judges, what is refused before anything starts, and judges over HTTP on loopback."""

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
from pytest_agenteval.store.run_folder import RunModel
from tests.graders.judge.judges import rubric_text
from tests.journals import journal, junit, latest_run, latest_trials, properties, trials
from tests.loopback.model_server import ModelServer, ReplyPlan, Request
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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
        _results["judged"] = latest_trials(project.path), play, requests
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
    problem = _votes(trial)[0]["problem"]
    assert problem.startswith("warmth is -1, outside of 0 to 1; the reply was '{")


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


JUDGES = '''
from dataclasses import dataclass

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.transcript import Usage


@dataclass(frozen=True)
class Liked:
    """Asks its judges for a number."""

    judges: tuple = ()
    threshold = 0.5

    def with_judges(self, judges):
        return Liked(tuple(judges))

    async def grade(self, evidence):
        if not self.judges:
            told = "no judge: add --agent-judge=MODEL"
            return Grade("liked", None, told, undecided="no_judge")
        asked = [{"role": "user", "content": evidence.answer}]
        said = [(await judge.chat.ask(asked)).text for judge in self.judges]
        return Grade("liked", sum(map(float, said)) / len(said), "as the judges said")


class Says:
    def __init__(self, text):
        self.text = text

    async def ask(self, messages, *, tools=(), response_schema=None, settings=None):
        return Reply(self.text, usage=Usage(10, 2, cost_usd=0.25, asks=1, attempts=1))


def pytest_agenteval_register(registry):
    registry.grader("liked", Liked)
    registry.model("kind", lambda model, plan: Says("1"))
    registry.model("stern", lambda model, plan: Says("0.2"))
'''
LIKED = [{"name": "answer_contains", "config": {"text": "Mina"}}, {"name": "liked"}]


@pytest.fixture
def judging_project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with one task that asks for judgement and one that does not."""
    tasks = [task("liked", graders=LIKED), task("plain")]
    write(pytester.path, {"conftest.py": JUDGES, "evals/suite.yaml": suite(), "evals/tasks.yaml": tasks})
    return pytester


@pytest.mark.parametrize("workers", [0, 1])
def test_judges_decide_and_are_named(judging_project: pytest.Pytester, workers: int) -> None:
    """An ensemble of two grades: who they are and what they took is said, and kept apart from the agent's."""
    judges = ("--agent-judge=kind", "--agent-judge", "stern")
    result = run(judging_project, "evals", *judges, "--junitxml=j.xml", workers=workers)

    result.assert_outcomes(passed=2)
    output = str(result.stdout)
    assert "judged by kind" in output or workers  # under xdist pytest shows no such heading
    assert "judges: 2 replies, 24 tokens, $0.50" in output
    assert trials(judging_project.path)["liked"].grades[1].score == 0.6
    latest = latest_run(judging_project.path)
    assert [judge.name for judge in latest.header.judges] == ["kind", "stern"]
    (entry,) = [entry for entry in latest.entries if entry.key.task == "liked"]
    assert (entry.judging.asks, entry.judging.tokens, entry.judging.cost_usd) == (2, 24, 0.5)
    assert entry.usage.tokens == 0
    junit_properties = properties(junit(judging_project.path / "j.xml")["liked[scripted-1]"])
    names = ("agenteval.tokens", "agenteval.judge_tokens", "agenteval.judge_cost_usd")
    assert [junit_properties[name] for name in names] == ["0", "24", "0.500000"]


def test_without_a_judge_the_summary_says_which_flag_decides(judging_project: pytest.Pytester) -> None:
    """A grade that only a judge could give is undecided, in no average, and no failure."""
    result = run(judging_project, "evals")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["! [*] not judged: 1 of greetings's 2 trials; fewer may pass; add", "  --agent-judge=MODEL"]
    )
    (line,) = [line for line in journal(judging_project.path, "finished") if line["task"] == "liked"]
    assert line["grades"][1] == {
        "grader": "liked",
        "score": None,
        "threshold": 0.5,
        "rationale": "no judge: add --agent-judge=MODEL",
        "undecided": "no_judge",
    }


@pytest.mark.parametrize("workers", [0, 1])
def test_who_cannot_judge_is_refused_before_anything_starts(
    judging_project: pytest.Pytester, workers: int
) -> None:
    """An offline player of ours has no judgement; a key is wanted where the judge would be asked alone."""
    for name in ("rules", "oracle", "nop", "scripted") if not workers else ("rules",):
        refused = run(judging_project, "evals", f"--agent-judge={name}", workers=workers)
        assert refused.ret == pytest.ExitCode.USAGE_ERROR
        assert f"--agent-judge: {name!r} stands in for an agent and cannot judge" in str(refused.stderr)

    keyless = run(judging_project, "evals", "--agent-judge=claude", workers=workers)

    assert keyless.ret == pytest.ExitCode.USAGE_ERROR
    output = str(keyless.stderr)
    assert "--agent-judge=claude: no key: the environment variable ANTHROPIC_API_KEY is not set" in output
    run(judging_project, "evals", "-k", "plain", "--agent-judge=claude").assert_outcomes(passed=1)


@pytest.mark.parametrize("meant", [False, True])
def test_a_model_that_judges_itself_is_warned_of(judging_project: pytest.Pytester, meant: bool) -> None:
    """A model favours itself: said beside the figures and written down, unless it is meant."""
    option = ["--agent-self-judge"] if meant else []
    result = run(judging_project, "evals", "--agent-model=kind", "--agent-judge=kind", *option)

    assert ("kind judged its own trials" in str(result.stdout)) is not meant
    header = latest_run(judging_project.path).header
    assert header.judges == (RunModel("kind", "kind", offline=True),)
    assert header.self_judge is meant
    events = [event.kind for event in trials(judging_project.path)["liked"].transcript.events]
    assert "self_judged" in events


FILED = """
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.records.evidence import Grade


@dataclass(frozen=True)
class ByRubric:
    rubric: str
    files: ClassVar = {"rubric": ".jinja"}

    def grade(self, evidence):
        return Grade("by_rubric", 1.0, self.rubric)


def pytest_agenteval_register(registry):
    registry.grader("by_rubric", ByRubric)
"""


def _by(rubric: str) -> list[dict[str, object]]:
    return [{"name": "by_rubric", "config": {"rubric": rubric}}]


def test_a_setting_that_names_a_file_holds_its_text(pytester: pytest.Pytester) -> None:
    """A file is looked up beside the task, then in the suite's folder; any other text is left as it is.

    A misspelt one is the author's to mend: file, line, key, where was looked, the nearest.
    """
    tasks = {
        "evals/a/task.json": task("beside", graders=_by("own.jinja")),
        "evals/b/task.json": task("above", graders=_by("rubrics/shared.jinja")),
        "evals/c/task.json": task("named", graders=_by("pkm_insight_quality")),
        "evals/d/task.json": task("lost", graders=_by("polite.jinja")),
    }
    files = {
        "evals/a/own.jinja": "be kind",
        "evals/rubrics/shared.jinja": "be brief",
        "evals/polito.jinja": "x",
    }
    write(pytester.path, {"conftest.py": FILED, "evals/suite.yaml": suite(), **tasks, **files})

    result = run(pytester, "evals", "--continue-on-collection-errors")

    result.assert_outcomes(passed=3, errors=1)
    found = {name: trial.grades[0].rationale for name, trial in trials(pytester.path).items()}
    assert found == {"beside": "be kind", "above": "be brief", "named": "pkm_insight_quality"}
    result.stdout.fnmatch_lines(
        [
            "evals/d/task.json:*: graders?0?.config.rubric",
            "  expected: a file: evals/d/polite.jinja*",
            "  found: *'polite.jinja', which is not there",
            "  hint: *did you mean 'polito.jinja'?",
        ]
    )
    assert "Traceback" not in str(result.stdout)

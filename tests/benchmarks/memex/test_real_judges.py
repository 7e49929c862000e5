"""What the PKM agent did, judged over HTTP on loopback by the rubrics of this benchmark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.journals import latest_trials
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.session.test_judges import write_project
from tests.suites import run, write

pytest_plugins = ["pytester"]

FACT = "2026/09/17.md#ts_1"
BREAD = "# Bread\n\n- 2 Sep: light.\n"
FILE = {
    "file_path": "Areas/Bread.md",
    "old_string": "- 2 Sep: light.\n",
    "new_string": f"- 2 Sep: light.\n- 17 Sep: dense. <!-- fact_id: {FACT} -->\n",
}
INSIGHT = {"fact_id": FACT, "insight_text": "The cold may be what changed. case pkm"}
TURNS = [
    {"calls": [{"tool": "Read", "args": {"file_path": "/Areas/Bread.md"}}]},
    {"calls": [{"tool": "Edit", "args": FILE}]},
    {"calls": [{"tool": "update_timeline_card_insight", "args": INSIGHT}]},
    {"text": "Done. case pkm"},
]


def test_the_work_of_the_pkm_agent_is_judged(pytester: pytest.Pytester) -> None:
    """Insight and addition of a filed entry are judged, each by its own rubric, from what was done."""
    scores = {
        "groundedness": 1,
        "non_redundancy": 0.5,
        "expression_quality": 0.9,
        "conciseness": 0.8,
        "coherence": 0.8,
    }
    questions: list[str] = []

    def judge(body: Any, number: int) -> ReplyPlan:
        questions.append(json.dumps(body["messages"], ensure_ascii=False))
        return ReplyPlan(text=json.dumps({**scores, "rationale": "so"}))

    content = "Bread came out dense. case pkm"
    with ModelServer(replies=judge) as server:
        write_project(pytester.path, [], server, "stern")
        files = {
            "evals/pkm/suite.yaml": (
                "name: pkm\nagent: pkm\nkind: regression\n"
                "defaults: {model: scripted, clock: '2026-09-17T20:30:00+00:00'}\n"
            ),
            "evals/pkm/one/task.json": {
                "id": "one",
                "input": {"fact_id": FACT, "content": content},
                "script": TURNS,
                "graders": [{"name": "pkm_insight_quality"}, {"name": "pkm_append_coherence"}],
            },
            "evals/pkm/one/workspace/PKM/Areas/Bread.md": BREAD,
            "evals/pkm/one/workspace/Facts/2026/09/17.md": f'## <id:ts_1> 09:00:00 "{{}}"\n\n{content}\n',
            "evals/pkm/one/workspace/Cards/2026/09/17_ts_1.yaml": (
                f'fact_id: "{FACT}"\ntimestamp: 1789635600\nstatus: pending\ntags: []\nui_configs: []\n'
            ),
        }
        write(pytester.path, files)
        done = run(pytester, "evals", "--agent-judge=stern")

    assert done.ret == 0, done.stdout.str()
    insight, append = latest_trials(pytester.path)["one"].grades
    assert (insight.score, append.score) == (pytest.approx(0.8), 0.8)
    by_kind = {"insight" if "insight to judge" in question else "append": question for question in questions}
    assert "The cold may be what changed." in by_kind["insight"]
    assert "# Bread" in by_kind["append"]
    assert "+- 17 Sep: dense." in by_kind["append"]
    assert len(questions) == 2

"""Two suites to be audited: the graders of one see everything, those of the other hardly anything."""

from __future__ import annotations

from typing import Any

from tests.suites import suite

ANSWER = "The ferry leaves at 07:40 on 2026-05-12 and costs 18 euros. Bicycles travel free of charge."
FACTS = ["07:40", "2026-05-12", "(?<!\\d)18(?!\\d)", "(?i)bicycles"]


def _task(id: str, *graders: dict[str, Any], **more: Any) -> dict[str, Any]:
    reference = {"turns": [{"text": ANSWER}]}
    question = {"content": "Tell me all about the ferry to the island, please."}
    return {"id": id, "input": question, "graders": list(graders), "reference_solution": reference, **more}


def _matches(*patterns: str) -> dict[str, Any]:
    return {"name": "answer_matches", "config": {"patterns": list(patterns)}}


SUITES = {
    "evals/good/suite.yaml": suite("good"),
    "evals/good/sees.yaml": _task("sees", _matches(*FACTS)),
    "evals/good/unseen.yaml": _task("unseen", _matches(*FACTS), split="held_out"),
    "evals/bad/suite.yaml": suite("bad"),
    "evals/bad/blind.yaml": _task("blind", _matches("(?i)ferry")),
    "evals/bad/idle.yaml": _task("idle", {"name": "tool_not_called", "config": {"tools": ["fare"]}}),
    "evals/bad/wrong.yaml": _task("wrong", _matches("Tuesday", *FACTS)),
    "evals/bad/judged.yaml": _task(
        "judged",
        {"name": "tool_not_called", "config": {"tools": ["fare"]}},
        {"name": "judge", "config": {"rubric": "task_fulfilment"}},
    ),
    "evals/bad/bare.yaml": {
        **_task("bare", _matches("x")),
        "reference_solution": None,
        "script": [{"text": "x"}],
    },
}

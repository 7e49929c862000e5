"""The evals that ship: how many tasks there are. ``python -m tests.frozen`` holds their scores."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
CARDS = 25
CARD_BUCKETS = 17
PKM_BUCKETS = 24
PKM_ROUTED = 32
LEAST_OPT_OUTS = 6
KO_LEVELS = {"L1": 11, "L2": 15, "L3": 10, "L4": 10, "L5": 20, "L6": 15, "L7": 10}


def _tasks(suite: str) -> list[dict[str, Any]]:
    """Give every task of a suite, held out ones too."""
    files = (ROOT / "evals" / suite).rglob("task.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _buckets(suite: str, split: str) -> Counter[str]:
    """Give the number of tasks of each bucket."""
    tasks = (task for task in _tasks(suite) if task.get("split", "dev") == split)
    return Counter(task["metadata"]["failure_bucket"] for task in tasks)


def test_the_suites_have_what_they_say() -> None:
    """25 card tasks; 32 PKM tasks in 24 buckets, opt-outs beside them; for each bucket a held-out sibling."""
    card, pkm = _buckets("card", "dev"), _buckets("pkm", "dev")
    opted_out = pkm.pop("opt_out")
    assert (card.total(), len(card)) == (CARDS, CARD_BUCKETS)
    assert (pkm.total(), len(pkm)) == (PKM_ROUTED, PKM_BUCKETS)
    assert opted_out >= LEAST_OPT_OUTS
    assert set(_buckets("card", "held_out")) == set(card)
    assert set(_buckets("pkm", "held_out")) == {*pkm, "opt_out"}


def test_the_korean_suite_has_as_many_tasks_of_each_level_as_the_benchmark() -> None:
    """Seven levels, 91 tasks; each has its cassette, marked as synthetic, and a required code grader."""
    files = sorted((ROOT / "evals" / "ko").rglob("L*-*.yaml"))
    assert Counter(file.parent.name for file in files) == KO_LEVELS
    for file in files:
        tape = ROOT / "cassettes" / "ko" / file.parent.name / file.name
        assert tape.read_text(encoding="utf-8").startswith("# Synthetic"), tape
        graders = read_yaml(file)["graders"]
        required = [grader["name"] for grader in graders if grader.get("require")]
        assert required, file
        assert not [name for name in required if name.startswith("ko_L")], file

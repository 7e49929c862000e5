"""Calibrations in the folder of a run: a JSON file, which holds everything, and a page for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.redaction import KNOWN
from pytest_agenteval.store.file_writing import replace_json, replace_text

if TYPE_CHECKING:  # every run looks for calibrations when it ends, and few have one
    from pytest_agenteval.calibration.analysis import (
        CalibrationAnalysis,
        Disagreement,
        JudgeAgreement,
        UnreadableReplies,
    )
    from pytest_agenteval.calibration.examples import ExampleJudgement
    from pytest_agenteval.calibration.plan import MetricThreshold
    from pytest_agenteval.scoring.bootstrap import BootstrapEstimate

VERSION = 1
PREFIX = "calibration-"


def store_calibration(folder: Path, data: Mapping[str, Any], page: str) -> None:
    """Write a calibration and its page into the run's folder; what was there under its id is replaced."""
    replace_text(page_path(folder, data["id"]), KNOWN.text(page))
    replace_json(folder / f"{PREFIX}{data['id']}.json", KNOWN.value(data))


def read_calibrations(folder: Path) -> list[dict[str, Any]]:
    """Read the calibrations of a run, by name; those of another version are left out."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{PREFIX}*.json")))
    return [data for data in found if data.get("v") == VERSION]


def page_path(folder: Path, id: str) -> Path:
    """Give where the page of a calibration lies."""
    return folder / f"{PREFIX}{id}.html"


MOST_DISAGREEMENTS = 20


def calibration_json(findings: CalibrationAnalysis) -> dict[str, Any]:
    """Give everything about a calibration as JSON values."""
    plan, answers, rubric = findings.plan, findings.answers, findings.plan.rubric
    return {
        "v": VERSION,
        "id": plan.id,
        "file": plan.file,
        "description": plan.description,
        "labels": {
            "file": plan.labels,
            "examples": len(plan.examples),
            "said": plan.label_sources,
            "sources": sorted({example.source for example in plan.examples}),
        },
        "rubric": {"name": rubric.name, "version": rubric.version, "digest": rubric.digest()},
        "dimensions": {each.name: each.says for each in rubric.dimensions if each.name in plan.dimensions},
        "combine": rubric.combine,
        "judges": [
            {
                "name": judge.name,
                "id": judge.id,
                "offline": judge.offline,
                "usage": _usage(findings, judge.name),
                **_unread_replies(unread),
            }
            for judge, unread in zip(answers.judges, findings.unread, strict=True)
        ],
        "repeats": plan.repeats,
        "tolerance": plan.tolerance,
        "pass_threshold": plan.pass_threshold,
        "intervals": asdict(findings.how),
        "thresholds": [_threshold(findings, wanted) for wanted in findings.thresholds],
        "passed": not findings.shortfalls and not any(unread.whole for unread in findings.unread),
        "measured": [_measured(each) for each in findings.measured],
        "among_judges": {name: _figure(found) for name, found in findings.among},
        "disagreements": [_disagreement(each) for each in findings.disagreements[:MOST_DISAGREEMENTS]],
        "examples": [_example(asked) for asked in _together(answers.asked)],
    }


def _usage(findings: CalibrationAnalysis, judge: str) -> dict[str, Any]:
    used = findings.answers.usage.get(judge)
    if used is None:
        return {}
    return {"asks": used.asks, "tokens": used.tokens, "cost_usd": used.cost_usd}


def _unread_replies(found: UnreadableReplies) -> dict[str, Any]:
    """Give what of a judge's replies could not be read, where there is anything."""
    if not found.count:
        return {}
    return {"unread": {"asks": found.asks, "count": found.count, "problem": found.problem}}


def _threshold(findings: CalibrationAnalysis, wanted: MetricThreshold) -> dict[str, Any]:
    found = findings.figure_of(wanted)
    return {
        "metric": wanted.metric,
        "dimension": wanted.dimension,
        "threshold": wanted.threshold,
        "reached": wanted not in findings.shortfalls,
        "found": _figure(found),
    }


def _measured(each: JudgeAgreement) -> dict[str, Any]:
    found = each.agreement
    told = {
        "judge": each.judge,
        "dimension": each.dimension,
        "examples": found.examples,
        "scored": found.scored,
        "pairs": found.pairs,
        "figures": {name: _figure(one) for name, one in found.figures.items()},
        "confusion": {
            "categories": list(found.confusion.categories),
            "rows": [list(row) for row in found.confusion.rows],
        },
    }
    if each.noise is not None:
        spread, flips = _figure(each.noise.spread), _figure(each.noise.flips)
        told["noise"] = {"examples": each.noise.examples, "spread": spread, "flips": flips}
    return told


def _figure(found: BootstrapEstimate) -> dict[str, Any]:
    """Give a figure without what is not there."""
    told: dict[str, Any] = {"value": found.value}
    if found.interval is not None:
        told |= {"low": found.interval.low, "high": found.interval.high}
    if found.reason:
        told["reason"] = found.reason
    if found.degenerate:
        told["degenerate"] = found.degenerate
    return told


def _disagreement(each: Disagreement) -> dict[str, Any]:
    example, judgement = each.asked.example, each.asked.judgement
    return {
        "id": example.id,
        "dimension": each.dimension,
        "label": each.label,
        "score": each.score,
        "repetition": each.asked.repetition,
        "source": example.source,
        "note": example.note,
        "input": dict(example.given),
        "output": example.judged,
        "votes": [
            {"judge": vote.judge, "score": vote.scores.get(each.dimension), "rationale": vote.rationale}
            for vote in judgement.votes
        ],
    }


def _together(asked: tuple[ExampleJudgement, ...]) -> Iterator[list[ExampleJudgement]]:
    """Put the asks about each example together."""
    found: dict[str, list[ExampleJudgement]] = {}
    for each in asked:
        found.setdefault(each.example.id, []).append(each)
    yield from found.values()


def _example(asked: list[ExampleJudgement]) -> dict[str, Any]:
    example = asked[0].example
    return {
        "id": example.id,
        "source": example.source,
        "labels": dict(example.labels),
        "asks": [{"repetition": each.repetition, **_judgement(each)} for each in asked],
    }


def _judgement(each: ExampleJudgement) -> dict[str, Any]:
    """Give a judgement without what is the same for all of them."""
    told = each.judgement.as_details()
    return {key: told[key] for key in ("prompt", "scores", "spread", "votes")}

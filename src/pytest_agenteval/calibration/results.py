"""What runs hold of calibrations: a JSON file and a page in the run's folder; ``document`` has its types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.store.record_files import replace_json, replace_text
from pytest_agenteval.text.redaction import KNOWN_SECRETS

# Every run looks for calibrations when it ends, and few have one: what computes them is not imported here.
if TYPE_CHECKING:
    from pytest_agenteval.calibration.analysis import CalibrationAnalysis, JudgeAgreement, LabelDisagreement
    from pytest_agenteval.calibration.labels import ExampleJudgement
    from pytest_agenteval.compare.scoring.intervals import BootstrapEstimate


VERSION = 1
PREFIX = "calibration-"
MOST_DISAGREEMENTS = 20


def store_calibration(folder: Path, data: Mapping[str, Any], page: str) -> None:
    """Write a calibration and its page into the run's folder; what was there under its id is replaced."""
    replace_text(page_path(folder, data["id"]), KNOWN_SECRETS.text(page))
    replace_json(folder / f"{PREFIX}{data['id']}.json", KNOWN_SECRETS.value(data))


def read_calibrations(folder: Path) -> list[dict[str, Any]]:
    """Read the calibrations of a run, in the order of their ids; those of another version are left out."""
    files = sorted(folder.glob(f"{PREFIX}*.json"))
    calibrations = (json.loads(path.read_text(encoding="utf-8")) for path in files)
    return [data for data in calibrations if data.get("v") == VERSION]


def page_path(folder: Path, id: str) -> Path:
    return folder / f"{PREFIX}{id}.html"


def calibration_json(analysis: CalibrationAnalysis) -> dict[str, Any]:
    """Give everything about a calibration as JSON values, from which every figure can be computed again."""
    plan, rubric = analysis.plan, analysis.plan.rubric
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
        "judges": list(_judges(analysis)),
        "repeats": plan.repeats,
        "tolerance": plan.tolerance,
        "pass_threshold": plan.pass_threshold,
        "intervals": asdict(analysis.bootstrap),
        "thresholds": [
            {
                "metric": threshold.metric,
                "dimension": threshold.dimension,
                "threshold": threshold.threshold,
                "reached": threshold not in analysis.shortfalls,
                "found": _estimate(analysis.estimate_for(threshold)),
            }
            for threshold in analysis.thresholds
        ],
        "passed": analysis.passed,
        "measured": [_agreement(agreement) for agreement in analysis.agreements],
        "among_judges": {name: _estimate(estimate) for name, estimate in analysis.between_judges},
        "disagreements": [_disagreement(far) for far in analysis.disagreements[:MOST_DISAGREEMENTS]],
        "examples": list(_examples(analysis.answers.asks)),
    }


def _judges(analysis: CalibrationAnalysis) -> Iterator[dict[str, Any]]:
    for judge, unread in zip(analysis.answers.judges, analysis.unreadable, strict=True):
        usage = analysis.answers.usage.get(judge.name)
        taken = {"asks": usage.asks, "tokens": usage.tokens, "cost_usd": usage.cost_usd} if usage else {}
        data = {"name": judge.name, "id": judge.id, "offline": judge.offline, "usage": taken}
        if unread.count:
            data["unread"] = {"asks": unread.asks, "count": unread.count, "problem": unread.problem}
        yield data


def _agreement(agreed: JudgeAgreement) -> dict[str, Any]:
    agreement = agreed.agreement
    data = {
        "judge": agreed.judge,
        "dimension": agreed.dimension,
        "examples": agreement.examples,
        "scored": agreement.scored,
        "pairs": agreement.pairs,
        "figures": {name: _estimate(estimate) for name, estimate in agreement.figures.items()},
        "confusion": {
            "categories": list(agreement.confusion.categories),
            "rows": [list(row) for row in agreement.confusion.rows],
        },
    }
    if agreed.noise is not None:
        spread, flips = _estimate(agreed.noise.spread), _estimate(agreed.noise.flips)
        data["noise"] = {"examples": agreed.noise.examples, "spread": spread, "flips": flips}
    return data


def _estimate(estimate: BootstrapEstimate) -> dict[str, Any]:
    data: dict[str, Any] = {"value": estimate.value}
    if estimate.interval is not None:
        data |= {"low": estimate.interval.low, "high": estimate.interval.high}
    if estimate.reason:
        data["reason"] = estimate.reason
    return data


def _disagreement(far: LabelDisagreement) -> dict[str, Any]:
    example = far.ask.example
    votes = [
        {"judge": vote.judge, "score": vote.scores.get(far.dimension), "rationale": vote.rationale}
        for vote in far.ask.judgement.votes
    ]
    return {
        "id": example.id,
        "dimension": far.dimension,
        "label": far.label,
        "score": far.score,
        "repetition": far.ask.repetition,
        "source": example.source,
        "note": example.note,
        "input": dict(example.given),
        "output": example.judged,
        "votes": votes,
    }


def _examples(asks: Iterable[ExampleJudgement]) -> Iterator[dict[str, Any]]:
    by_example: dict[str, list[ExampleJudgement]] = {}
    for ask in asks:
        by_example.setdefault(ask.example.id, []).append(ask)
    for of_example in by_example.values():
        example = of_example[0].example
        judged = []
        for ask in of_example:
            # Rubric, judges and way to combine are the same for all asks and stand once in the document.
            details = ask.judgement.as_details()
            judged.append(
                {"repetition": ask.repetition}
                | {key: details[key] for key in ("prompt", "scores", "spread", "votes")}
            )
        labels = dict(example.labels)
        yield {"id": example.id, "source": example.source, "labels": labels, "asks": judged}

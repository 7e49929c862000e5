"""The verdict on a run once it has ended: compared with its baseline, and held against its gates.

By the process that speaks for the run, which has collected nothing where workers do: what suites ask stands
in the run's own folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.compare.gate import GateOutcome
from pytest_agenteval.compare.sides import Side
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison.documents import comparison_json
from pytest_agenteval.session.ended_run import ended_run
from pytest_agenteval.session.gates.judged_run import JudgedRun
from pytest_agenteval.session.gates.recheck import RecheckedTasks, not_tried_again, recheck
from pytest_agenteval.session.run_info import RunInfo
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.store.file_writing import replace_json
from pytest_agenteval.store.run_comparison import COMPARISON
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class Verdict(FrozenValue, frozen=True):
    """What is said of a run as a whole.

    ``comparison`` is None where there is no baseline, whose trials are ``old``. ``lines`` say what was tried
    again, and what came of the gates; ``interrupted`` that somebody ended that.
    """

    comparison: Comparison | None = None
    outcome: GateOutcome = GateOutcome()
    lines: tuple[str, ...] = ()
    interrupted: bool = False
    old: Side | None = None


def verdict_on(config: pytest.Config, status: int) -> Verdict | None:
    """Compare a run that has ended, try broken tasks again where a gate says so, and judge the gates.

    None where the run has neither a baseline nor a gate, and for one without trials.
    """
    info: RunInfo = config.stash[run_info_key]
    run = ended_run(config)
    judged = JudgedRun(run, config.rootpath, info.baseline)
    if run.header.shards is not None:
        return _of_shard(judged)
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    comparison = judged.comparison(judged.tolerance)
    if status not in JUDGED:
        return Verdict(
            comparison,
            lines=judged.trouble_lines(_not_judged(status) if judged.gates else ""),
            old=judged.old,
        )
    try:
        rechecked = _try_again(judged, config)
    except KeyboardInterrupt:
        line = "gate: not judged, the recheck was interrupted"
        return Verdict(comparison, lines=(line,), interrupted=True, old=judged.old)
    outcome = judged.outcome(rechecked)
    lines = judged.trouble_lines(*rechecked.lines, outcome.line, judged.risk_line)
    return Verdict(comparison, outcome, lines, old=judged.old)


def _of_shard(judged: JudgedRun) -> Verdict | None:
    """Say when it is judged: no suite is there as a whole."""
    when = "when the shards are merged (agenteval merge)"
    if judged.gates:
        return Verdict(lines=(f"gate: judged {when}",))
    return Verdict(lines=(f"baseline: compared {when}",)) if judged.has_baseline else None


def verdict_on_parts(run: Run, root: Path, named: Path | None, missing: str) -> Verdict | None:
    """Compare a run that was put together from parts, and judge its gates; no agent acts.

    ``named`` is the baseline that comes before those of suites, which are looked up from ``root``.
    ``missing`` says what is not there of the run, where that is so: then nobody judges the gates.
    """
    judged = JudgedRun(run, root, named)
    if not run.planned or not (judged.gates or judged.has_baseline):
        return None
    comparison = judged.comparison(judged.tolerance)
    if missing:
        line = f"gate: not judged, {missing}" if judged.gates else ""
        return Verdict(comparison, lines=judged.trouble_lines(line), old=judged.old)
    outcome = judged.outcome(not_tried_again(judged.broken, "while merging"))
    return Verdict(comparison, outcome, judged.trouble_lines(outcome.line, judged.risk_line), old=judged.old)


def write_comparison(folder: Path, verdict: Verdict) -> None:
    """Leave what came of the gates in the run's folder, with every figure of a comparison."""
    comparison = comparison_json(verdict.comparison) if verdict.comparison is not None else {}
    gate = {
        "broken": verdict.outcome.broken,
        "held": verdict.outcome.held,
        "unjudged": verdict.outcome.unjudged,
    }
    replace_json(
        folder / COMPARISON, KNOWN_SECRETS.value({**comparison, "gate": gate, "lines": verdict.lines})
    )


def _not_judged(status: int) -> str:
    why = "the run was interrupted" if status == pytest.ExitCode.INTERRUPTED else f"exit status {status}"
    return f"gate: not judged, {why}"


def _try_again(judged: JudgedRun, config: pytest.Config) -> RecheckedTasks:
    if judged.broken and not judged.run.header.regraded:
        return recheck(config, judged.broken)
    return not_tried_again(judged.broken, "while regrading")

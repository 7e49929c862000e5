"""An audit: the reference reaches 1.0, nothing and the reference spoilt miss; else the task is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.reports.audit_report import Audit, audit_of
from pytest_agenteval.store.run_documents import RunAudit
from pytest_agenteval.store.run_folder import list_runs
from pytest_agenteval.store.run_reader import load_run
from tests.audited_suites import SUITES
from tests.suites import collected_ids, only_our_plugin, run, write

pytest_plugins = ["pytester"]


@pytest.fixture(params=[0, 1], ids=["one-process", "one-worker"])
def audited(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[pytest.RunResult, Path]:
    """Audit two suites, with workers and without."""
    only_our_plugin(monkeypatch)
    write(pytester.path, SUITES)
    result = run(pytester, "evals", "--agent-audit", "-rA", workers=request.param)
    (folder,) = (pytester.path / ".agenteval/runs/audits").glob("2*")
    return result, folder


def _audit(folder: Path) -> Audit:
    audited = RunAudit.read(folder)
    assert audited is not None
    return audit_of(load_run(folder), audited)


def test_graders_that_see_nothing_are_reported_blind(audited: tuple[pytest.RunResult, Path]) -> None:
    """What the graders saw is a passed item, what they did not is a failed one, and the audit names it."""
    result, folder = audited
    audit = _audit(folder)
    good, bad = sorted(audit.suites, key=lambda each: each.suite, reverse=True)
    assert (good.suite, good.tasks, good.sight.share, good.is_sound(1.0)) == ("good", 2, 1.0, True)
    assert {trial.task for trial in bad.below} == {"wrong"}
    assert {trial.task for trial in bad.idle} == {"idle"}
    assert {(trial.player, trial.done) for trial in bad.unseen if trial.task == "blind"} >= {
        ("number_plus_one", "18 -> 19"),
        ("date_off_by_a_day", "2026-05-12: a day later"),
        ("verbatim_paste", "each text is replaced by the question"),
    }
    assert {trial.task for trial in bad.for_judges} == {"judged"}
    assert audit.unaudited == {"bad": ("bare",)}
    assert not audit.is_sound
    assert list_runs(folder.parent.parent) == [], "an audit is no run of an agent"
    assert not load_run(folder).header.held_out_looks
    text = result.stdout.str()
    assert "18 -> 19, and no grader caught it: passed with 1.00" in text
    assert "the agent did nothing, and no grader caught it: passed with 1.00" in text
    assert "the reference must score 1.0: 0.80" in text
    assert "good: 2 tasks, 14 planted mistakes: caught/planted" in text
    assert not [line for line in text.splitlines() if line.startswith("FAILED") and "/good/" in line]


def test_only_an_audit_collects_its_trials(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain run has nothing of it, its mark asks for it, and what brings other players is refused."""
    only_our_plugin(monkeypatch)
    write(pytester.path, {name: text for name, text in SUITES.items() if "/good/" in name})
    plain = collected_ids(pytester, "evals", "--agent-model=nop")
    assert [name.rpartition("[")[2] for name in plain] == ["nop-1]"]
    marked = collected_ids(pytester, "evals", "-m", "agenteval_audit")
    assert len(marked) == 2 * (2 + 7)
    assert len(collected_ids(pytester, "evals", "-m", "agenteval_audit and regression")) == len(marked)
    for without in ("not agenteval_audit", "not (slow or agenteval_audit)"):
        assert collected_ids(pytester, "evals", "--agent-model=nop", "-m", without) == plain
    refused = run(pytester, "evals", "--agent-audit", "--agent-model=nop")
    refused.stderr.fnmatch_lines(["*--agent-model: cannot be combined with an audit*"])
    unknown = run(pytester, "evals", "--agent-model=spoiler")
    unknown.stderr.fnmatch_lines(["*unknown model 'spoiler'*"])

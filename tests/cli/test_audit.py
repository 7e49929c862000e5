"""``agenteval audit``: what the graders of suites see, in the verb's words and by its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.audited_suites import SUITES
from tests.cli.documents import valid_document
from tests.forked_workers import fork_workers
from tests.suites import write


def test_the_verb_audits_and_says_by_its_status_whether_all_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """0 where enough is seen, 1 with the blind task's place, 2 where no task has a reference."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    fork_workers(monkeypatch)
    write(tmp_path, SUITES)
    assert main(["audit", "evals/good/suite.yaml", "--json", "-"]) == 0
    (good,) = valid_document("audit", capfd.readouterr().out)["suites"]
    assert sum(sight["seen"] for sight in good["spoilers"].values()) == 14
    next(path for path in tmp_path.glob("evals/good/*.yaml") if path.name != "suite.yaml").unlink()
    main(["audit", "evals/good/suite.yaml"])
    assert "references score 1.0 in 1 of 1 task," in capfd.readouterr().out
    assert main(["audit", "bad"]) == 1
    said = capfd.readouterr().out
    assert "evals/bad/blind.yaml:2 blind" in said
    assert "number (18 -> 19): score 1.00" in said
    assert "1 rubric: none of 168 planted verdicts is mistaken for the judge's own" in said
    for name in ("blind", "idle", "wrong", "judged"):
        (tmp_path / f"evals/bad/{name}.yaml").unlink()
    assert main(["audit", "bad"]) == 2
    assert "no task there has a reference_solution" in capfd.readouterr().err
    assert not (tmp_path / ".agenteval").exists()

"""A trial of an audit as a test: the reference has to reach 1.0, and everything else has to miss."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.records.explanation import explain_trial
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.items.trial_item import TrialItem
from pytest_agenteval.session.planning.audit_cases import NOP, ORACLE
from pytest_agenteval.session.report_hooks import longrepr
from pytest_agenteval.text.formatting import one_line

MOST_SHOWN = 300


class AuditFailed(Exception):
    """A trial that ended as graders that see something do not let it end; the text says how."""


class AuditItem(TrialItem):
    """One trial of an audit as a test: it passes where the graders saw what there is to see."""

    def runtest(self) -> None:
        """Pass where the reference has full marks, and where anything else has missed."""
        trial = self.trial
        if trial is None:
            return
        if self.case.model is ORACLE:
            if not trial.full:
                raise AuditFailed(f"the reference has to reach 1.0: {_score(trial)}")
        elif trial.ending == "passed":
            _xfail_for_judges(trial)
            raise AuditFailed(f"{self._done()}, and no grader has seen it: passed with {_score(trial)}")

    def _done(self) -> str:
        if self.case.model is NOP:
            return "nothing was done"
        spoilt = self.evals.audit.spoilt(self.task, self.case) if self.evals.audit else None
        return one_line(spoilt.done, MOST_SHOWN) if spoilt else ""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what was done and how the graders took it, without a traceback."""
        if isinstance(excinfo.value, AuditFailed) and self.trial is not None:
            said = str(excinfo.value)
            text = "\n".join([said, *explain_trial(self.trial)])
            return longrepr(text, self.source, self.task.line, said)
        return super().repr_failure(excinfo, style)


def _score(trial: Trial) -> str:
    return "no score" if trial.score is None else f"{trial.score:.2f}"


def _xfail_for_judges(trial: Trial) -> None:
    """Leave open what a judge who was not asked may see."""
    waiting = [grade.grader for grade in trial.grades if grade.undecided == "no_judge"]
    if waiting:
        pytest.xfail(f"no grader without a judge has seen it; not asked: {', '.join(waiting)}")

"""Tests of one's own that try agents: by the fixture ``agenteval``, or by the mark of that name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_agenteval.session.api.fixture import AgentEval
from pytest_agenteval.session.eval_session import EvalSession, get_eval_session
from pytest_agenteval.session.items.marked_test import marked_tests
from pytest_agenteval.text.errors import UsageMistake

MARKED_TEST = "agenteval_marked_test"
"""The attribute of an item that says how often its body runs; plugin.py looks for it."""


def agenteval_of(request: pytest.FixtureRequest) -> AgentEval:
    """Give the fixture of the test that asks."""
    return AgentEval(get_eval_session(request.config), request.node)


def session_with_tests(config: pytest.Config, tests: Sequence[pytest.Item]) -> EvalSession:
    """Give the session's evals, and see to it that marked tests run as often as they say."""
    evals = get_eval_session(config)
    if evals.settings.regrade or evals.audit is not None:
        which = "--agent-regrade" if evals.settings.regrade else "--agent-audit"
        for item in tests:
            item.add_marker(pytest.mark.skip(f"{which}: trials of tasks alone; this test would try an agent"))
        return evals
    try:
        for item, test in marked_tests(tests, evals):
            setattr(item, MARKED_TEST, test)
    except UsageMistake as mistake:
        evals.refuse(mistake)
    return evals

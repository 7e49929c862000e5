"""The verdict beside a suite in the list of runs."""

from __future__ import annotations

import pytest

from pytest_agenteval.reports.run_list import verdict_text
from pytest_agenteval.store.run_documents import StoredVerdict


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (None, "-"),
        (StoredVerdict("s", ("m", ""), "identical"), "identical"),
        (StoredVerdict("s", ("m", ""), "better", of_these_tasks=True), "better on these tasks"),
        (StoredVerdict("s", ("m", ""), "worse", ("b",)), "worse"),
        (StoredVerdict("s", ("m", ""), "better", ("b",)), "better"),
        (StoredVerdict("s", ("m", ""), "cannot tell", ("b",), ("c",)), "worse: 1 bucket"),
        (StoredVerdict("s", ("m", ""), "cannot tell", (), ("c", "d")), "better: 2 buckets"),
        (StoredVerdict("s", ("m", ""), "cannot tell", rules=0), "cannot tell, by older rules"),
    ],
)
def test_a_verdict_is_that_of_the_suite_else_of_its_buckets(verdict: StoredVerdict | None, text: str) -> None:
    """The worse ones first; rules may have changed since it was stored."""
    assert verdict_text(verdict) == text

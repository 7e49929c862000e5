"""Reports of tests on their way from a worker to the controller, each as one piece of bytes.

execnet writes what it sends, and reads it, number by number and text by text in Python: of a trial's three
reports that took more than the trial.
"""

from __future__ import annotations

import marshal
from collections.abc import Generator
from typing import Any, TypeAlias

import pytest

ReportData: TypeAlias = dict[str, Any]

PACKED = "agenteval_packed"
FORM = 4
"""marshal's, which every Python knows that pytest runs on: a worker may have another than the controller."""


class ReportPacking:
    """Packs the reports that a worker sends."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> Generator[None, ReportData | None, ReportData | None]:
        """Pack what pytest made of a test's report."""
        data = yield
        return pack(data) if data is not None and isinstance(report, pytest.TestReport) else data


def pack(data: ReportData) -> ReportData:
    """Give a report as one piece; one that holds anything beyond plain data is left as it is."""
    try:
        return {PACKED: marshal.dumps(data, FORM)}
    except ValueError:  # another plugin put it there, and execnet has words for it
        return data


def unpack(data: ReportData) -> None:
    """Put the report that was packed in the place of the piece; what xdist put beside it stays."""
    packed = data.pop(PACKED)
    data.update(marshal.loads(packed))  # a worker of our own wrote it

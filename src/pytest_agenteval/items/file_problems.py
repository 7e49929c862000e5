"""A file that cannot be collected, for whoever wants to know of each problem alone."""

from __future__ import annotations

import pytest

from pytest_agenteval.errors import ProblemsFound


class FileProblems(pytest.Collector.CollectError):
    """What pytest shows of a file with problems, without a traceback; ``problems`` holds each of them."""

    def __init__(self, wrong: ProblemsFound) -> None:
        super().__init__(str(wrong))
        self.problems = wrong.problems

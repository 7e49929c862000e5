"""A file that cannot be collected, for whoever wants to know of each problem alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from pytest_agenteval.session.eval_session import EvalSession
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake


class FileProblems(pytest.Collector.CollectError):
    """What pytest shows of a file with problems, without a traceback; ``problems`` holds each of them."""

    def __init__(self, wrong: ProblemsFound) -> None:
        super().__init__(str(wrong))
        self.problems = wrong.problems


def collect_items(
    evals: EvalSession, items: Callable[[EvalSession], Iterable[pytest.Item]]
) -> Sequence[pytest.Item]:
    """Give the items of a file or suite; raises FileProblems with everything that is wrong with it.

    A mistake of whoever called pytest refuses the whole run, which collects nothing then.
    """
    if evals.refusal:
        return ()
    try:
        return list(items(evals))
    except ProblemsFound as wrong:
        raise FileProblems(wrong) from None
    except UsageMistake as mistake:
        evals.refuse(mistake)
        return ()


def reported_name(name: str) -> str:
    """Give an item's name as reports show it, with a space behind a name that has dots before its bracket.

    With ``-v``, pytest writes the dots of a node id that ends with this name as ``::``, as if they were those
    of ``Class.method``; such a node id could not be pasted. With the space the node id has another end.
    """
    return f"{name} " if "." in name.partition("[")[0] else name

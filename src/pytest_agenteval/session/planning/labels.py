"""Tasks in which an agent should act, and those in which it had better not; what acting is says the suite.

In a suite that says nothing of it, ``metadata.label`` means whatever its author likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_agenteval.records.plan import Label
from pytest_agenteval.session.planning.setting_problems import ConfigProblem
from pytest_agenteval.tasks.suite_spec import NOTHING_ACTS, Suite
from pytest_agenteval.tasks.task_spec import Task

KEY = "label"
LABELS: dict[str, Label] = {"positive": "positive", "negative": "negative"}


def label_of(task: Task, suite: Suite | None) -> Label:
    """Give the task's label; none where it has none, or its suite does not say what acting is."""
    return LABELS.get(task.metadata.get(KEY, ""), "") if _says_acting(suite) else ""


def label_problems(task: Task, suite: Suite | None) -> Sequence[ConfigProblem]:
    """Say which label is none: a misspelt one would be left out of every figure in silence."""
    label = task.metadata.get(KEY)
    if label is None or label in LABELS or not _says_acting(suite):
        return ()
    return [ConfigProblem(("metadata", KEY), " or ".join(LABELS), repr(label))]


def _says_acting(suite: Suite | None) -> bool:
    return suite is not None and suite.acts != NOTHING_ACTS

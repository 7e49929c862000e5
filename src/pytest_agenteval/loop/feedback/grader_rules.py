"""What the graders of a bucket ask, in their own words and in those of the tasks."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_agenteval.loop.feedback.content import GraderCount
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.factories import InstanceFactory
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import one_line

MOST_TASKS = 3
"""Tasks whose descriptions make a bucket's rule."""

MOST_RULE, MOST_ASKS = 220, 160
_FIRST_SENTENCE = re.compile(r"(?<=[.?!])\s")


def grader_counts(
    entries: Sequence[JournalEntry], trials: Iterable[Trial], tasks: Iterable[Task], registry: Registry
) -> tuple[GraderCount, ...]:
    """Give the graders that any of a bucket's trials did not pass, the most often failed first.

    ``trials`` are those that are shown: where a grader says nothing of itself, it asks what failed in them.
    """
    failed: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for entry in entries:
        failed.update(grade.grader for grade in entry.grades if grade.passed is False)
        decided.update(grade.grader for grade in entry.grades if grade.passed is not None)
    docs = {label: doc for task in tasks for label, doc in _docs(task, registry)}
    claims = dict(_claims(trials))
    return tuple(
        GraderCount(name, times, decided[name], docs.get(name) or claims.get(name, ""))
        for name, times in failed.most_common()
    )


def _docs(task: Task, registry: Registry) -> Iterator[tuple[str, str]]:
    """Give what each of a task's graders says of itself, by the name that its grades have."""
    for spec in task.graders:
        members = registry.group(spec.name)
        for name, label in members or ((spec.name, spec.title),):
            yield label, _doc(name, registry)


def _doc(name: str, registry: Registry) -> str:
    """Give the first paragraph of a grader's docstring; nothing for one that a conftest registers."""
    try:
        factory: Any = registry.grader_factory(name)
    except AgentEvalError:
        return ""
    thing = factory.thing if isinstance(factory, InstanceFactory) else factory
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        thing = type(thing)
    return one_line((inspect.getdoc(thing) or "").partition("\n\n")[0], MOST_ASKS)


def _claims(trials: Iterable[Trial]) -> Iterator[tuple[str, str]]:
    for trial in trials:
        for grade in trial.grades:
            if failed := failed_checks(grade.checks):
                yield grade.grader, one_line(failed[0].claim, MOST_ASKS)


def rule_sentence(graders: Sequence[GraderCount], named: str = "") -> str:
    """Say what the grader asks that failed most often, or the one named, in its first sentence."""
    asking = next((grader for grader in graders if grader.asks and named in ("", grader.grader)), None)
    return f"{asking.grader}: {_FIRST_SENTENCE.split(asking.asks, maxsplit=1)[0]}" if asking else ""


def task_descriptions(tasks: Sequence[Task]) -> str:
    """Say how a bucket's failing tasks are described."""
    descriptions = list(
        dict.fromkeys(_sentence(task.description) for task in tasks if task.description.strip())
    )
    more = f"; and {len(descriptions) - MOST_TASKS} more" if len(descriptions) > MOST_TASKS else ""
    return "; ".join(descriptions[:MOST_TASKS]) + more


def _sentence(description: str) -> str:
    return one_line(description, MOST_RULE).rstrip(".")

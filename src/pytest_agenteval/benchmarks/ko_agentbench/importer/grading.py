"""Grades of logged trials: our own graders, counting as the benchmark's code does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import Logged
from pytest_agenteval.benchmarks.ko_agentbench.importer.verdicts import JUDGED, judges_of
from pytest_agenteval.canonical import digest
from pytest_agenteval.errors import AgentEvalError
from pytest_agenteval.graders.grader import Grader
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.recorder import Recorder

PACKAGE = "pytest_agenteval"
MODE = "upstream"
FROM_THE_LOG = (
    "instruction",
    "golden_action",
    "arg_schema",
    "resp_schema",
    "minimum_steps",
    "data_flow",
    "error_injection",
    "fallback_options",
)
"""The keys of a task that the benchmark's evaluator takes from the log."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a report says of a task, and who judged; without a report there are neither."""

    metrics: Mapping[str, Any] | None = None
    judge: str = ""


class Ruler:
    """The graders of one logged result."""

    def __init__(self, logged: Logged) -> None:
        self.config = grader_config(logged)
        self._graders = dict(_made(logged.level, self.config))

    async def grades(self, evidence: Evidence, published: Published, asked: Recorder) -> tuple[Grade, ...]:
        """Give every grade; judges say what was published, and what they are asked is written down."""
        return tuple([await self._grade(label, evidence, published, asked) for label in self._graders])

    def digest(self, judge: str) -> str:
        """Give a digest of everything that the grades depend on beside the trial."""
        rows = [
            [label, self.config, getattr(one, "version", "1"), judge if label in JUDGED else ""]
            for label, one in self._graders.items()
        ]
        return digest(rows)

    async def _grade(self, label: str, evidence: Evidence, published: Published, asked: Recorder) -> Grade:
        grader = self._graders[label]
        if isinstance(grader, Grade):
            return grader
        threshold: float = getattr(grader, "threshold", 1.0)
        with_judges = getattr(grader, "with_judges", None)
        judges = judges_of(label, published.metrics, published.judge, asked) if with_judges else ()
        asking = with_judges(judges) if with_judges else grader
        found: Any = asking.grade(evidence)
        grade: Grade = await found if inspect.isawaitable(found) else found
        return replace(grade, grader=label, threshold=threshold)


def grader_config(logged: Logged) -> dict[str, Any]:
    """Give what the benchmark's evaluator knows of a task: what its log holds, and no more."""
    said = {key: logged.fields[key] for key in FROM_THE_LOG if logged.fields.get(key) is not None}
    return {"task_level": logged.fields.get("level"), "mode": MODE, **said}


def _made(level: str, config: Mapping[str, Any]) -> Iterator[tuple[str, Grader | Grade]]:
    """Make the graders; one that refuses what the log says gives an undecided grade."""
    for name, label in GROUPS[f"ko_{level}"]:
        try:
            yield label, _factory(name)(**config)
        except (AgentEvalError, ValueError, TypeError) as refused:
            yield label, Grade(label, None, f"the log's task cannot be graded: {refused}")


@cache
def _factory(name: str) -> Callable[..., Grader]:
    """Find a grader's class as the registry does, which stands above this floor."""
    module, _, attribute = GRADERS[name].partition(":")
    factory: Callable[..., Grader] = getattr(import_module(f"{PACKAGE}.{module}"), attribute)
    return factory

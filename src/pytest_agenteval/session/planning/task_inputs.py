"""What a task is given beyond its file: texts of files it names, what its agent adds, its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import prepares_input
from pytest_agenteval.graders.grader import agent_of
from pytest_agenteval.records.plan import Allowance, PlannedGrader
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.registration_check import RegistrationCheck
from pytest_agenteval.tasks.documents import read_bytes, short_path
from pytest_agenteval.tasks.load import LoadedTask
from pytest_agenteval.tasks.referenced_files import grader_files
from pytest_agenteval.tasks.task_settings import TaskSettings
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import Problem, ProblemsFound

STEPS, SECONDS = 50, 300.0
"""What a trial may use where neither task nor suite says anything."""


def inline_file_settings(
    loaded: LoadedTask, checker: RegistrationCheck, suite_dir: Path | None, root: Path
) -> LoadedTask:
    """Put the texts of files in the place of their names; raises ProblemsFound where one cannot be read."""
    texts: dict[int, Mapping[str, str]] = {}
    for index, spec in enumerate(loaded.task.graders):
        endings = checker.files_of(spec.name) if spec.config else None
        if endings:
            files = grader_files(loaded.task, index, endings, suite_dir, loaded.file, root)
            texts[index] = {key: text_of(path) for key, path in files.items()}
    if not any(texts.values()):
        return loaded
    graders = tuple(
        replace(spec, config={**spec.config, **texts.get(index, {})})
        for index, spec in enumerate(loaded.task.graders)
    )
    return replace(loaded, task=replace(loaded.task, graders=graders))


def text_of(path: Path) -> str:
    """Read a file that has to be text in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as broken:
        found = f"the byte 0x{broken.object[broken.start]:02x}"
        raise ProblemsFound([Problem(short_path(path), None, (), "a text in UTF-8", found)]) from None


Prepare = Callable[
    [Mapping[str, Any], str, str | None, Callable[[str], str | None]],
    tuple[Mapping[str, Any], Mapping[str, str]],
]


def complete_input(
    registry: Registry,
    agent: str,
    graders: Sequence[PlannedGrader],
    task: Task,
    clock: str | None,
    layers: Sequence[str],
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give a task's whole input, and what is written into its starting workspace.

    The agent's class has the say; of an agent that has none, that agent for whose work the graders are made.
    """
    prepare = _preparer(registry, agent, graders)
    if prepare is None:
        return task.input, NOTHING
    return prepare(task.input, task.id, clock, partial(_read, layers))


def _preparer(registry: Registry, agent: str, graders: Sequence[PlannedGrader]) -> Prepare | None:
    agent_factory = registry.agent_factory(agent)
    if prepares_input(agent_factory):
        return agent_factory.prepared
    for grader in graders:
        name = agent_of(registry.grader_factory(grader.name))
        if name:
            graded_agent_factory = registry.agent_factory(name)
            return graded_agent_factory.prepared if prepares_input(graded_agent_factory) else None
    return None


def _read(layers: Sequence[str], path: str) -> str | None:
    """Read a file of the starting workspace: the highest layer that has it."""
    for layer in reversed(layers):
        try:
            return Path(layer, path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None


def allowance_of(settings: TaskSettings) -> Allowance:
    """Give what each trial of a task may use; equal ones are one object, for most tasks have the same."""
    limits = settings.limits
    return _shared_allowance(limits.steps or STEPS, limits.seconds or SECONDS, limits.tokens, limits.cost_usd)


@cache
def _shared_allowance(steps: int, seconds: float, tokens: int | None, cost_usd: float | None) -> Allowance:
    return Allowance(steps, seconds, tokens, cost_usd)

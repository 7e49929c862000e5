"""``agenteval audit``: each task runs with its reference, with nothing at all, and with spoilt references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pytest_agenteval.chat.offline.reference_solution import FileWriter, Spoilt
from pytest_agenteval.chat.offline.spoilers import SPOILERS, spoilt_references
from pytest_agenteval.graders.judge.judge_grader import RubricGrader
from pytest_agenteval.graders.judge.planted_verdicts import TRIED, planted_faults
from pytest_agenteval.records.plan import Model, PlannedTask
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import UNNAMED, Case, PlannedItem
from pytest_agenteval.store.run_documents import AuditedRubric, AuditedTask, PlannedSpoiler, RunAudit

PREFIX = "spoiler:"
ORACLE, NOP = (Model(name, name, offline=True) for name in ("oracle", "nop"))
SPOILER_MODELS = {name: Model(f"{PREFIX}{name}", "spoiler", offline=True) for name in SPOILERS}

TaskName = tuple[str, str]  # a suite and a task of it


class AuditCases:
    """Works out how each task is audited.

    The repetitions of a spoiler's trials are the different ways in which it spoils the task's reference.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._forms: dict[TaskName, Mapping[str, tuple[Spoilt, ...]]] = {}
        # Tasks with the same cases share one tuple, so their items share what pytest works out for it.
        self._shared: dict[tuple[tuple[str, int], ...], tuple[Case, ...]] = {}
        self._unaudited: list[AuditedTask] = []
        self._rubrics: dict[tuple[str, str], AuditedRubric] = {}

    def cases_of(self, task: PlannedTask) -> tuple[Case, ...]:
        """Give every case of a task; none where it has no reference to act out."""
        for planned in task.graders:
            grader = self._registry.grader_factory(planned.name)(**planned.config)
            # In upstream mode a grader repeats the original benchmark's judgement, with its faults.
            if not isinstance(grader, RubricGrader) or getattr(grader, "mode", "") == "upstream":
                continue
            rubric = grader.used_rubric()
            if rubric is not None and (task.suite, rubric.digest()) not in self._rubrics:
                self._rubrics[task.suite, rubric.digest()] = AuditedRubric(
                    task.suite, rubric.name, _place(task), TRIED, tuple(planted_faults(rubric))
                )
        if not (task.reference or {}).get("turns"):
            self._unaudited.append(_audited(task))
            return ()
        writer = self._registry.file_writer_of(task.agent)
        forms = spoilt_references(task, FileWriter(*writer) if writer else None)
        self._forms[task.suite, task.id] = forms
        counts = tuple((name, len(spoilt)) for name, spoilt in forms.items())
        if counts not in self._shared:
            self._shared[counts] = (
                Case(ORACLE, UNNAMED, 1),
                Case(NOP, UNNAMED, 1),
                *(
                    Case(SPOILER_MODELS[name], UNNAMED, number)
                    for name, count in counts
                    for number in range(1, count + 1)
                ),
            )
        return self._shared[counts]

    def spoilt(self, task: PlannedTask, case: Case) -> Spoilt | None:
        """Give the spoilt reference that a case acts out; None for the whole reference and for ``nop``."""
        if not case.model.name.startswith(PREFIX):
            return None
        name = case.model.name.removeprefix(PREFIX)
        return self._forms[task.suite, task.id][name][case.repetition - 1]

    def task_with_reference(self, task: PlannedTask, case: Case) -> PlannedTask:
        """Give the task with the reference that the case acts out: the author's own, or a spoilt one."""
        spoilt = self.spoilt(task, case)
        if spoilt is None:
            return task
        return replace(task, reference={**(task.reference or {}), "turns": spoilt.turns})

    def planned(self, items: Iterable[PlannedItem]) -> RunAudit:
        tasks: dict[TaskName, AuditedTask] = {}
        spoilers = []
        for item in items:
            task, case = item.task, item.case
            tasks.setdefault((task.suite, task.id), _audited(task))
            spoilt = self.spoilt(task, case)
            if spoilt is not None:
                name = case.model.name.removeprefix(PREFIX)
                spoilers.append(
                    PlannedSpoiler(task.suite, task.id, name, case.repetition, spoilt.done, spoilt.places)
                )
        rubrics = tuple(self._rubrics.values())
        return RunAudit(tuple(tasks.values()), tuple(self._unaudited), tuple(spoilers), rubrics)


def _audited(task: PlannedTask) -> AuditedTask:
    graders = {grader.label: grader.name for grader in task.graders}
    return AuditedTask(task.suite, task.id, _place(task), graders)


def _place(task: PlannedTask) -> str:
    return f"{task.row_file or task.file}:{task.line}"

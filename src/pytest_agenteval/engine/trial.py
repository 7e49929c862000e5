"""One trial, from plan to graded record, in the order in which it happens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.chat.recording_chat import AgentChat
from pytest_agenteval.engine.acting import scripted_turns, within_limits
from pytest_agenteval.engine.cancelling import is_for_us
from pytest_agenteval.engine.digests import digests_of
from pytest_agenteval.engine.ending import ending_of, score_of, ungraded
from pytest_agenteval.engine.equipment import Equipment
from pytest_agenteval.engine.grading import nobody
from pytest_agenteval.engine.judges import TrialJudges
from pytest_agenteval.engine.models import chat_of, recordings_of, tool_tape_of
from pytest_agenteval.engine.own_requests import OwnRequests
from pytest_agenteval.engine.tracebacks import headline, theirs_first
from pytest_agenteval.errors import ProblemsFound, TrialBroken
from pytest_agenteval.limits import Budget, Clock
from pytest_agenteval.records.bounds import bounded_answer, bounded_text
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.tools.arguments import load_checking
from pytest_agenteval.tools.box import ToolBox
from pytest_agenteval.tools.faults import faults_of
from pytest_agenteval.trial_output import CURRENT, Captured
from pytest_agenteval.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pytest_agenteval.chat.chat_tape import ChatTape
    from pytest_agenteval.tools.tape import ToolTape

NO_TAPE = TapeCounts()


@dataclass(slots=True)
class _Course:
    """What has come of a trial so far, the tapes that it has opened among it."""

    answer: Answer = Answer()
    limit: str = ""
    cause: str = ""
    message: str = ""
    traceback: str = ""
    seconds: float = 0.0
    before: Tree = field(default_factory=Tree)
    after: Tree = field(default_factory=Tree)
    grades: tuple[Grade, ...] = ()
    digests: Digests = Digests()
    chat_tape: ChatTape | None = None
    tool_tape: ToolTape | None = None
    judge_tapes: Sequence[ChatTape] = ()

    def broke(self, raised: BaseException) -> None:
        """Note that the trial broke; what we or an agent's author did wrong keeps its traceback."""
        if isinstance(raised, TrialBroken | ProblemsFound):
            self.cause, self.message, self.traceback = raised.cause, bounded_text(str(raised)), ""
        else:
            self.cause, self.message = "crash", bounded_text(headline(raised))
            self.traceback = bounded_text(theirs_first(raised))


@dataclass(frozen=True, slots=True)
class _TrialUnderWay:
    """A plan being carried out: what only this trial has, and its course."""

    plan: Plan
    budget: Budget
    recorder: Recorder
    workspace: Workspace
    captured: Captured
    started_at: str
    course: _Course

    @classmethod
    def of(cls, plan: Plan, scratch: Path | None = None, given: Path | None = None) -> _TrialUnderWay:
        """Make all of it, of which nothing is begun."""
        kept = plan.conditions.keep_workspaces
        layers = [Path(layer) for layer in plan.task.layers]
        workspace = Workspace(layers, texts=plan.task.texts, parent=Path(kept) if kept else scratch, at=given)
        budget = Budget(plan.task.limits)
        recorder = Recorder(lambda: budget.at)
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(plan, budget, recorder, workspace, Captured(), started_at, _Course())


async def run_trial(plan: Plan, equipment: Equipment, *, given: Path | None = None) -> Trial:
    """Carry out one plan and give the graded trial; whatever breaks is in the record, never raised.

    ``given`` is a workspace that stands already, to be used in place of a fresh one.
    """
    trial = _TrialUnderWay.of(plan, equipment.scratch, given)
    course = trial.course
    CURRENT.set(trial.captured)
    try:
        await _act(trial, equipment)
        if not course.cause:
            await _grade(trial, equipment)
    except Exception as raised:  # ours: shown with its traceback, and no other trial is harmed
        course.broke(raised)
    finally:
        if not plan.conditions.keep_workspaces:
            trial.workspace.remove()
    _save(trial, equipment)
    return _record(trial)


def broken_trial(plan: Plan, raised: BaseException) -> Trial:
    """Give the record of a trial that an executor could not even begin."""
    trial = _TrialUnderWay.of(plan)
    trial.course.broke(raised)
    return _record(trial)


async def _act(trial: _TrialUnderWay, equipment: Equipment) -> None:
    """Let the agent act, and look at what it left behind, also after a crash."""
    plan, budget, course = trial.plan, trial.budget, trial.course
    with equipment.setting_up():
        stage = _set_up(trial, equipment)
    agent, ctx, box = stage.agent, stage.ctx, stage.box
    with stage.own.answering():
        on_loop = inspect.iscoroutinefunction(agent.run)
        try:
            with equipment.acting(budget, on_loop=on_loop):
                # A copy: a plan is shared by all its repetitions, and by the graders.
                answer, course.limit = await within_limits(agent.run, deepcopy(plan.task.input), ctx)
            course.answer = bounded_answer(answer)
        except BaseException as raised:  # even SystemExit: an agent must not end the run
            if is_for_us(raised):
                raise
            course.broke(raised)
        course.seconds = max(0.0, budget.seconds)  # two reasons may forgive the same wait
        course.digests = digests_of(plan, equipment, stage.prompt_digest, box.specs, equipment.book)
        course.after = trial.workspace.after()
        end_state = getattr(agent, "end_state", None)
        if end_state is not None:
            state = end_state(deepcopy(plan.task.input), ctx)
            course.answer = bounded_answer(replace(course.answer, state={**course.answer.state, **state}))
    course.tool_tape = box.tape
    if trial.recorder.broken is not None:  # even where the agent swallowed it
        course.broke(trial.recorder.broken)


@dataclass(frozen=True, slots=True)
class _Stage:
    """All that an agent needs to act, made before the trial's clock starts."""

    agent: Any
    ctx: AgentContext
    box: ToolBox
    own: OwnRequests
    prompt_digest: str


def _set_up(trial: _TrialUnderWay, equipment: Equipment) -> _Stage:
    """Import and make what the agent needs, and build its workspace: no second of this is the agent's."""
    plan, budget, recorder, course = trial.plan, trial.budget, trial.recorder, trial.course
    task = plan.task
    inner, course.chat_tape = chat_of(plan.model, plan, equipment, budget, recorder)
    box = ToolBox(
        recorder,
        tape=partial(tool_tape_of, plan, equipment) if task.cassette else None,
        on_miss=task.on_miss,
        faults=faults_of(task.faults),
        registered=equipment.tools(task),
    )
    own = OwnRequests(plan, box, recorder)
    with own.answering(closing=False):  # an agent, and the threads that it starts, serve later trials too
        agent = equipment.agent(task)
        prompts, prompt_digest = equipment.prompts(task, plan.variant)
    box.offer_named(_tool_names(agent, plan, equipment))
    load_checking(box.specs)
    prompts.load()
    chat = AgentChat(inner, recorder=recorder, budget=budget, tape=course.chat_tape)
    turns = scripted_turns(task.input)
    ctx = AgentContext(trial.workspace, box, chat, Clock(task.clock), budget, prompts, turns, recorder)
    course.before = trial.workspace.before()
    return _Stage(agent, ctx, box, own, prompt_digest)


def _tool_names(agent: Any, plan: Plan, equipment: Equipment) -> Sequence[str]:
    """Give the names of the tools to offer: those the agent has, else all of the suite's.

    Where the settings say ``tools``, the agent has these and no others, be there none.
    """
    own: Sequence[str] = getattr(agent, "tools", ())
    if own or "tools" in plan.task.settings:
        return own
    return tuple(equipment.suite_tools(plan.task))


async def _grade(trial: _TrialUnderWay, equipment: Equipment) -> None:
    """Grade what was left behind."""
    plan, recorder, course = trial.plan, trial.recorder, trial.course
    outcome = Outcome(course.answer, course.before, course.after)
    evidence = Evidence(plan.task.input, recorder.transcript(), outcome)
    asked = nobody
    if plan.conditions.judges:
        judges = TrialJudges(plan, equipment, recorder)
        asked, course.judge_tapes = judges.of, judges.tapes
    graded = await equipment.desk.grade(plan.task.graders, evidence, asked)
    course.grades = graded.grades
    found = graded.broken or ungraded(graded.grades)
    if found is not None:
        course.cause, course.message, course.traceback = found.cause, found.message, found.traceback


def _save(trial: _TrialUnderWay, equipment: Equipment) -> None:
    """Write what this trial recorded; what cannot be written breaks it, and no other trial."""
    try:
        equipment.save_cassettes(recordings_of(trial.plan))
    except Exception as raised:
        if not trial.course.cause:  # what broke first is told with the trial, the rest when all is closed
            trial.course.broke(raised)


def _record(trial: _TrialUnderWay) -> Trial:
    """Put everything together."""
    plan, course, task = trial.plan, trial.course, trial.plan.task
    kept = plan.conditions.keep_workspaces and trial.workspace.made
    return Trial(
        key=plan.key,
        attempt=plan.attempt,
        ending="errored" if course.cause else ending_of(course.grades, task.kind),
        score=None if course.cause else score_of(course.grades),
        grades=course.grades,
        transcript=trial.recorder.transcript(),
        outcome=Outcome(course.answer, course.before, course.after),
        digests=course.digests,
        kind=task.kind,
        bucket=task.bucket,
        tags=task.tags,
        limit=course.limit,
        cause=course.cause,
        message=course.message,
        traceback=course.traceback,
        started_at=trial.started_at,
        seconds=course.seconds,
        tool_tape=_counts(course.tool_tape),
        chat_tape=_counts(course.chat_tape, *course.judge_tapes),
        output=trial.captured.output,
        log=trial.captured.logged,
        workspace=str(trial.workspace.path) if kept else "",
    )


def _counts(*tapes: Any) -> TapeCounts:
    there = [tape for tape in tapes if tape is not None]
    if not there:
        return NO_TAPE
    hits, misses = sum(tape.hits for tape in there), sum(tape.misses for tape in there)
    return TapeCounts(hits, misses, sum(tape.recorded for tape in there))

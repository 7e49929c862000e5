"""One trial, from plan to graded record, in the order in which it happens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.chat.recording_chat import AgentChat
from pytest_agenteval.engine.agent_run import run_within_limits, user_turns
from pytest_agenteval.engine.digests import digests_of
from pytest_agenteval.engine.ending import graded_ending, ungraded_error, weighted_score
from pytest_agenteval.engine.exceptions import exception_line, is_own_cancellation, user_frames_first
from pytest_agenteval.engine.grading import no_judges
from pytest_agenteval.engine.own_requests import OwnRequests
from pytest_agenteval.engine.trial_resources import TrialJudges, cassette_files, open_chat, open_tool_tape
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.errors import ProblemsFound, TrialBroken
from pytest_agenteval.limits import Budget, Clock
from pytest_agenteval.records.bounds import bounded_answer, bounded_text
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.trial import Digests, TapeCounts, Trial
from pytest_agenteval.tools.faults import faults_of
from pytest_agenteval.tools.tool import compile_schemas
from pytest_agenteval.tools.toolbox import ToolBox
from pytest_agenteval.trial_output import TrialOutput, current_output
from pytest_agenteval.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pytest_agenteval.chat.chat_tape import ChatTape
    from pytest_agenteval.tools.tape import ToolTape

NO_TAPE = TapeCounts()


@dataclass(slots=True)
class _TrialState:
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

    def fail(self, raised: BaseException) -> None:
        """Note that the trial fail; what we or an agent's author did wrong keeps its traceback."""
        if isinstance(raised, TrialBroken | ProblemsFound):
            self.cause, self.message, self.traceback = raised.cause, bounded_text(str(raised)), ""
        else:
            self.cause, self.message = "crash", bounded_text(exception_line(raised))
            self.traceback = bounded_text(user_frames_first(raised))


class _TrialUnderWay(FrozenValue, frozen=True):
    """A plan being carried out: what only this trial has, and its state."""

    plan: Plan
    budget: Budget
    recorder: Recorder
    workspace: Workspace
    captured: TrialOutput
    started_at: str
    state: _TrialState

    @classmethod
    def of(cls, plan: Plan, scratch: Path | None = None, given: Path | None = None) -> _TrialUnderWay:
        """Make all of it, of which nothing is begun."""
        kept = plan.conditions.keep_workspaces
        layers = [Path(layer) for layer in plan.task.layers]
        workspace = Workspace(layers, texts=plan.task.texts, parent=Path(kept) if kept else scratch, at=given)
        budget = Budget(plan.task.limits)
        recorder = Recorder(lambda: budget.at)
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(plan, budget, recorder, workspace, TrialOutput(), started_at, _TrialState())


async def run_trial(plan: Plan, context: WorkerContext, *, given: Path | None = None) -> Trial:
    """Carry out one plan and give the graded trial; whatever breaks is in the record, never raised.

    ``given`` is a workspace that stands already, to be used in place of a fresh one.
    """
    trial = _TrialUnderWay.of(plan, context.scratch, given)
    state = trial.state
    current_output.set(trial.captured)
    try:
        await _act(trial, context)
        if not state.cause:
            await _grade(trial, context)
    except Exception as raised:  # ours: shown with its traceback, and no other trial is harmed
        state.fail(raised)
    finally:
        if not plan.conditions.keep_workspaces:
            trial.workspace.remove()
    _save(trial, context)
    return _record(trial)


def errored_trial(plan: Plan, raised: BaseException) -> Trial:
    """Give the record of a trial that an executor could not even begin."""
    trial = _TrialUnderWay.of(plan)
    trial.state.fail(raised)
    return _record(trial)


async def _act(trial: _TrialUnderWay, context: WorkerContext) -> None:
    """Let the agent act, and look at what it left behind, also after a crash."""
    plan, budget, state = trial.plan, trial.budget, trial.state
    with context.setup_excluded():
        stage = _set_up(trial, context)
    agent, ctx, box = stage.agent, stage.ctx, stage.box
    with stage.own.answering():
        on_loop = inspect.iscoroutinefunction(agent.run)
        try:
            with context.agent_running(budget, on_loop=on_loop):
                # A copy: a plan is shared by all its repetitions, and by the graders.
                answer, state.limit = await run_within_limits(agent.run, deepcopy(plan.task.input), ctx)
            state.answer = bounded_answer(answer)
        except BaseException as raised:  # even SystemExit: an agent must not end the run
            if is_own_cancellation(raised):
                raise
            state.fail(raised)
        state.seconds = max(0.0, budget.seconds)  # two reasons may forgive the same wait
        state.digests = digests_of(plan, context, stage.prompt_digest, box.specs, context.digest_cache)
        state.after = trial.workspace.after()
        end_state = getattr(agent, "end_state", None)
        if end_state is not None:
            reported = end_state(deepcopy(plan.task.input), ctx)
            state.answer = bounded_answer(replace(state.answer, state={**state.answer.state, **reported}))
    state.tool_tape = box.tape
    if trial.recorder.broken is not None:  # even where the agent swallowed it
        state.fail(trial.recorder.broken)


class _Stage(FrozenValue, frozen=True):
    """All that an agent needs to act, made before the trial's clock starts."""

    agent: Any
    ctx: AgentContext
    box: ToolBox
    own: OwnRequests
    prompt_digest: str


def _set_up(trial: _TrialUnderWay, context: WorkerContext) -> _Stage:
    """Import and make what the agent needs, and build its workspace: no second of this is the agent's."""
    plan, budget, recorder, state = trial.plan, trial.budget, trial.recorder, trial.state
    task = plan.task
    inner, state.chat_tape = open_chat(plan.model, plan, context, budget, recorder)
    box = ToolBox(
        recorder,
        tape=partial(open_tool_tape, plan, context) if task.cassette else None,
        on_miss=task.on_miss,
        faults=faults_of(task.faults),
        registered=context.tools(task),
    )
    own = OwnRequests(plan, box, recorder)
    if context.may_make_requests(task):
        # Not at the first request: a process that is forked while a thread imports waits for that for ever.
        import pytest_agenteval.cassettes.library
        import pytest_agenteval.tools.tape  # noqa: F401
    with own.answering(closing=False):  # an agent, and the threads that it starts, serve later trials too
        agent = context.agent(task)
        prompts, prompt_digest = context.prompts(task, plan.variant)
    box.offer_named(_tool_names(agent, plan, context))
    compile_schemas(box.specs)
    prompts.load()
    chat = AgentChat(inner, recorder=recorder, budget=budget, tape=state.chat_tape)
    turns = user_turns(task.input)
    ctx = AgentContext(trial.workspace, box, chat, Clock(task.clock), budget, prompts, turns, recorder)
    state.before = trial.workspace.before()
    return _Stage(agent, ctx, box, own, prompt_digest)


def _tool_names(agent: Any, plan: Plan, context: WorkerContext) -> Sequence[str]:
    """Give the names of the tools to offer: those the agent has, else all of the suite's.

    Where the settings say ``tools``, the agent has these and no others, be there none.
    """
    own: Sequence[str] = getattr(agent, "tools", ())
    if own or "tools" in plan.task.settings:
        return own
    return tuple(context.suite_tools(plan.task))


async def _grade(trial: _TrialUnderWay, context: WorkerContext) -> None:
    """Grade what was left behind."""
    plan, recorder, state = trial.plan, trial.recorder, trial.state
    outcome = Outcome(state.answer, state.before, state.after)
    evidence = Evidence(plan.task.input, recorder.transcript(), outcome)
    asked = no_judges
    if plan.conditions.judges:
        judges = TrialJudges(plan, context, recorder)
        asked, state.judge_tapes = judges.of, judges.tapes
    graded = await context.grading.grade(plan.task.graders, evidence, asked)
    state.grades = graded.grades
    found = graded.error or ungraded_error(graded.grades)
    if found is not None:
        state.cause, state.message, state.traceback = found.cause, found.message, found.traceback


def _save(trial: _TrialUnderWay, context: WorkerContext) -> None:
    """Write what this trial recorded; what cannot be written breaks it, and no other trial."""
    try:
        context.save_cassettes(cassette_files(trial.plan))
    except Exception as raised:
        if not trial.state.cause:  # what fail first is told with the trial, the rest when all is closed
            trial.state.fail(raised)


def _record(trial: _TrialUnderWay) -> Trial:
    """Put everything together."""
    plan, state, task = trial.plan, trial.state, trial.plan.task
    kept = plan.conditions.keep_workspaces and trial.workspace.exists
    return Trial(
        key=plan.key,
        attempt=plan.attempt,
        ending="errored" if state.cause else graded_ending(state.grades, task.kind),
        score=None if state.cause else weighted_score(state.grades),
        grades=state.grades,
        transcript=trial.recorder.transcript(),
        outcome=Outcome(state.answer, state.before, state.after),
        digests=state.digests,
        kind=task.kind,
        bucket=task.bucket,
        tags=task.tags,
        limit=state.limit,
        cause=state.cause,
        message=state.message,
        traceback=state.traceback,
        started_at=trial.started_at,
        seconds=state.seconds,
        tool_tape=_counts(state.tool_tape),
        chat_tape=_counts(state.chat_tape, *state.judge_tapes),
        output=trial.captured.output,
        log=trial.captured.log_text,
        workspace=str(trial.workspace.path) if kept else "",
    )


def _counts(*tapes: Any) -> TapeCounts:
    there = [tape for tape in tapes if tape is not None]
    if not there:
        return NO_TAPE
    hits, misses = sum(tape.hits for tape in there), sum(tape.misses for tape in there)
    return TapeCounts(hits, misses, sum(tape.recorded for tape in there))

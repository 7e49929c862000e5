"""One trial, from plan to graded record, in the order in which it happens."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.conversation import is_users, words_of
from pytest_agenteval.chat.trial_chat import TrialChat
from pytest_agenteval.daemon import in_daemon_thread
from pytest_agenteval.engine.answers import answer_of
from pytest_agenteval.engine.cancelling import is_for_us
from pytest_agenteval.engine.digests import digests_of
from pytest_agenteval.engine.ending import ending_of, score_of, ungraded
from pytest_agenteval.engine.equipment import Equipment
from pytest_agenteval.engine.grading import nobody
from pytest_agenteval.engine.judges import TrialJudges
from pytest_agenteval.engine.models import chat_of, recordings_of, tool_tape_of
from pytest_agenteval.engine.own_requests import OwnRequests
from pytest_agenteval.engine.tracebacks import headline, theirs_first
from pytest_agenteval.errors import LimitReached, ProblemsFound, TrialBroken
from pytest_agenteval.limits import Budget, Clock, LimitIgnored
from pytest_agenteval.output import CURRENT, Captured
from pytest_agenteval.records.bounds import bounded_answer, bounded_text
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.outcome import Answer, Outcome, Tree
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.trial import Digests, Ending, TapeCounts, Trial
from pytest_agenteval.tools.arguments import load_checking
from pytest_agenteval.tools.box import ToolBox
from pytest_agenteval.tools.faults import faults_of
from pytest_agenteval.workspace.workspace import Workspace

NO_TAPE = TapeCounts()


@dataclass(slots=True)
class _Course:
    """What has come of a trial so far."""

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

    def broke(self, raised: BaseException) -> None:
        """Note that the trial broke; what we or an agent's author did wrong keeps its traceback."""
        if isinstance(raised, TrialBroken | ProblemsFound):
            self.cause, self.message, self.traceback = raised.cause, bounded_text(str(raised)), ""
        else:
            self.cause, self.message = "crash", bounded_text(headline(raised))
            self.traceback = bounded_text(theirs_first(raised))


async def run_trial(plan: Plan, equipment: Equipment, *, given: Path | None = None) -> Trial:
    """Carry out one plan and give the graded trial; whatever breaks is in the record, never raised.

    ``given`` is a workspace that stands already, to be used in place of a fresh one.
    """
    captured = Captured()
    CURRENT.set(captured)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    budget = Budget(plan.task.limits)
    recorder = Recorder(lambda: budget.at)
    parent = Path(plan.conditions.keep_workspaces) if plan.conditions.keep_workspaces else equipment.scratch
    layers = [Path(layer) for layer in plan.task.layers]
    workspace = Workspace(layers, texts=plan.task.texts, parent=parent, at=given)
    course = _Course()
    tapes: _Tapes = _Tapes()
    try:
        await _act(plan, equipment, budget, recorder, workspace, course, tapes)
        if not course.cause:
            await _grade(plan, equipment, recorder, course, tapes)
    except Exception as raised:  # ours: shown with its traceback, and no other trial is harmed
        course.broke(raised)
    finally:
        if not plan.conditions.keep_workspaces:
            workspace.remove()
    _save(plan, equipment, course)
    return _record(plan, recorder, workspace, course, tapes, captured, started_at)


@dataclass(slots=True)
class _Tapes:
    """The trial's open cassettes, as far as it has any."""

    chat: Any = None
    tools: Any = None
    judges: Sequence[Any] = ()


async def _act(
    plan: Plan,
    equipment: Equipment,
    budget: Budget,
    recorder: Recorder,
    workspace: Workspace,
    course: _Course,
    tapes: _Tapes,
) -> None:
    """Let the agent act, and look at what it left behind, also after a crash."""
    with equipment.setting_up():
        stage = _set_up(plan, equipment, budget, recorder, workspace, course, tapes)
    agent, ctx, box, own = stage.agent, stage.ctx, stage.box, stage.own
    with own.answering():
        on_loop = inspect.iscoroutinefunction(agent.run)
        try:
            with equipment.acting(budget, on_loop=on_loop):
                # A copy: a plan is shared by all its repetitions, and by the graders.
                answer = await _within_limits(agent.run, deepcopy(plan.task.input), ctx, course)
            course.answer = bounded_answer(answer)
        except BaseException as raised:  # even SystemExit: an agent must not end the run
            if is_for_us(raised):
                raise
            course.broke(raised)
        course.seconds = max(0.0, budget.seconds)  # two reasons may forgive the same wait
        course.digests = digests_of(plan, equipment, stage.prompt_digest, box.specs, equipment.book)
        course.after = workspace.after()
        end_state = getattr(agent, "end_state", None)
        if end_state is not None:
            state = end_state(deepcopy(plan.task.input), ctx)
            course.answer = bounded_answer(replace(course.answer, state={**course.answer.state, **state}))
    tapes.tools = box.tape
    if recorder.broken is not None:  # even where the agent swallowed it
        course.broke(recorder.broken)


@dataclass(frozen=True, slots=True)
class _Stage:
    """All that an agent needs to act, made before the trial's clock starts."""

    agent: Any
    ctx: AgentContext
    box: ToolBox
    own: OwnRequests
    prompt_digest: str


def _set_up(
    plan: Plan,
    equipment: Equipment,
    budget: Budget,
    recorder: Recorder,
    workspace: Workspace,
    course: _Course,
    tapes: _Tapes,
) -> _Stage:
    """Import and make what the agent needs, and build its workspace: no second of this is the agent's."""
    task = plan.task
    inner, tapes.chat = chat_of(plan.model, plan, equipment, budget, recorder)
    open_tape = partial(tool_tape_of, plan, equipment) if task.cassette else None
    box = ToolBox(
        recorder,
        tape=open_tape,
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
    chat = TrialChat(inner, recorder=recorder, budget=budget, tape=tapes.chat)
    turns = scripted_turns(task.input)
    ctx = AgentContext(workspace, box, chat, Clock(task.clock), budget, prompts, turns, recorder)
    course.before = workspace.before()
    return _Stage(agent, ctx, box, own, prompt_digest)


def _tool_names(agent: Any, plan: Plan, equipment: Equipment) -> Sequence[str]:
    """Give the names of the tools to offer: those the agent has, else all of the suite's.

    Where the settings say ``tools``, the agent has these and no others, be there none.
    """
    own: Sequence[str] = getattr(agent, "tools", ())
    if own or "tools" in plan.task.settings:
        return own
    return tuple(equipment.suite_tools(plan.task))


async def _within_limits(
    run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext, course: _Course
) -> Answer:
    """Run the agent until it answers or one of the trial's own limits runs out.

    What an agent does when its limit is reached, be it to go on or to raise something else, makes no
    difference to how the trial ends.
    """
    limits, answer = ctx.limits, None
    try:
        async with asyncio.timeout(limits.seconds_left) as deadline:
            limits.forgiving = _later(deadline)
            answer = await _run(run, task_input, ctx)
    except (Exception, LimitIgnored):
        if limits.reached is None and not deadline.expired():
            raise
    finally:
        limits.forgiving = None
    reached = limits.reached
    left = limits.seconds_left  # below 0 where the last reply came late, and nothing was waited for after it
    if reached is None and (deadline.expired() or (left is not None and left < 0)):
        reached = LimitReached("seconds", limits.allowed.seconds or 0.0, limits.seconds)
    if reached is not None:
        course.limit = reached.limit
        ctx.transcript.event("limit", str(reached))
    return Answer(ctx.transcript.last_words) if answer is None else answer


def _later(deadline: asyncio.Timeout) -> Callable[[float], None]:
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def postpone(seconds: float) -> None:
        when = deadline.when()
        if when is not None and not deadline.expired():
            with suppress(RuntimeError):  # nothing is waited for any more
                deadline.reschedule(when + seconds)

    def forgive(seconds: float) -> None:
        if threading.get_ident() == thread:
            postpone(seconds)
        else:  # an agent in a thread asks on a loop of its own
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(postpone, seconds)

    return forgive


async def _run(run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
    if inspect.iscoroutinefunction(run):
        answer = await run(task_input, ctx)
    else:
        answer = await _in_thread(run, task_input, ctx)
        answer = await answer if inspect.isawaitable(answer) else answer
    return answer_of(answer, ctx.transcript)


async def _in_thread(run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
    """Run an agent in a thread; what its answer then waits for a busy loop is no second of the agent's."""

    def acting() -> Any:
        try:
            return run(task_input, ctx)
        finally:
            ctx.limits.note_answer()

    try:
        return await in_daemon_thread(acting)
    finally:
        ctx.limits.forgive_wait_of_answer()


def scripted_turns(task_input: Mapping[str, Any]) -> Callable[[], Awaitable[str | None]]:
    """Give the task's user messages one by one: those of ``turns``, else ``content``, then None."""
    turns = task_input.get("turns")
    said = [words_of(turn) for turn in turns if is_users(turn)] if turns else [words_of(task_input)]
    coming = iter(said)

    async def next_turn() -> str | None:
        return next(coming, None)

    return next_turn


async def _grade(
    plan: Plan, equipment: Equipment, recorder: Recorder, course: _Course, tapes: _Tapes
) -> None:
    """Grade what was left behind."""
    evidence = Evidence(
        plan.task.input, recorder.transcript(), Outcome(course.answer, course.before, course.after)
    )
    asked = nobody
    if plan.conditions.judges:
        judges = TrialJudges(plan, equipment, recorder)
        asked, tapes.judges = judges.of, judges.tapes
    graded = await equipment.desk.grade(plan.task.graders, evidence, asked)
    course.grades = graded.grades
    found = graded.broken or ungraded(graded.grades)
    if found is not None:
        course.cause, course.message, course.traceback = found.cause, found.message, found.traceback


def _save(plan: Plan, equipment: Equipment, course: _Course) -> None:
    """Write what this trial recorded; what cannot be written breaks it, and no other trial."""
    try:
        equipment.save_cassettes(recordings_of(plan))
    except Exception as raised:
        if not course.cause:  # what broke first is told with the trial, the rest when all is closed
            course.broke(raised)


def _record(
    plan: Plan,
    recorder: Recorder,
    workspace: Workspace,
    course: _Course,
    tapes: _Tapes,
    captured: Captured,
    started_at: str,
) -> Trial:
    """Put everything together."""
    task = plan.task
    ending: Ending = "errored" if course.cause else ending_of(course.grades, task.kind)
    kept = plan.conditions.keep_workspaces and workspace.made
    return Trial(
        key=plan.key,
        attempt=plan.attempt,
        ending=ending,
        score=None if course.cause else score_of(course.grades),
        grades=course.grades,
        transcript=recorder.transcript(),
        outcome=Outcome(course.answer, course.before, course.after),
        digests=course.digests,
        kind=task.kind,
        bucket=task.bucket,
        tags=task.tags,
        limit=course.limit,
        cause=course.cause,
        message=course.message,
        traceback=course.traceback,
        started_at=started_at,
        seconds=course.seconds,
        tool_tape=_counts(tapes.tools),
        chat_tape=_counts(tapes.chat, *tapes.judges),
        output=captured.output,
        log=captured.logged,
        workspace=str(workspace.path) if kept else "",
    )


def _counts(*tapes: Any) -> TapeCounts:
    there = [tape for tape in tapes if tape is not None]
    if not there:
        return NO_TAPE
    hits, misses = sum(tape.hits for tape in there), sum(tape.misses for tape in there)
    return TapeCounts(hits, misses, sum(tape.recorded for tape in there))


def broken_trial(plan: Plan, raised: BaseException) -> Trial:
    """Give the record of a trial that an executor could not even begin."""
    course = _Course()
    course.broke(raised)
    return Trial(
        key=plan.key,
        attempt=plan.attempt,
        ending="errored",
        score=None,
        grades=(),
        transcript=Recorder(lambda: 0.0).transcript(),
        outcome=Outcome(),
        digests=Digests(),
        kind=plan.task.kind,
        bucket=plan.task.bucket,
        tags=plan.task.tags,
        cause=course.cause,
        message=course.message,
        traceback=course.traceback,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )

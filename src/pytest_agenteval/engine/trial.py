"""One trial, from plan to graded record, in the order in which it happens; and regrading a stored one."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import Agent, AgentContext, agent_trait
from pytest_agenteval.agents.loop import user_messages
from pytest_agenteval.chat.chat import Chat, ChatMessage, Reply
from pytest_agenteval.chat.recording_chat import AgentChat, JudgeChat
from pytest_agenteval.engine.agent_run import ChatOfTrials, as_end_state, recording_spans, run_within_limits
from pytest_agenteval.engine.digests import (
    AgentDigests,
    acted_out_digest,
    digests_of,
    grader_digests,
    input_digest,
    tool_code_digest,
    tools_digest,
)
from pytest_agenteval.engine.grading import UNGRADED, GradingResult, has_acted, no_judges
from pytest_agenteval.engine.simulated_user import SimulatedUser, SimulatedUserBroken, UserTurns
from pytest_agenteval.engine.tracebacks import exception_line, is_own_cancellation, user_frames_first
from pytest_agenteval.engine.trial_resources import (
    USER_ROLE,
    InterceptedRequests,
    TrialJudge,
    TrialJudges,
    answers_requests,
    cassette_files,
    chat_cassette_file,
    judge_role,
    load_bridge,
    open_chat,
    open_judge_chat,
    open_model_traffic,
    open_tool_tape,
    own_budget,
)
from pytest_agenteval.engine.worker_context import AgentInstance, WorkerContext
from pytest_agenteval.graders.grader import JudgeUnavailable
from pytest_agenteval.processes.captured_output import CapturedOutput, current_output
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.evidence import CRASH, Answer, Evidence, Outcome, Tree
from pytest_agenteval.records.limits import Budget, Clock
from pytest_agenteval.records.plan import OWN_MODEL, Model, Plan, is_same_model, task_facts
from pytest_agenteval.records.prompts import PromptNotSent, sent_digests, unsent_prompts
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    OTHER_MODEL,
    PROMPT_READ,
    UNPRICED_LIMIT,
    UNREAD_PROMPT,
    Transcript,
)
from pytest_agenteval.records.trial import (
    NO_ERROR,
    NO_TAPE,
    NO_TOOLS,
    Digests,
    ErrorDetails,
    TapeCounts,
    Trial,
    part_paid,
)
from pytest_agenteval.records.truncation import truncated_answer, truncated_text
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.text.errors import ProblemsFound, TrialBroken, key_hint
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.tools.tool import compile_schemas, planned_faults
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.tape import Tape
    from pytest_agenteval.cassettes.wire.prompt_replacement import PromptReplacement
    from pytest_agenteval.chat.model_traffic import ModelTraffic
    from pytest_agenteval.tools.mcp_tools import TrialServers
    from pytest_agenteval.tools.tool_tape import ToolTape


class InputChanged(TrialBroken):
    """The input of the task has changed since the trial was carried out."""

    cause = "input_changed"


async def regrade(plan: Plan, context: WorkerContext, stored: Trial) -> Trial:
    """Return the stored trial with today's grades; one that broke before it was graded stays broken.

    Judges in the plan are called. Without any, what judges replied at the time is read again, if their
    requests would be the same today.
    """
    # The trial was graded if nothing broke, or if a grade is what broke it.
    grader_broke = any(grade.undecided == stored.cause for grade in stored.grades)
    if stored.cause not in ("", UNGRADED, CRASH) and not grader_broke:
        unpaid = part_paid(stored.transcript.all_usage, NO_USAGE)
        return replace(stored, key=plan.key, attempt=plan.attempt, file=plan.task.file_in_root, paid=unpaid)
    recorder = Recorder(lambda: stored.seconds, plan.conditions.prices)
    stored_judges = StoredJudges(stored.transcript, recorder)
    try:
        now = input_digest(plan.task, context.digest_cache)
        if stored.digests.input and stored.digests.input != now:
            raise InputChanged(f"{plan.task.file}: the input has changed since that run: run the task again")
        judged_plan = plan
        # Judges are a part of the ruler, also those whose replies are read again.
        if not plan.conditions.judges and stored_judges.models:
            conditions = replace(plan.conditions, judges=stored_judges.models)
            judged_plan = replace(plan, conditions=conditions)
        digests = grader_digests(judged_plan, context.grading.grader, context.digest_cache)
        evidence = Evidence(plan.task.input, stored.transcript, stored.outcome)
        judges_for = (
            TrialJudges(plan, context, recorder, []).of if plan.conditions.judges else stored_judges.of
        )
        graded = await context.grading.grade(plan.task.graders, evidence, judges_for)
    except TrialBroken as broken:
        stored = replace(stored, paid=part_paid(stored.transcript.all_usage, recorder.paid))
        return _regraded_trial(plan, stored, GradingResult((), ErrorDetails(broken.cause, str(broken))))
    # The events of earlier judges are replaced by those of today.
    events = [event for event in stored.transcript.events if event.kind != "judge_ask"]
    transcript = replace(stored.transcript, events=(*events, *recorder.transcript().events))
    with_ruler = replace(
        stored.digests, ruler=digests.ruler, graders=digests.by_label, grader_code=digests.code
    )
    paid = part_paid(transcript.all_usage, recorder.paid)
    regraded = replace(stored, transcript=transcript, digests=with_ruler, paid=paid)
    return _regraded_trial(plan, regraded, graded)


def _regraded_trial(plan: Plan, stored: Trial, graded: GradingResult) -> Trial:
    error = graded.error or NO_ERROR
    return replace(
        stored,
        key=plan.key,
        attempt=plan.attempt,
        ending=graded.ending(plan.task.kind),
        score=graded.score,
        grades=graded.grades,
        **task_facts(plan.task) | {"split": stored.split},
        acted=None if graded.error else has_acted(plan.task, stored.transcript, stored.outcome),
        cause=error.cause,
        message=error.message,
        traceback=error.traceback,
    )


class StoredJudges:
    """Judges that return again what they returned when the trial was first graded."""

    def __init__(self, transcript: Transcript, recorder: Recorder) -> None:
        self._recorder = recorder
        self._replies: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for event in transcript.events:
            if event.kind == "judge_ask" and "reply" in event.details:
                self._replies[event.details["role"]][event.details["prompt"]].append(event.details["reply"])

    @property
    def models(self) -> tuple[Model, ...]:
        """All judges that were used, in the order of their first use."""
        names = dict.fromkeys(role.partition(" for ")[0] for role in self._replies)
        return tuple(Model(name, name) for name in names)

    def of(self, label: str) -> tuple[TrialJudge, ...]:
        roles = [(model, judge_role(model.name, label)) for model in self.models]
        return tuple(TrialJudge(model, self._chat(role)) for model, role in roles if role in self._replies)

    def _chat(self, role: str) -> JudgeChat:
        replies_by_prompt = {prompt: deque(replies) for prompt, replies in self._replies[role].items()}
        return JudgeChat(_StoredReplies(replies_by_prompt), recorder=self._recorder, role=role)


class _StoredReplies:
    """A chat that repeats the replies to the same messages, in the same order."""

    def __init__(self, replies_by_prompt: Mapping[str, deque[str]]) -> None:
        self._replies_by_prompt = replies_by_prompt

    async def ask(self, messages: Sequence[ChatMessage], **_: Any) -> Reply:
        replies = self._replies_by_prompt.get(json_digest(list(messages)))
        if not replies:
            raise JudgeUnavailable("the judges' prompt has changed: judge again with --agent-judge=MODEL")
        return Reply(replies.popleft(), taped=True)


# So many files take long enough to delete that other trials would notice.
MANY_FILES = 2_000
# Less than that is what reading the clock takes.
LEAST_UNCHARGED_S = 0.001


async def run_trial(plan: Plan, context: WorkerContext, *, workspace: Path | None = None) -> Trial:
    """Carry out one plan and return the graded trial; whatever breaks is in the record, never raised.

    ``workspace`` is an existing one to use in place of a fresh one.
    """
    run = _TrialRun(plan, context, workspace)
    # Never reset: each trial has a task, and so a context, of its own.
    current_output.set(run.output)
    try:
        await run.act()
        if run.error is None:
            await run.grade()
    # A mistake of ours: it is shown with its traceback, and no other trial is harmed.
    except Exception as raised:
        run.error = error_details(raised)
    # The run is interrupted: what was recorded so far is saved when all is closed.
    except BaseException:
        run.note_recordings(broken=True)
        raise
    finally:
        if not plan.conditions.keep_workspaces:
            task = asyncio.current_task()
            if len(run.after.files) < MANY_FILES or (task is not None and task.cancelling()):
                run.workspace.remove()
            else:
                await in_daemon_thread(run.workspace.remove)
    # After the grades: what judges replied is recorded, too.
    run.save_recordings()
    return run.trial()


async def agent_digests(plan: Plan, context: WorkerContext) -> AgentDigests:
    """Make the agent of a trial and return its digests; raises what would break the trial before it acts."""
    return await _TrialRun(plan, context, None).agent_digests()


def errored_trial(plan: Plan, raised: BaseException) -> Trial:
    """Return the record of a trial that an executor could not start, or of which it lost everything."""
    return Trial.errored(plan, error_details(raised))


def error_details(raised: BaseException) -> ErrorDetails:
    """Return what broke a trial; with a traceback for mistakes of ours and of an agent's author."""
    if isinstance(raised, TrialBroken | ProblemsFound):
        return ErrorDetails(raised.cause, truncated_text(str(raised)))
    trace = truncated_text(user_frames_first(raised))
    return ErrorDetails("crash", truncated_text(exception_line(raised)), trace)


class _TrialRun:
    """A plan on its way to a trial: what belongs to this trial only, and its results so far."""

    def __init__(self, plan: Plan, context: WorkerContext, workspace: Path | None) -> None:
        self.plan, self.context = plan, context
        keep_in, layers = plan.conditions.keep_workspaces, [Path(layer) for layer in plan.task.layers]
        parent = Path(keep_in) if keep_in else None
        name = json_digest(plan.key)
        self.workspace = Workspace(layers, texts=plan.task.texts, parent=parent, at=workspace, name=name)
        self.budget = budget = Budget(plan.task.limits)
        # The lambda holds the budget, not this run: a reference cycle with all of the trial's data would stay
        # until the garbage collector finds it.
        self.recorder = Recorder(lambda: budget.time.at, plan.conditions.prices)
        self.output, self._loop = CapturedOutput(), asyncio.get_running_loop()
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._began = monotonic()
        self.answer, self.digests = Answer(), Digests()
        self.before = self.after = Tree()
        self.limit = ""
        self.seconds = self.uncharged_seconds = 0.0
        self.graded = GradingResult(())
        self.error: ErrorDetails | None = None
        self.tool_tape: ToolTape | None = None
        self.servers: TrialServers | None = None
        self.chat_tapes: list[Tape] = []
        # Set before the agent's clock starts; ``offered`` are its tools at that time.
        self.instance: AgentInstance
        self.ctx: AgentContext
        self.offered: tuple[ToolSpec, ...]

    async def agent_digests(self) -> AgentDigests:
        box = self._tool_box()
        try:
            requests = InterceptedRequests(self.plan, box, self.recorder, self._model_traffic)
            instance = await self._get_instance(requests)
            box.offer_named(self._tool_names(instance.agent))
        finally:
            if self.servers is not None:
                await self.servers.close()
        prompts = {name: json_digest(text) for name, text in instance.prompts.texts.items()}
        tools = tools_digest(box.specs, self.context.digest_cache)
        tool_code = self._tool_code(box.specs)
        return AgentDigests(instance.prompt_digest, instance.code_digest, tools, prompts, tool_code)

    async def act(self) -> None:
        """Let the agent act, and look at what it left behind, also after a crash."""
        began = monotonic()
        try:
            box = self._tool_box()
            requests = InterceptedRequests(self.plan, box, self.recorder, self._model_traffic)
        finally:
            self.context.time.hold_up(monotonic() - began)
        self.instance = await self._get_instance(requests)
        began = monotonic()
        try:
            self._set_up(box)
        finally:
            self.context.time.hold_up(monotonic() - began)
        await load_bridge(self.plan, self.context, self.recorder)
        # The end is looked at inside: meanwhile, nothing that the agent has left running can send requests.
        with requests.answering() as scope:
            try:
                with recording_spans(scope, self.recorder, set_up=self.plan.task.form.get("otel") is True):
                    await self._run_agent()
            finally:
                if self.servers is not None:
                    await self.servers.close()
            self.digests = self._digests()
            # In a thread: an agent may leave gigabytes, for which other trials must not wait.
            in_thread = self.workspace.exists
            after = self.workspace.after
            self.after = await in_daemon_thread(after) if in_thread else after()
            # Also after a crash. What the agent reports as its end state goes before what its answer holds.
            if end_state := agent_trait(self.instance.agent, "end_state"):
                state = {**self.answer.state, **as_end_state(end_state(self._own_input(), self.ctx))}
                self.answer = truncated_answer(replace(self.answer, state=state))
        limits, usage = self.plan.task.limits, self.recorder.usage
        for name in ("cost_usd", "tokens"):
            if getattr(limits, name) is not None and getattr(usage, name) is None:
                self.recorder.event(UNPRICED_LIMIT, f"{name}: the usage of its models is unknown")
        self.tool_tape = self.ctx.tools.tape
        self._note_unread_prompts()
        # Even if the agent has caught the exception.
        broken = self.recorder.broken or self.workspace.broken or self.ctx.prompts.broken
        if broken is not None:
            self.error = error_details(broken)
        named = self.plan.model
        if not named.offline and named.id != OWN_MODEL and (used := self.recorder.models):
            names = (*used, *self.recorder.requested_models)
            if not any(is_same_model(named.id, name) for name in names):
                self.recorder.event(OTHER_MODEL, f"{', '.join(used)}, not {named.id}")
        self.recorder.end_pending_calls(cut_off=self.error is not None or bool(self.limit))

    async def _run_agent(self) -> None:
        run, kind = self.instance.agent.run, self.instance.loop
        first_use = self.context.first_use(self.plan.task)
        try:
            async with first_use.turn(self.recorder) if first_use else nullcontext():
                with self.context.time.agent_running(self.budget, on_loop=kind == "trials"):
                    answer, self.limit = await run_within_limits(run, kind, self._own_input(), self.ctx)
            self.answer = truncated_answer(answer)
        # Even SystemExit: an agent must not end the run.
        except BaseException as raised:
            if is_own_cancellation(raised):
                raise
            error = error_details(raised)
            # A client in the agent's code may require a key, though nothing would be sent.
            plays = self.plan.conditions.record_chat in ("none", "off") and not self.plan.asks_own_models
            plays = plays or answers_requests(self.plan, self.context)
            hint = key_hint(error.message) if plays and error.cause == "crash" else ""
            self.error = replace(error, message=f"{error.message}\n  hint: {hint}") if hint else error
        self.seconds, charged = self.budget.time.readings()
        uncharged = self.seconds - charged
        self.uncharged_seconds = uncharged if uncharged > LEAST_UNCHARGED_S else 0.0

    def _note_unread_prompts(self) -> None:
        """Record which prompts of task and variant the agent did not read, if it has done its task."""
        # If a prompt is passed as a parameter or a file, only what the agent sends shows whether it was read.
        task, variant = self.plan.task, self.plan.variant
        given = {**task.prompts, **variant.prompts}
        if not given or self.error is not None or self.context.acting_task(self.plan) is not task:
            return
        replaced = self._replaced_prompts
        sent = set() if replaced is None else replaced.sent_names
        for name in sorted(sent):
            self.recorder.event(PROMPT_READ, name, {"digest": json_digest(given[name]), "turn": 1})
        seen = self.ctx.prompts.names_read | sent
        if replaced is not None and not seen and self._break_without_prompts(replaced):
            return
        handed_prompts = getattr(self.instance.agent, "handed_prompts", None)
        handed = {name: given[name] for name in (handed_prompts(given) if handed_prompts else ())}
        handed = {name: text for name, text in handed.items() if name not in sent}
        # An agent that reads its prompts by name may not need each of its own in every trial.
        own = (agent_trait(self.instance.agent, "templates") or ()) if seen else ()
        unread = [name for name in given if name not in handed and name not in seen]
        unread = [name for name in unread if name in variant.prompts or name not in own]
        # Messages that the agent returns may be only a part of what it sent.
        if handed and self.recorder.returned_usage == NO_USAGE:
            unread += unsent_prompts(handed, self.recorder.transcript())
        for name in unread:
            whose = (
                f"--agent-prompt {variant.name}" if name in variant.prompts else "`prompts` in suite or task"
            )
            self.recorder.event(UNREAD_PROMPT, name, {"of": whose})

    def _break_without_prompts(self, replaced: PromptReplacement) -> bool:
        """Break the trial if its agent can only send its own prompts, and has sent none that is known."""
        if self.limit or agent_trait(self.instance.agent, "prompt_names") is None:
            return False
        own = {name: self.plan.task.prompts[name] for name in replaced.names}
        has_asks = bool(self.recorder.transcript().asks)
        unsent = PromptNotSent(own, is_signed=replaced.signed, has_asks=has_asks)
        self.recorder.broken = self.recorder.broken or unsent
        return True

    def _digests(self) -> Digests:
        plan, instance, cache = self.plan, self.instance, self.context.digest_cache
        specs = self.ctx.tools.specs
        # What the task's user says; unknown beforehand if a model plays the user.
        words = None if plan.task.user else [text.strip() for text in user_messages(plan.task.input)]
        has_offered = specs is not self.offered
        return digests_of(
            plan,
            self.context.grading.grader,
            instance.prompt_digest,
            instance.code_digest,
            specs,
            self.recorder.models,
            cache,
            offered=(tools_digest(self.offered, cache) or NO_TOOLS) if has_offered else "",
            tool_code=self._tool_code(self.offered),
            acted_out=acted_out_digest(plan, self.context.registry, cache),
            sent=sent_digests(self.recorder.transcript(), words, has_tools=bool(specs)),
        )

    def _tool_code(self, specs: tuple[ToolSpec, ...]) -> str:
        task, context = self.plan.task, self.context
        if not specs and not task.tools:
            return ""
        return context.digest_cache.once(
            "tool code", specs, lambda: tool_code_digest(task, specs, context.registry), task.tools
        )

    def _own_input(self) -> Any:
        # A copy, which an agent may change: all repetitions share a plan, and graders read it.
        task_input = self.plan.task.input
        # Mostly it is a map of texts only, for which a plain copy will do and takes a tenth of the time.
        only_texts = type(task_input) is dict and {*map(type, task_input.values())} == {str}
        return dict(task_input) if only_texts else deepcopy(task_input)

    def _model_traffic(self) -> ModelTraffic:
        # An agent may send requests while it is made.
        prompts = self._replaced_prompts if hasattr(self, "instance") else None
        return open_model_traffic(
            self.plan, self.context, self.budget, self.recorder, self.chat_tapes, self._loop, prompts
        )

    @cached_property
    def _replaced_prompts(self) -> PromptReplacement | None:
        """The prompts that the agent may read by itself; None if there are none."""
        task, agent = self.plan.task, self.instance.agent
        listed = {*(agent_trait(agent, "templates") or ()), *(agent_trait(agent, "prompt_names") or ())}
        own = {name: text for name, text in task.prompts.items() if name not in listed}
        if not own:
            return None
        from pytest_agenteval.cassettes.wire.prompt_replacement import PromptReplacement

        return PromptReplacement(own, self.plan.variant.prompts)

    def _tool_box(self) -> ToolBox:
        plan, task, context = self.plan, self.plan.task, self.context
        tools, self.servers = context.tools(task), context.servers_for(task, self.budget)
        if tools or context.has_own_agent(task):
            # Imported before the first request: a process that is forked while a thread imports would wait
            # for that import for ever.
            from pytest_agenteval.cassettes import tape  # noqa: F401
            from pytest_agenteval.chat import model_traffic  # noqa: F401
            from pytest_agenteval.tools import tool_tape  # noqa: F401
        return ToolBox(
            self.recorder,
            tape=partial(open_tool_tape, plan, context),
            on_miss=task.on_miss,
            faults=planned_faults(task.faults),
            registered=self.servers.connect(tools) if self.servers else tools,
        )

    async def _get_instance(self, requests: InterceptedRequests) -> AgentInstance:
        """Return the agent; if it has to be imported and made first, that holds up no other trial."""
        task, variant = self.context.acting_task(self.plan), self.plan.variant
        instance = self.context.agent_instance(task, variant)
        if instance is not None:
            return instance
        # Not closed: an agent that is made here, and threads that it starts, serve later trials too.
        with requests.answering(closing=False):
            if not self.context.has_own_agent(task):
                began = monotonic()
                try:
                    return self.context.make_agent_instance(task, variant)
                finally:
                    self.context.time.hold_up(monotonic() - began)
            return await in_daemon_thread(self.context.make_agent_instance, task, variant)

    def _set_up(self, box: ToolBox) -> None:
        """Make what the agent needs, and build its workspace: this takes none of the agent's seconds."""
        plan, task, context, recorder = self.plan, self.plan.task, self.context, self.recorder
        instance, user = self.instance, None
        inner, chat_tape = open_chat(plan.model, plan, context, self.budget, recorder, self.chat_tapes)
        if tool_names := self._tool_names(instance.agent):
            box.offer_named(tool_names)
            compile_schemas(box.specs)
        instance.prompts.load()
        prompts = instance.prompts.recorded_by(recorder.prompt_read)
        chat: Chat = AgentChat(
            inner, recorder=recorder, budget=self.budget, tape=chat_tape, offline=plan.model.offline
        )
        if instance.loop != "trials":
            chat = ChatOfTrials(chat)
        if task.user:
            # Without a model to play the user, an offline agent gets the first message only.
            user_chat = None
            if plan.conditions.user is not None:
                played_by, own = plan.conditions.user, own_budget(plan)
                user_chat = open_judge_chat(
                    played_by, plan, context, own, recorder, self.chat_tapes, USER_ROLE
                )
            elif not plan.model.offline:
                raise SimulatedUserBroken(
                    "the task has a `user`: name the model that plays them with --agent-user=MODEL"
                )
            user = SimulatedUser(user_chat, task.user, recorder, self.budget)
        turns = UserTurns(task.input, recorder, user)
        clock = Clock(task.clock)
        self.ctx = AgentContext(
            self.workspace, box, chat, clock, self.budget, prompts, turns, recorder, plan.model, plan.key
        )
        self.offered = box.specs
        self.before = self.workspace.before()

    def _tool_names(self, agent: Agent) -> Sequence[str]:
        # The tools of the agent, else all of the suite. If the settings have `tools`, the agent gets these
        # and no others, even if there are none.
        own = agent_trait(agent, "tools") or ()
        if own or "tools" in self.plan.task.settings:
            return own
        return tuple(self.context.suite_tools(self.plan.task))

    async def grade(self) -> None:
        plan, recorder = self.plan, self.recorder
        judges_for = no_judges
        if plan.conditions.judges:
            judges = TrialJudges(plan, self.context, recorder, self.chat_tapes)
            judges_for = judges.of
        evidence = Evidence(plan.task.input, recorder.transcript(), self._outcome())
        self.graded = await self.context.grading.grade(plan.task.graders, evidence, judges_for)
        self.error = self.graded.error

    def save_recordings(self) -> None:
        """Write what this trial recorded; a failure breaks this trial, and no other."""
        if not self.context.has_cassettes:
            return
        try:
            self.note_recordings(broken=self.error is not None or bool(self.limit))
            self.context.save_cassettes(cassette_files(self.plan))
        except Exception as raised:
            # The first error stands in the trial; the rest is reported when all is closed.
            self.error = self.error or error_details(raised)
        # The agent has sent all its requests; if it had been cut off, it might have sent more.
        if self.error is None and not self.limit and self.chat_tapes:
            self.context.whole_chats.add(chat_cassette_file(self.plan))

    def note_recordings(self, *, broken: bool) -> None:
        """Note whether the trial came to its end: a recording that broke or was cut short lacks requests."""
        self.context.note_trial(cassette_files(self.plan), str(self.plan.key), broken=broken)

    def _outcome(self) -> Outcome:
        return Outcome(self.answer, self.before, self.after)

    def trial(self) -> Trial:
        plan, task, graded = self.plan, self.plan.task, self.graded
        error, transcript, outcome = self.error or NO_ERROR, self.recorder.transcript(), self._outcome()
        keeps_workspace = plan.conditions.keep_workspaces and self.workspace.exists
        # Usage that only the agent reports was paid, if requests could be sent at all.
        plays = {plan.conditions.record, plan.conditions.record_chat} <= {"none", "off"}
        paid = self.recorder.paid
        if not plays or plan.asks_own_models:
            paid += self.recorder.returned_usage
        return Trial(
            key=plan.key,
            attempt=plan.attempt,
            ending="errored" if self.error else graded.ending(task.kind),
            score=None if self.error else graded.score,
            grades=graded.grades,
            transcript=transcript,
            outcome=outcome,
            digests=self.digests,
            **task_facts(task),
            limit=self.limit,
            cause=error.cause,
            message=error.message,
            traceback=error.traceback,
            started_at=self.started_at,
            seconds=self.seconds,
            uncharged_seconds=self.uncharged_seconds,
            wall_seconds=monotonic() - self._began,
            tool_tape=_counts(*([] if self.tool_tape is None else [self.tool_tape])),
            chat_tape=_counts(*self.chat_tapes),
            output=self.output.output,
            log=self.output.log_text,
            workspace=str(self.workspace.path) if keeps_workspace else "",
            acted=None if self.error else has_acted(task, transcript, outcome),
            paid=part_paid(transcript.all_usage, paid),
        )


def _counts(*tapes: Tape | ToolTape) -> TapeCounts:
    if not tapes:
        return NO_TAPE
    hits, misses = sum(tape.hits for tape in tapes), sum(tape.misses for tape in tapes)
    return TapeCounts(hits, misses, sum(tape.recorded for tape in tapes))

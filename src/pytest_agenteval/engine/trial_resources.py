"""The chats, tapes and judges of one trial, and its simulated user."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agenteval.agents.loop import is_user_turn, turn_text
from pytest_agenteval.chat.chat import Chat, ChatMessage, OwnModelChat
from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.recording_chat import ChatTape, JudgeChat, UserChat
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.processes.files import name_or_older
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import OWN_MODEL, Allowance, Model, Plan, RecordMode
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import read_json
from pytest_agenteval.records.transcript import JUDGE_ASK, USER_ASK, unanswered_usage
from pytest_agenteval.text.errors import LimitReached, ProblemsFound, TrialBroken

if TYPE_CHECKING:
    from pytest_agenteval.chat.model_traffic import ModelTape, ModelTraffic
    from pytest_agenteval.chat.retries import ProviderChat
    from pytest_agenteval.tools.tool_tape import ToolTape


# The kind of event that says why a simulated user sends no more messages.
USER_LEFT = "user_left"
# How often a simulated user speaks, including the opening words, if the task sets no number.
MOST_TURNS = 10
# How many replies are read for one turn of a simulated user, before it is given up as unreadable.
MOST_TRIES = 2
# Longer than any turn takes: the part that was not needed is taken back.
_LONGEST_S = 3600.0

_SCHEMA = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "message": {"type": "string"}},
    "required": ["done", "message"],
    "additionalProperties": False,
}
_ROLE = """\
You play a person who talks to an assistant. Stay this person; never speak as the assistant, never say that \
you play.

Who you are: {persona}
What you want: {goal}
You are done when: {stop}

Say one short message at a time, as this person would write it. Tell what you know when you are asked for \
it, and not before; what you were not told here you do not know. Answer with a JSON object and nothing else: \
{{"done": false, "message": "what you say next"}}, or {{"done": true, "message": ""}} once you are done."""
_AGAIN = 'Answer with a JSON object and nothing else: {"done": true or false, "message": "..."}'


class SimulatedUserBroken(TrialBroken):
    """The model that plays the user returned nothing readable, or could not be reached."""

    cause = "simulated_user"


class UserTurns:
    """The task's user messages: each call returns the next one, or None if there are no more.

    The caller passes what was ``replied`` to the last one; without it, that is the agent's last words.
    ``several`` says whether there may be more than one.
    """

    def __init__(self, task_input: Mapping[str, Any], recorder: Recorder, user: SimulatedUser | None) -> None:
        turns = task_input.get("turns")
        texts = (
            [turn_text(turn) for turn in turns if is_user_turn(turn)] if turns else [turn_text(task_input)]
        )
        self._scripted = iter([text for text in texts if text or user is None])
        self._recorder, self._user = recorder, user
        self.several = bool(turns) or user is not None

    async def __call__(self, replied: str | None = None) -> str | None:
        scripted = next(self._scripted, None)
        if self._user is None:
            return scripted
        if scripted is not None:
            self._user.spoke(scripted)
            return scripted
        return await self._user.answer(self._recorder.last_words if replied is None else replied)


class SimulatedUser:
    """A model that plays the person whom a task describes; its failures are not the agent's.

    ``person`` holds ``persona``, ``goal``, ``stop`` and ``most_turns``. It runs on the loop on which it was
    made, from wherever it is called. The agent's ``budget`` is not charged for its time.
    """

    def __init__(
        self, chat: Chat | None, person: Mapping[str, Any], recorder: Recorder, budget: Budget
    ) -> None:
        self._chat, self._recorder, self._budget = chat, recorder, budget
        self._most = person.get("most_turns") or MOST_TURNS
        stop = person.get("stop") or "you have what you want, or it is plain that you will not get it"
        who = person.get("persona") or "a customer"
        role = _ROLE.format(persona=who, goal=person["goal"], stop=stop)
        self._messages: list[ChatMessage] = [{"role": "system", "content": role}]
        self._turns, self._left = 0, False
        self._loop = asyncio.get_running_loop()

    def spoke(self, message: str) -> None:
        """Note a message of this person that the model did not write: the task's opening words."""
        self._messages.append({"role": "assistant", "content": message})
        self._turns += 1

    async def answer(self, replied: str) -> str | None:
        """Return the person's answer to a reply; None once they are done, or have used up their turns.

        Raises SimulatedUserBroken.
        """
        if asyncio.get_running_loop() is self._loop:
            return await self._answer(replied)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._answer(replied), self._loop))

    async def _answer(self, replied: str) -> str | None:
        if self._left or self._chat is None:
            return None
        if self._turns >= self._most:
            self._leave(f"said {self._turns} messages, the most that the task allows")
            return None
        silence = "(the assistant said nothing)" if self._turns else "(you speak first)"
        self._messages.append({"role": "user", "content": replied or silence})
        with self._budget.held_up(_LONGEST_S):
            message = await self._next_message(self._chat)
        if not message:
            self._leave("was done")
            return None
        self.spoke(message)
        return message

    async def _next_message(self, chat: Chat) -> str:
        """Return the next message; an empty one means that the person is done."""
        messages = list(self._messages)
        for _ in range(MOST_TRIES):
            try:
                reply = await chat.ask(messages, response_schema=_SCHEMA)
            except (TrialBroken, ProblemsFound, LimitReached) as broken:
                raise self._break(f"the simulated user: {broken}") from broken
            # A registered model may raise anything: the agent that waits for the message has no part in it.
            except Exception as raised:
                why = f"the simulated user: {type(raised).__name__}: {raised}"
                raise self._break(why) from raised
            message = _read(reply.text)
            if message is not None:
                return message
            messages += [reply.message(), {"role": "user", "content": _AGAIN}]
        raise self._break(
            f"the simulated user said what is no turn, {MOST_TRIES} times: {reply.text[:200]!r}"
        )

    def _break(self, why: str) -> SimulatedUserBroken:
        broken = SimulatedUserBroken(why)
        # Even if the agent catches the exception.
        self._recorder.broken = broken
        return broken

    def _leave(self, why: str) -> None:
        self._left = True
        self._recorder.event(USER_LEFT, f"the simulated user {why}", {"turns": self._turns})


def _read(text: str) -> str | None:
    """Return the message of a turn, empty if the person is done; None if the text is not a turn."""
    start, end = text.find("{"), text.rfind("}")
    try:
        turn = read_json(text[start : end + 1]) if start >= 0 else None
    except ValueError:
        return None
    if not isinstance(turn, dict) or not isinstance(turn.get("message", ""), str):
        return None
    if turn.get("done") is True:
        return ""
    return turn.get("message") or None


Tapes: TypeAlias = "ChatTape | ModelTape"


def open_chat(
    model: Model, plan: Plan, context: WorkerContext, budget: Budget, recorder: Recorder, role: str = "agent"
) -> tuple[Chat, ChatTape | None]:
    """Return the chat for this model, and the tape with its replies, if there is one."""
    if model.offline:
        return context.registry.model_factory(model.id)(model, plan), None
    if model.id == OWN_MODEL:
        return OwnModelChat(), None
    from pytest_agenteval.chat.retries import RetryingChat

    live = RetryingChat(
        _provider_chat(model, context, recorder, f"{plan.seed} {plan.task.id} {role}"),
        budget=budget,
        recorder=recorder,
        seed=f"{plan.seed} {plan.task.id}",
        limiter=context.rate_limiter(model),
        note_unanswered=partial(_note_unanswered, recorder, role),
    )
    return live, _open_chat_tape(model, plan, context, role)


def _note_unanswered(recorder: Recorder, role: str, requests: int) -> None:
    """Count the requests of a call that got no reply: as the agent's, the judge's or the user's."""
    if role == "agent":
        recorder.add_unanswered(requests)
        return
    kind, usage = USER_ASK if role == USER_ROLE else JUDGE_ASK, unanswered_usage(requests)
    recorder.event(kind, f"{role} had no reply", {"role": role, "usage": usage.to_json()})


def _provider_chat(model: Model, context: WorkerContext, recorder: Recorder, seed: str) -> ProviderChat:
    """Return the chat of a model: in this process, at a server of the run's own, or over HTTP.

    A model in this process draws its random numbers from ``seed``.
    """
    provider = provider_of(model.id)
    if provider == "hf":
        from pytest_agenteval.chat.local.hf_chat import HfChat

        return HfChat(model, recorder, seed)
    if provider == "vllm":
        from pytest_agenteval.chat.local.vllm_chat import VllmChat

        return VllmChat(model, context.model_servers, recorder)
    from pytest_agenteval.chat.retries import http_chat

    return http_chat(model, recorder.prices)


def open_tool_tape(plan: Plan, context: WorkerContext) -> ToolTape:
    from pytest_agenteval.tools.tool_tape import ToolTape

    path = Path(f"{plan.task.cassette}.yaml")
    tape = context.library.open(path, plan.conditions.record, "tool")  # type: ignore[arg-type]  # never "off"
    shared = [partial(context.library.open_shared, Path(place)) for place in plan.task.shared]
    return ToolTape(
        tape,
        shared=shared,
        retry_command=_retry(plan, context, "--agent-record=new_episodes"),
        first_command=_retry(plan, context, "--agent-record=once"),
        let_out=""
        if context.run.script is None
        else f"let it out:  {script_way(context.run.script, '--agent-live=1')}",
    )


def chat_mode(plan: Plan) -> RecordMode:
    """Return the recording mode of the chats of a trial: those of its agent, its user and its judges."""
    # If no mode is set and the agent may send nothing, recorded chats are replayed. Other requests of the
    # agent are refused; users and judges are models that somebody has named.
    mode = plan.conditions.record_chat
    if mode != "off" or plan.asks_own_models or not plan.task.cassette:
        return mode
    return "none" if Path(chat_cassette_file(plan)).is_file() else "off"


def _open_chat_tape(model: Model, plan: Plan, context: WorkerContext, role: str) -> ChatTape | None:
    mode, cassette = chat_mode(plan), plan.task.cassette
    if mode == "off" or not cassette:
        return None
    tape = context.library.open(Path(chat_cassette_file(plan)), mode, "chat")
    return ChatTape(
        tape,
        role=role,
        model=model,
        repetition=plan.repetition,
        mode=mode,
        retry_command=_retry(plan, context, "--agent-record-chat=new_episodes"),
        sends=plan.conditions.record_chat == "off",
    )


def open_model_traffic(
    plan: Plan, context: WorkerContext, budget: Budget, recorder: Recorder, tapes: list[Tapes]
) -> ModelTraffic:
    """Return what reads and records the model requests that a trial's agent makes by itself.

    The tape that they are replayed from is added to ``tapes``.
    """
    from pytest_agenteval.chat.model_traffic import ModelTape, ModelTraffic

    mode, hosts, tape = chat_mode(plan), plan.task.model_hosts, None
    if mode != "off" and plan.task.cassette:
        opened = context.library.open(Path(chat_cassette_file(plan)), mode, "chat")
        tape = ModelTape(opened, _retry(plan, context, "--agent-record-chat=new_episodes"), hosts)
        tapes.append(tape)
    options = ("--agent-live=1", "--agent-record-chat=once")
    if context.run.script is None:
        live, once = "--agent-live, or live: true in suite.yaml", options[1]
        let_out = f"  let it out:   {live}; or name the model: --agent-model=NAME"
    else:
        live, once = (script_way(context.run.script, option) for option in options)
        let_out = f"  let it out:   {live}; or name the model: model=NAME of the call"
    refused = "the agent asks a model by itself, and nobody said that it may"
    refusal = "\n".join((refused, let_out, f"  record it:    {once}; from then on it is played"))
    sends = plan.asks_own_models
    return ModelTraffic(recorder, budget, tape, sends=sends, refusal=refusal, model_hosts=hosts)


def script_way(script: str, *options: str) -> str:
    """Write options of pytest for a user who starts a script; in a notebook, as lines of Python."""
    pairs = [option.removeprefix("--agent-").partition("=") for option in options]
    variables = [(f"AGENTEVAL_{name.replace('-', '_').upper()}", value) for name, _, value in pairs]
    if not script:
        return "; ".join(f"os.environ[{name!r}] = {value!r}" for name, value in variables)
    return " ".join([*(f"{name}={value}" for name, value in variables), script])


def cassette_files(plan: Plan) -> tuple[str, ...]:
    """Return the files into which the tools and chats of one trial may be recorded."""
    return (f"{plan.task.cassette}.yaml", chat_cassette_file(plan)) if plan.task.cassette else ()


def chat_cassette_file(plan: Plan) -> str:
    """Return the path of the file with the chats of one trial: a file of its own, beside the tools'."""
    variant = f"@{plan.variant.name}" if plan.variant.name else ""
    name = f"{plan.model.name.replace('/', '_')}{variant}-{plan.repetition}.yaml"
    return name_or_older(f"{plan.task.cassette}.chat", name)


def _retry(plan: Plan, context: WorkerContext, option: str) -> str:
    """Return the command that repeats a trial, with the same model and judges, and records it."""
    if context.run.script is not None:
        return script_way(context.run.script, option)
    judges = ",".join(judge.name for judge in plan.conditions.judges)
    is_default = plan.model.id == OWN_MODEL and not context.run.names_models
    who = [] if is_default else [f"--agent-model={plan.model.name}"]
    who += [f"--agent-judge={judges}"] if judges else []
    file, task = plan.task.file, plan.task.id
    task_words = (file, "-k", task) if _KEYWORD.fullmatch(task) else (f"{file}::{task}",)
    # The options that select the trial among those of its task, where they are not the default.
    repetitions = max(plan.repetition, context.run.repetitions)
    selected = {
        f"--repetitions={repetitions}": repetitions > plan.task.repetitions,
        f"--agent-prompt={plan.variant.name}={plan.variant.source}": plan.variant.source,
        f"--agent-split={plan.task.split}": plan.task.split != "dev",
        f"--agent-seed={plan.conditions.seed}": plan.conditions.seed,
    }
    who += [text for text, is_needed in selected.items() if is_needed]
    return shlex.join(["pytest", *task_words, option, *who])


# What ``-k`` takes for one word.
_KEYWORD = re.compile(r"(?!(?:and|or|not|True|False|None)$)[\w:+.\\/-]+")


def open_user_chat(
    model: Model, plan: Plan, context: WorkerContext, recorder: Recorder, tapes: list[Tapes]
) -> Chat:
    """Return the chat of the model that plays the task's user, with a budget and a tape of its own."""
    limits = plan.task.limits
    budget = Budget(Allowance(tokens=limits.tokens, cost_usd=limits.cost_usd))
    chat, tape = open_chat(model, plan, context, budget, recorder, role=USER_ROLE)
    tapes += [] if tape is None else [tape]
    return UserChat(chat, recorder=recorder, budget=budget, tape=tape, role=USER_ROLE)


USER_ROLE = "user"


class TrialJudge(FrozenValue, frozen=True):
    """A model that judges a trial for one grader, or an example, with its chat."""

    model: Model
    chat: JudgeChat


def judge_role(judge: str, label: str) -> str:
    """Return the name of a judge in recordings and transcripts: with its grader."""
    return f"{judge} for {label}"


class TrialJudges:
    """The run's judges in one trial; they do not use the agent's budget or change its messages.

    Together they may use as many tokens and as much money as the trial itself may; a judge that is called
    beyond that raises LimitReached. A judge that is also the judged model is recorded as an event. The tapes
    that they are replayed from are added to ``tapes``.
    """

    def __init__(self, plan: Plan, context: WorkerContext, recorder: Recorder, tapes: list[Tapes]) -> None:
        self._plan, self._context, self._recorder = plan, context, recorder
        self._tapes = tapes
        limits = plan.task.limits
        self._budget = Budget(Allowance(tokens=limits.tokens, cost_usd=limits.cost_usd))
        for model in plan.conditions.judges:
            if model.id == plan.model.id:
                recorder.event("self_judged", f"{model.name} judges its own trial")

    def of(self, label: str) -> tuple[TrialJudge, ...]:
        """Return the judges of this grader; each has recordings apart from those for other graders."""
        judges = []
        for model in self._plan.conditions.judges:
            role = judge_role(model.name, label)
            chat, tape = open_chat(model, self._plan, self._context, self._budget, self._recorder, role=role)
            self._tapes += [] if tape is None else [tape]
            recorded = JudgeChat(chat, recorder=self._recorder, budget=self._budget, tape=tape, role=role)
            judges.append(TrialJudge(model, recorded))
        return tuple(judges)

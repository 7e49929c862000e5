"""The chats, tapes and judges of one trial, and its simulated user."""

from __future__ import annotations

import asyncio
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_agenteval.agents.forms import is_bridged
from pytest_agenteval.cassettes.http.patches import intercepted_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.chat.chat import Chat, OwnModelChat
from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.recording_chat import ChatTape, JudgeChat
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.processes.files import name_or_older
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import OWN_MODEL, Allowance, Model, Plan, RecordMode
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import JUDGE_ASK, USER_ASK, unanswered_usage
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.tape import Tape
    from pytest_agenteval.cassettes.wire.prompt_replacement import PromptReplacement
    from pytest_agenteval.chat.bridge.model_bridge import ModelBridge
    from pytest_agenteval.chat.chat import ProviderChat
    from pytest_agenteval.chat.model_traffic import ModelTraffic
    from pytest_agenteval.tools.tool_tape import ToolTape


def open_chat(
    model: Model,
    plan: Plan,
    context: WorkerContext,
    budget: Budget,
    recorder: Recorder,
    tapes: list[Tape],
    role: str = "agent",
) -> tuple[Chat, ChatTape | None]:
    """Return the chat for this model, and the recorded asks of its role, whose tape is added to ``tapes``."""
    if model.offline:
        return context.registry.model_factory(model.id)(model, plan), None
    if model.id == OWN_MODEL:
        return OwnModelChat(), None
    live = live_chat(model, plan, context, budget, recorder, role)
    return live, _open_chat_tape(model, plan, context, tapes, role)


def live_chat(
    model: Model, plan: Plan, context: WorkerContext, budget: Budget, recorder: Recorder, role: str = "agent"
) -> Chat:
    """Return the chat that asks a real model, with retries, rate limits and prices."""
    from pytest_agenteval.chat.retries import RetryingChat

    return RetryingChat(
        _provider_chat(model, context, recorder, f"{plan.seed} {plan.task.id} {role}"),
        budget=budget,
        recorder=recorder,
        seed=f"{plan.seed} {plan.task.id}",
        limiter=context.rate_limiter(model),
        note_unanswered=partial(_note_unanswered, recorder, role),
    )


def _note_unanswered(recorder: Recorder, role: str, requests: int) -> None:
    """Count the requests of a call that got no reply: as the agent's, the judge's or the user's."""
    if role == "agent":
        recorder.add_usage(unanswered_usage(requests))
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
        other_way=f"or send it without recording:  {_same_command(context, '--agent-live')}",
    )


def chat_mode(plan: Plan) -> RecordMode:
    """Return the recording mode of the chats of a trial: those of its agent, its user and its judges."""
    # If no mode is set and the agent may send nothing, recorded chats are replayed. Other requests of the
    # agent are refused; users and judges are models that somebody has named.
    mode = plan.conditions.record_chat
    if mode != "off" or plan.asks_own_models:
        return mode
    return "none" if Path(chat_cassette_file(plan)).is_file() else "off"


def _open_chat_tape(
    model: Model, plan: Plan, context: WorkerContext, tapes: list[Tape], role: str
) -> ChatTape | None:
    mode = chat_mode(plan)
    if mode == "off":
        return None
    tape = context.library.open(Path(chat_cassette_file(plan)), mode, "chat")
    tapes.append(tape)
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
    plan: Plan,
    context: WorkerContext,
    budget: Budget,
    recorder: Recorder,
    tapes: list[Tape],
    loop: asyncio.AbstractEventLoop,
    prompts: PromptReplacement | None = None,
) -> ModelTraffic:
    """Return what reads and records the model requests that a trial's agent makes by itself.

    The tape that they are replayed from is added to ``tapes``. ``prompts`` are those that the agent reads by
    itself. Where the run's model answers them, it is called on ``loop``.
    """
    from pytest_agenteval.chat.model_tape import ModelTape
    from pytest_agenteval.chat.model_traffic import ModelTraffic

    mode, hosts, tape = chat_mode(plan), plan.task.model_hosts, None
    if mode != "off":
        opened = context.library.open(Path(chat_cassette_file(plan)), mode, "chat")
        tape = ModelTape(opened, _retry(plan, context, "--agent-record-chat=new_episodes"), hosts)
        tapes.append(opened)
    once, live = (_same_command(context, option) for option in ("--agent-record-chat=once", "--agent-live"))
    refusal = refused_request("the agent's", once, live)
    sends = plan.asks_own_models
    loopback = plan.conditions.loopback
    bridge = _model_bridge(plan, context, budget, recorder, loop)
    return ModelTraffic(
        recorder,
        budget,
        tape,
        sends=sends,
        # A named model answers asks, and nothing else that its provider offers.
        sends_others=plan.live if bridge is not None else None,
        loopback=loopback,
        refusal=refusal,
        prompts=prompts,
        model_hosts=hosts,
        bridge=bridge,
    )


def _model_bridge(
    plan: Plan, context: WorkerContext, budget: Budget, recorder: Recorder, loop: asyncio.AbstractEventLoop
) -> ModelBridge | None:
    """Return what has the run's model answer the agent's own requests; None where it does not."""
    if not answers_requests(plan, context):
        return None
    from pytest_agenteval.chat.bridge.model_bridge import ModelBridge

    return ModelBridge(live_chat(plan.model, plan, context, budget, recorder), plan.model, loop)


def answers_requests(plan: Plan, context: WorkerContext) -> bool:
    """Whether the run's model answers what the agent's own client sends."""
    names_model = not plan.model.offline and plan.model.id != OWN_MODEL
    return names_model and is_bridged(plan.task.form, context.registry.agent_factory(plan.task.agent))


async def load_bridge(plan: Plan, context: WorkerContext, recorder: Recorder) -> None:
    """Import what the chat of the run's model needs, if that answers the agent's own requests.

    An agent's thread may import the same libraries at its first request, and one package that two threads
    import may be seen half imported.
    """
    is_http = provider_of(plan.model.id) not in ("hf", "vllm")
    if is_http and plan.conditions.record_chat != "none" and answers_requests(plan, context):
        chat = _provider_chat(plan.model, context, recorder, "")
        await chat.prepare([{"role": "user", "content": "."}])


def refused_request(whose: str, record_command: str, live_command: str) -> str:
    """Say that a request to a model is not recorded and may not be sent, and which commands change that."""
    return (
        f"{whose} request to a model is not recorded, and no option allows it to be sent\n"
        f"  record it:  {record_command}\n  or send it without recording:  {live_command}"
    )


def _same_command(context: WorkerContext, option: str) -> str:
    """Return the command that repeats the whole run with one more option."""
    if context.run.script is not None:
        return script_way(context.run.script, option if "=" in option else f"{option}=1")
    return shlex.join([*(context.run.command or ("pytest",)), option])


_CUT = "the agent closed or gave up the response before its end; it is not recorded"


class InterceptedRequests:
    """The requests that a trial and its threads send beside those of tools and chats.

    A request that is refused breaks the trial, even if the agent handles the error. Requests to models are
    passed to ``traffic``.
    """

    def __init__(
        self, plan: Plan, box: ToolBox, recorder: Recorder, traffic: Callable[[], ModelTraffic]
    ) -> None:
        self._plan, self._box, self._recorder = plan, box, recorder
        self._make_traffic = traffic

    @contextmanager
    def answering(self, *, closing: bool = True) -> Iterator[Scope]:
        """Answer requests that are made inside; with ``closing``, all later ones are refused.

        Raises CassetteMiss in place of an exception that a refusal caused.
        """
        # A run that records stores what is sent instead of letting it pass.
        passing = self._plan.live and self._plan.conditions.record == "none"
        traffic = lazy_traffic(self._make_traffic)
        ignored = self._plan.task.ignored_hosts
        with intercepted_requests(
            lambda: self._tape.of_agent,
            passing=passing,
            closing=closing,
            traffic=traffic,
            ignored_hosts=ignored,
            loopback=self._plan.conditions.loopback,
        ) as scope:
            try:
                yield scope
            except (Exception, NotRecorded, BaseExceptionGroup) as raised:
                if not scope.missed:
                    raise
                raise self._tape.agents_miss(scope.missed[0]) from raised
            finally:
                traffic.close()
                for request in tuple(scope.missed):
                    miss = self._tape.agents_miss(request)
                    self._recorder.add_miss(miss)
                    self._recorder.broken = self._recorder.broken or miss
                for (kind, text), times in scope.noted.items():
                    self._recorder.event(kind, text, {"times": times})
                for request in tuple(scope.cuts):
                    self._recorder.event("cut_response", f"{request.method} {request.uri}: {_CUT}")

    @property
    def _tape(self) -> ToolTape:
        tape = self._box.open_tape()
        assert tape is not None, "the box of a trial has a tape"
        return tape


class _LazyTraffic:
    def __init__(self, make: Callable[[], ModelTraffic]) -> None:
        self._make, self._making = make, threading.Lock()
        self._traffic: ModelTraffic | None = None

    def __getattr__(self, name: str) -> Any:
        # An agent's threads may make the first request at the same time.
        with self._making:
            self._traffic = self._traffic or self._make()
        return getattr(self._traffic, name)

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.close()


def lazy_traffic(make: Callable[[], ModelTraffic]) -> ModelTraffic:
    """Return a trial's model traffic, made at its first request: most agents send none of their own."""
    return cast("ModelTraffic", _LazyTraffic(make))


def script_way(script: str, *options: str) -> str:
    """Write options of pytest for a user who starts a script; in a notebook, as lines of Python."""
    pairs = [option.removeprefix("--agent-").partition("=") for option in options]
    variables = [(f"AGENTEVAL_{name.replace('-', '_').upper()}", value) for name, _, value in pairs]
    if not script:
        return "; ".join(f"os.environ[{name!r}] = {value!r}" for name, value in variables)
    return " ".join([*(f"{name}={value}" for name, value in variables), script])


def cassette_files(plan: Plan) -> tuple[str, ...]:
    """Return the files into which the tools and chats of one trial may be recorded."""
    return f"{plan.task.cassette}.yaml", chat_cassette_file(plan)


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


def open_judge_chat(
    model: Model,
    plan: Plan,
    context: WorkerContext,
    budget: Budget,
    recorder: Recorder,
    tapes: list[Tape],
    role: str,
) -> JudgeChat:
    """Return the chat of a judge, or of the model that plays the user, with recordings of its own role."""
    chat, tape = open_chat(model, plan, context, budget, recorder, tapes, role)
    event = USER_ASK if role == USER_ROLE else JUDGE_ASK
    return JudgeChat(chat, recorder=recorder, budget=budget, tape=tape, role=role, event=event)


def own_budget(plan: Plan) -> Budget:
    """Return a budget beside the agent's: as many tokens and as much money as the trial itself may take."""
    limits = plan.task.limits
    return Budget(Allowance(tokens=limits.tokens, cost_usd=limits.cost_usd))


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

    def __init__(self, plan: Plan, context: WorkerContext, recorder: Recorder, tapes: list[Tape]) -> None:
        self._plan, self._context, self._recorder = plan, context, recorder
        self._tapes = tapes
        self._budget = own_budget(plan)
        for model in plan.conditions.judges:
            if model.id == plan.model.id:
                recorder.event("self_judged", f"{model.name} judges its own trial")

    def of(self, label: str) -> tuple[TrialJudge, ...]:
        """Return the judges of this grader; each has recordings apart from those for other graders."""
        judges = []
        for model in self._plan.conditions.judges:
            role = judge_role(model.name, label)
            chat = open_judge_chat(
                model, self._plan, self._context, self._budget, self._recorder, self._tapes, role
            )
            judges.append(TrialJudge(model, chat))
        return tuple(judges)

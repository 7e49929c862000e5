"""What has to be true of a framework's runs; each function gives the faults it finds, in words."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_agenteval import Message, Trial
from tests.extended.frameworks.catalogue import UNREAD, Case, Framework
from tests.extended.frameworks.child_runs import ChildRun
from tests.extended.frameworks.model_server import Ask
from tests.extended.frameworks.project import LATE, STEPS
from tests.extended.frameworks.weather_model import LAST_TOOLS, WEATHER, answer, question

SYSTEM = "You tell the weather."
_SERVER_ID = re.compile(r"(call|toolu|tooluse)_\d+_\d")
"""Gemini and Ollama give no ids: there they are ours."""

MARGIN_S = 0.5
"""A request may have left just before its trial ended, and have been counted just after."""


def recorded_faults(
    run: ChildRun, framework: Framework, case: Case, asks: Sequence[Ask], trials: int
) -> Iterator[str]:
    """Every trial passed, with the transcript that is expected, and its asks and tokens as the server's."""
    if case.format in UNREAD:
        yield from _unread_faults(run, asks, trials)
        return
    if len(run.trials) != trials or any(trial.ending != "passed" for trial in run.trials):
        yield f"{_endings(run)}, expected {trials} passed"
    for trial in run.trials:
        yield from transcript_faults(trial, framework, case)
    models = [ask for ask in asks if ask.format != "tool"]
    yield from _unequal("asks", sum(trial.usage.asks for trial in run.trials), len(models))
    yield from _unequal(
        "tokens", sum(trial.usage.known_tokens for trial in run.trials), sum(ask.tokens for ask in models)
    )
    if not any(address.startswith("127.") for address in run.connects):
        yield "no connection was counted while recording: that none is counted in a replay proves nothing"
    yield from _unequal("calls of the tool's API", len(asks) - len(models), trials)
    yield from _shared_ids(run.trials)


BRIDGED = {
    "gpt": ("openai/gpt-weather", "openai.chat"),
    "claude": ("anthropic/claude-haiku-4-5", "anthropic.messages"),
}
"""Models that answer in the place of an agent's own: their ids, and their wire formats."""


def bridged_faults(
    run: ChildRun, direct: ChildRun, model: str, framework: Framework, case: Case, asks: Sequence[Ask]
) -> Iterator[str]:
    """Another model, in another wire format, gave the same calls, answers and grades, in its own name."""
    if case.format in UNREAD:
        return
    id, format = BRIDGED[model]
    models = [ask for ask in asks if ask.format != "tool"]
    yield from _unequal("bridged: formats of the model's server", {ask.format for ask in models}, {format})
    outcomes = [[_outcome(trial, framework) for trial in each.trials] for each in (run, direct)]
    yield from _unequal("bridged: outcomes", *outcomes)
    yield from _unequal(
        "bridged: models", {it for trial in run.trials for it in trial.transcript.models}, {id}
    )
    tokens = sum(trial.usage.known_tokens for trial in run.trials)
    yield from _unequal("bridged: tokens", tokens, sum(ask.tokens for ask in models))


def _outcome(trial: Trial, framework: Framework) -> tuple[Any, ...]:
    calls = [(call.tool, dict(call.args)) for call in trial.transcript.calls]
    whole = (str(trial.key.task), trial.ending, trial.score, trial.outcome.answer.text, calls)
    if framework.asides:  # it adds what it counts to the messages
        return whole
    return *whole, [(message.role, message.content) for message in trial.transcript.messages]


def _unread_faults(run: ChildRun, asks: Sequence[Ask], trials: int) -> Iterator[str]:
    """Every trial has its answer, no call or token is made up, and the run says that it could not read."""
    cities = [trial.key.task.rpartition("/")[2].capitalize() for trial in run.trials]
    answers = [trial.outcome.answer.text for trial in run.trials]
    yield from _unequal("answers", answers, [answer(city) for city in cities])
    yield from _unequal("trials", len(run.trials), trials)
    models = sum(ask.format != "tool" for ask in asks)
    line = f"! {models} requests of models could not be read"
    if line not in run.output:
        yield f"no line says {line!r}: {run.output[-600:]}"
    yield from _unequal("calls", [call.tool for trial in run.trials for call in trial.transcript.calls], [])
    yield from _unequal("tokens", {trial.usage.tokens for trial in run.trials}, {None})


def transcript_faults(trial: Trial, framework: Framework, case: Case) -> Iterator[str]:
    """Say where the transcript is not the expected one: opening, call, result, end.

    An agent that is ``terminal`` ends with the call: its result is its answer, and in no message.
    """
    city = trial.key.task.rpartition("/")[2].capitalize()
    place = f"{city}-{trial.key.repetition}"
    if case.written:
        yield from _unequal(f"{place}: answer", trial.outcome.answer.text, answer(city))
        yield from _call_faults(place, city, trial, framework, case)
        return
    messages = _conversation(trial, framework)
    roles = [message.role for message in messages]
    expected = ["system", "user", "assistant", *(() if case.terminal else ("tool", "assistant"))]
    if roles != expected:
        yield f"{place}: roles {' '.join(roles)}, expected {' '.join(expected)}"
        return
    if not framework.own_prompt:
        yield from _unequal(f"{place}: system", messages[0].content, SYSTEM)
        yield from _unequal(f"{place}: user", messages[1].content, question(city, city.lower()))
    elif question(city, city.lower()) not in messages[1].content:
        yield f"{place}: the question is not in the user's message"
    yield from _call_faults(place, city, trial, framework, case)
    yield from _end_faults(place, city, trial, messages[-1], framework, case)


def _call_faults(place: str, city: str, trial: Trial, framework: Framework, case: Case) -> Iterator[str]:
    yield from _unequal(f"{place}: failed", [c.tool for c in trial.transcript.calls if c.error], [])
    calls = [call for call in trial.transcript.calls if call.tool not in LAST_TOOLS]
    yield from _unequal(
        f"{place}: calls", [(c.tool, dict(c.args)) for c in calls], [(framework.tool, {"city": city})]
    )
    result = f"{city}: {WEATHER[city]} degrees"
    texts = [message.content for message in trial.transcript.messages if message.role in ("tool", "user")]
    if not (case.terminal or case.written) and not any(result in text for text in texts):
        yield f"{place}: the result is in no message"
    for call in calls:
        added = framework.own_prompt and str(call.result).startswith(result)
        unknown = case.terminal and call.result is None
        if not added and not unknown and call.result not in (result, {"result": result}, {"output": result}):
            yield f"{place}: the call's result is {call.result!r}, expected {result!r}"


def _conversation(trial: Trial, framework: Framework) -> list[Message]:
    """Give the messages of the conversation in which the tool was called; of others there may be asides."""
    messages = trial.transcript.messages
    phases = {message.phase for message in messages if message.calls}
    own = [message for message in messages if message.phase in phases or not framework.asides]
    # Claude's CLI says more to its model in the name of the system, and not each time.
    return [m for place, m in enumerate(own) if not (framework.asides and place and m.role == "system")]


def _end_faults(
    place: str, city: str, trial: Trial, last: Message, framework: Framework, case: Case
) -> Iterator[str]:
    yield from _unequal(f"{place}: answer", trial.outcome.answer.text, answer(city))
    if case.terminal:
        yield from _unequal(f"{place}: last call", [call.tool for call in last.calls], [framework.tool])
    elif case.structured:
        yield from _unequal(f"{place}: last words", _object(last), {"city": city, "degrees": WEATHER[city]})
    elif framework.final_tool:
        yield from _unequal(f"{place}: last call", [call.tool for call in last.calls], ["final_answer"])
    else:
        yield from _unequal(f"{place}: last message", last.content, answer(city))


def _object(last: Message) -> Any:
    """Give the object of a model's last words, which are its text or the arguments of a call."""
    if last.calls:
        return dict(last.calls[0].args)
    try:
        return json.loads(last.content)
    except ValueError:
        return last.content


def _shared_ids(trials: Sequence[Trial]) -> Iterator[str]:
    """Ids of calls are the server's, and each was given once: two trials with one have been mixed."""
    ids = Counter(
        call.id for trial in trials for call in trial.transcript.calls if _SERVER_ID.fullmatch(call.id)
    )
    shared = [id for id, count in ids.items() if count > 1]
    if shared:
        yield f"{len(shared)} calls are in several trials: {shared[0]}"


def replayed_faults(run: ChildRun, recorded: ChildRun) -> Iterator[str]:
    """Every trial ends as it did, without a connection, and says word by word what was recorded."""
    endings = [{trial.key: trial.ending for trial in each.trials} for each in (recorded, run)]
    if endings[0] != endings[1]:
        yield f"replay: {_endings(run)}"
    yield from _unequal("replay: connects", list(run.connects), [])
    before = {trial.key: _said(trial) for trial in recorded.trials}
    changed = [trial.key for trial in run.trials if _said(trial) != before.get(trial.key)]
    if changed:
        yield f"replay: {len(changed)} transcripts are others than recorded, the first: {changed[0]}"


def _said(trial: Trial) -> str:
    """Give all that was said and called, and what it took, without times and prices."""
    calls = [(call.id, call.tool, call.args, call.result) for call in trial.transcript.calls]
    messages = [(m.role, m.content, m.call_id, [c.id for c in m.calls]) for m in trial.transcript.messages]
    return json.dumps([messages, calls, trial.usage.asks, trial.usage.tokens], default=str, sort_keys=True)


def default_faults(run: ChildRun, asks: Sequence[Ask]) -> Iterator[str]:
    """Without options nothing is sent to another machine, no trial passes, and an option is named."""
    yield from _unequal("default flags: requests", len(asks), 0)
    yield from _unequal("default flags: connects", list(run.connects), [])
    if not run.trials or any(trial.ending != "errored" for trial in run.trials):
        yield f"default flags: {_endings(run)}, expected errored"
    if "--agent-live" not in run.output and "--agent-record" not in run.output:
        yield "default flags: no flag is named"


def endless_faults(run: ChildRun, asks: Sequence[Ask]) -> Iterator[str]:
    """Four steps are four asks, and a trial that has ended asks nothing more."""
    steps = [ask for ask in asks if ask.task == "steps"]
    yield from _unequal(f"limits.steps: {STEPS}: asks", len(steps), STEPS)
    by_task = {trial.key.task.rpartition("/")[2]: trial for trial in run.trials}
    yield from _unequal(
        "limits of steps and seconds",
        [_limit(by_task, "steps"), _limit(by_task, "late")],
        ["steps", "seconds"],
    )
    if "late" not in by_task:
        return
    limits = [event.at for event in by_task["late"].transcript.events if event.kind == "limit"]
    asked = [ask.at for ask in asks if ask.task == "late"]
    if not limits or not asked or not by_task["late"].transcript.asks:
        yield "the late trial was not ended while it was asking"
        return
    # The server's clock and the trial's are laid upon each other at the first ask.
    ended = asked[0] - by_task["late"].transcript.asks[0].started + limits[0] + MARGIN_S
    after = [ask for ask in asks if ask.task in ("late", LATE) and ask.at > ended]
    yield from _unequal("requests after the trial's end", len(after), 0)
    if not any(ask.task == "patient" and ask.at > ended for ask in asks):
        yield "nobody was at work after the late trial: its end proves nothing"


def _limit(by_task: dict[str, Trial], task: str) -> str:
    return by_task[task].limit if task in by_task else "no trial"


def _endings(run: ChildRun) -> str:
    counts = Counter(trial.ending for trial in run.trials)
    odd = next((trial for trial in run.trials if trial.ending != "passed"), None)
    why = f" ({odd.key.task}: {odd.cause} {odd.message[:300]})" if odd is not None and odd.message else ""
    told = ", ".join(f"{count} {ending}" for ending, count in counts.items())
    return (told or f"no trials, status {run.status}: {run.output[-600:]}") + why


def _unequal(what: str, value: Any, expected: Any) -> Iterator[str]:
    if value != expected:
        yield f"{what}: {_short(value)}, expected {_short(expected)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:159]}…"

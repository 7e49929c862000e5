"""A trial as a trajectory in the Agent Trajectory Interchange Format of the harbor project (its RFC 0001).

What of version 1.7 is used, as harbor's own models state it:

- a trajectory has ``schema_version``, ``agent`` (``name`` and ``version`` are required) and at least one of
  ``steps``; ``session_id``, ``trajectory_id``, ``final_metrics`` and ``extra`` are optional;
- ``step_id`` counts from 1 without gaps; ``source`` is ``system``, ``user`` or ``agent``; ``message`` is
  required and may be empty; ``timestamp`` is ISO 8601;
- ``model_name``, ``reasoning_content``, ``tool_calls`` and ``metrics`` are for steps of the agent only;
  with ``llm_call_count`` 0 there are neither metrics nor reasoning;
- an observation's ``source_call_id`` names a ``tool_call_id`` of the same step, or is left out;
- any other key is refused everywhere, but within ``extra``.

What the format has no word for stands in ``extra`` below ``agenteval``. What is not known is left out.
``transcripts/atif.py`` reads all of it back: what it would not guess of a message or a call, such as a place
out of the usual order, is told in ``extra``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_agenteval.cassettes.transcripts.atif_fields import OURS
from pytest_agenteval.records.transcript import Ask, Message, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.exports.atif_extra import (
    Fields,
    answer_extra,
    differences,
    filled,
    ours,
    tool_call,
    unusual_places,
)
from pytest_agenteval.reports.exports.trial_identity import (
    asked_model,
    moment,
    run_name,
    session_name,
    trial_id,
)
from pytest_agenteval.reports.trial.conversation import Step, StepCall, conversation_steps, result_text
from pytest_agenteval.store.run_reader import Run

SCHEMA_VERSION = "ATIF-v1.7"
"""The oldest version with all that is used here; 1.8 adds audio. Readers refuse versions they do not know."""

SOURCES: Mapping[str, str] = {"system": "system", "user": "user", "assistant": "agent", "tool": "system"}


def trajectory(run: Run, trial: Trial) -> Fields:
    """Give a trial as an ATIF trajectory, in JSON values."""
    name = run_name(run)
    steps = _Steps(trial).all_fields() or [_only_step(trial)]
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
    return filled(
        schema_version=SCHEMA_VERSION,
        session_id=session_name(name, trial.key),
        trajectory_id=trial_id(name, trial),
        agent=_agent(run, trial) | filled(tool_definitions=_tool_definitions(trial)),
        steps=numbered,
        final_metrics=_final_metrics(trial, len(numbered)),
        extra=ours(**_about(run, trial)),
    )


def _agent(run: Run, trial: Trial) -> Fields:
    """Describe the agent; its version is the digest of its own code, where it has any: else it is ours."""
    model = asked_model(run, trial)
    return filled(
        name=trial.key.agent or "unknown",
        version=trial.digests.code or run.header.package or "unknown",
        model_name=model.id,
        extra=ours(model=model.name, offline=model.offline or None, variant=trial.key.variant),
    )


def _tool_definitions(trial: Trial) -> list[Fields]:
    return [tool.declaration() for tool in trial.transcript.tools]


class _Steps:
    """Writes the steps of one trial."""

    def __init__(self, trial: Trial) -> None:
        self._started_at = trial.started_at
        self._phased = any(message.phase > 1 for message in trial.transcript.messages)
        self._request_times = {ask.turn: ask.started for ask in reversed(trial.transcript.asks)}
        self._steps = conversation_steps(trial.transcript)
        self._places = unusual_places(trial.transcript, self._steps)

    def all_fields(self) -> list[Fields]:
        """Give all steps without their numbers."""
        return list(map(self._fields, self._steps))

    def _fields(self, step: Step) -> Fields:
        """Give a step without its number."""
        if step.message is None:
            return self._calls_of_agent_code(step)
        message, ask = step.message, step.ask
        orphan = message.role == "tool"  # it answers nothing that was asked for
        observation = [{"content": message.content}] if orphan else list(self._results(step))
        required = {"source": SOURCES[message.role], "message": "" if orphan else message.content}
        return required | filled(
            timestamp=self._timestamp(step),
            model_name=ask.model if ask else None,
            reasoning_content=ask.reasoning if ask else None,
            tool_calls=[tool_call(call, at, step) for at, call in enumerate(step.calls)],
            observation={"results": observation} if observation else None,
            metrics=_metrics(ask.usage) if ask else None,
            is_copied_context=step.is_context or None,
            llm_call_count=1 if ask else None,
            extra=self._message_extra(message, ask),
        )

    def _calls_of_agent_code(self, step: Step) -> Fields:
        """Give calls that the agent's code made, and no model: the format's deterministic dispatch."""
        executions = [call.execution for call in step.calls if call.execution]
        started = [execution.started for execution in executions if execution.by == "agent"]
        return {"source": "agent", "message": ""} | filled(
            timestamp=self._at(min(started)) if started else None,
            tool_calls=[tool_call(call, at, step) for at, call in enumerate(step.calls)],
            observation={"results": list(self._results(step))},
            is_copied_context=None if started else True,
            llm_call_count=0,
            extra=ours(turn=step.calls[0].request.turn, requested=False),
        )

    def _timestamp(self, step: Step) -> str | None:
        """Give when a reply had come, and when anything else was first sent to the model."""
        if step.ask:
            return self._at(step.ask.ended)
        message = step.message
        if message is None or step.is_context or message.turn not in self._request_times:
            return None
        return self._at(self._request_times[message.turn])

    def _at(self, offset_s: float) -> str | None:
        at = moment(self._started_at, offset_s)
        return at.isoformat(timespec="microseconds") if at else None

    def _results(self, step: Step) -> Iterator[Fields]:
        for call in step.calls:
            if call.content is not None:
                result = {"source_call_id": call.request.id, "content": call.content}
                yield result | filled(extra=self._result_extra(call, step))

    def _result_extra(self, call: StepCall, step: Step) -> Fields | None:
        message = answer_extra(call.answer, step.message, step.ask, self._places)
        execution = call.execution
        if execution is None:
            return ours(message=message)
        real = execution.by != "seed"  # what a task says was called before has no times
        is_shown = result_text(execution) == call.content
        is_text = isinstance(execution.result, str) or execution.error is not None
        told = filled(
            started_at=self._at(execution.started) if real else None,
            ended_at=self._at(execution.ended) if real else None,
            error=execution.error.to_json() if execution.error else None,
            tape=execution.tape if execution.tape != "none" else None,
            by=execution.by if execution.by != "agent" else None,
            json=True if is_shown and not is_text else None,
            shown=False if call.answer is None and step.message is not None else None,
            place=self._places.get(id(execution)),
            **differences(execution, call.request),
        )
        if not is_shown and execution.error is None:  # also where it is empty, or null
            told["result"] = execution.result
        return {OURS: (told or {"executed": True}) | filled(message=message)}

    def _message_extra(self, message: Message, ask: Ask | None) -> Fields | None:
        return ours(
            seeded=message.seeded or None,
            phase=message.phase if self._phased else None,
            call_id=message.call_id,
            calls=None if message.role == "assistant" else [call.to_json() for call in message.calls],
            turn=message.turn or None,
            place=self._places.get(id(message)),
            ask_turn=ask.turn if ask and ask.turn != message.turn else None,
            sent_at=self._at(ask.started) if ask else None,
            first_token_s=ask.first_token_s if ask else None,
            finish=ask.finish if ask else None,
            attempts=ask.usage.attempts or None if ask else None,
            asks=ask.usage.asks if ask and ask.usage.asks != 1 else None,
        )


def _only_step(trial: Trial) -> Fields:
    """Give the one step of a trial in which no model spoke: its answer, else what kept it from any."""
    answer = trial.outcome.answer.text
    if answer:
        return {"source": "agent", "message": answer}
    return {"source": "system", "message": trial.message or f"{trial.ending}: nothing was said"}


def _metrics(usage: Usage) -> Fields | None:
    return filled(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
        extra=ours(reasoning_tokens=usage.reasoning_tokens),
    )


def _final_metrics(trial: Trial, steps: int) -> Fields:
    usage = trial.usage
    return filled(
        total_prompt_tokens=usage.input_tokens,
        total_completion_tokens=usage.output_tokens,
        total_cached_tokens=usage.cached_tokens,
        total_cost_usd=usage.cost_usd,
        total_steps=steps,
        extra=ours(
            seconds=trial.seconds,
            asks=usage.asks,
            attempts=usage.attempts,
            reasoning_tokens=usage.reasoning_tokens,
            partial_tokens=usage.partial_tokens or None,
            partial_cost_usd=usage.partial_cost_usd or None,
            judging=trial.judging.to_json() if trial.judging.asks else None,
        ),
    )


def _about(run: Run, trial: Trial) -> Fields:
    """Say what a trial is and how it ended, with every grade whole."""
    key, answer = trial.key._asdict(), trial.outcome.answer
    ending = {name: getattr(trial, name) for name in ("ending", "score", "limit", "cause", "message")}
    task = {name: getattr(trial, name) for name in ("file", "kind", "bucket", "label", "acted")}
    return {
        "run": run_name(run),
        **key,
        "attempt": trial.attempt,
        **ending,
        "traceback": trial.traceback,
        **task,
        "tags": list(trial.tags),
        "started_at": trial.started_at,
        "grades": [{**grade.to_json(), "passed": grade.passed} for grade in trial.grades],
        "answer": filled(text=answer.text, state=dict(answer.state)),
        "events": [event.to_json() for event in trial.transcript.events],
        "digests": filled(**trial.digests.to_json()),
    }

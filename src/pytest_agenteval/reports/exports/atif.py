"""``agenteval report RUN --as atif``: a trial as a trajectory, in a file that readers of ATIF accept.

What the format has no field for stands in ``extra``, under our name. What is not known is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.conversation import (
    ConversationCall,
    ConversationStep,
    conversation_steps,
    result_text,
)
from pytest_agenteval.reports.exports.trial_identity import (
    moment,
    requested_model,
    run_name,
    session_name,
    trial_id,
    trial_path,
)
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import writing
from pytest_agenteval.text.redaction import KNOWN_SECRETS

Fields: TypeAlias = dict[str, Any]
OURS = "agenteval"


def filled(**fields: Any) -> Fields:
    """Leave out fields that are unknown or empty; 0 and False are values."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", {}, [])}


def ours(**fields: Any) -> Fields | None:
    """Give an ``extra`` with these fields under our name; None where all of them are unknown."""
    known = filled(**fields)
    return {OURS: known} if known else None


def _tool_call(request: ToolCall) -> Fields:
    fields = {"tool_call_id": request.id, "function_name": request.tool, "arguments": dict(request.args)}
    by = request.by if request.by != "agent" else None
    return fields | filled(extra=ours(raw_arguments=request.raw_args, by=by))


SCHEMA_VERSION = "ATIF-v1.7"
"""The oldest version with all that is used here; 1.8 adds audio. Readers refuse versions they do not know."""

SOURCES: Mapping[str, str] = {"system": "system", "user": "user", "assistant": "agent", "tool": "system"}


def trajectory(run: Run, trial: Trial) -> Fields:
    name = run_name(run)
    written = _Steps(trial)
    steps = [written.fields(step) for step in conversation_steps(trial.transcript)]
    # The format demands a step. Without a message it is the agent's answer, else the reason for none.
    if not steps:
        answer = trial.outcome.answer.text
        nothing = trial.message or f"{trial.ending}: no message"
        steps = [{"source": "agent" if answer else "system", "message": answer or nothing}]
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
    model = requested_model(run, trial)
    return filled(
        schema_version=SCHEMA_VERSION,
        session_id=session_name(name, trial.key),
        trajectory_id=trial_id(name, trial),
        agent=filled(
            name=trial.key.agent or "unknown",
            # The digest of the agent's own code, where it has any: a built-in agent has our version.
            version=trial.digests.code or run.header.package or "unknown",
            model_name=model.id,
            extra=ours(model=model.name, offline=model.offline or None, variant=trial.key.variant),
        )
        | filled(tool_definitions=[tool.declaration() for tool in trial.transcript.tools]),
        steps=numbered,
        final_metrics=_final_metrics(trial, len(numbered)),
        extra=ours(**_about(run, trial)),
    )


class _Steps:
    """Writes the steps of one trial."""

    def __init__(self, trial: Trial) -> None:
        self._started_at = trial.started_at
        self._phased = any(message.phase > 1 for message in trial.transcript.messages)
        self._request_times = {ask.turn: ask.started for ask in reversed(trial.transcript.asks)}

    def fields(self, step: ConversationStep) -> Fields:
        message, ask, results = step.message, step.ask, list(self._results(step))
        calls = [_tool_call(call.request) for call in step.calls]
        # Calls that the agent's code made, and no model: the format calls it deterministic dispatch.
        if message is None:
            executions = [call.execution for call in step.calls if call.execution]
            started = [execution.started for execution in executions if execution.by == "agent"]
            return {"source": "agent", "message": ""} | filled(
                timestamp=self._at(min(started)) if started else None,
                tool_calls=calls,
                observation={"results": results},
                is_copied_context=None if started else True,
                llm_call_count=0,
                extra=ours(turn=step.calls[0].request.turn),
            )
        content = message.content
        # A tool's message with a step of its own answers no call that was requested.
        if message.role == "tool":
            content, results = "", [{"content": content}]
        return {"source": SOURCES[message.role], "message": content} | filled(
            timestamp=self._timestamp(step),
            model_name=ask.model if ask else None,
            reasoning_content=ask.reasoning if ask else None,
            tool_calls=calls,
            observation={"results": results} if results else None,
            metrics=_metrics(ask.usage) if ask else None,
            is_copied_context=step.is_context or None,
            llm_call_count=1 if ask else None,
            extra=ours(
                seeded=message.seeded or None,
                phase=message.phase if self._phased else None,
                turn=message.turn or None,
                sent_at=self._at(ask.started) if ask else None,
                first_token_s=ask.first_token_s if ask else None,
                finish=ask.finish if ask else None,
                attempts=ask.usage.attempts or None if ask else None,
            ),
        )

    def _timestamp(self, step: ConversationStep) -> str | None:
        """Give the time at which a reply ended, or at which any other message was first sent to the model."""
        if step.ask:
            return self._at(step.ask.ended)
        message = step.message
        if message is None or step.is_context or message.turn not in self._request_times:
            return None
        return self._at(self._request_times[message.turn])

    def _at(self, offset_s: float) -> str | None:
        at = moment(self._started_at, offset_s)
        return at.isoformat(timespec="microseconds") if at else None

    def _results(self, step: ConversationStep) -> Iterator[Fields]:
        for call in step.calls:
            if call.content is not None:
                result = {"source_call_id": call.request.id, "content": call.content}
                yield result | filled(extra=self._result_extra(call, is_dispatch=step.message is None))

    def _result_extra(self, call: ConversationCall, *, is_dispatch: bool) -> Fields | None:
        execution = call.execution
        if execution is None:
            return None
        # Calls of a task's history have no times.
        real = execution.by != "seed"
        facts = filled(
            started_at=self._at(execution.started) if real else None,
            ended_at=self._at(execution.ended) if real else None,
            error=execution.error.to_json() if execution.error else None,
            tape=execution.tape if execution.tape != "none" else None,
            shown=False if call.answer is None and not is_dispatch else None,
        )
        # Set after `filled`, as a result that is empty or null is a result.
        if execution.error is None and result_text(execution) != call.content:
            facts["result"] = execution.result
        return {OURS: facts} if facts else None


def _metrics(usage: Usage) -> Fields:
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


def write_trajectories(runs: Sequence[Run], folder: Path) -> Iterator[Path]:
    """Write the trials of runs, one after the other, and give each file's path once it is written.

    A trial whose transcript cannot be read is left out, and ``Run.odd`` says so. Raises UsageMistake where a
    file cannot be written.
    """
    for run in runs:
        for entry in run.entries:
            trial = run.trial_if_readable(entry)
            if trial is not None:
                path = folder / trial_path(run_name(run), trial, ".json")
                value = KNOWN_SECRETS.value(trajectory(run, trial))
                text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
                with writing(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    # Half of a surrogate pair, which models do send, is no text to readers of JSON.
                    replace_text(path, text.encode("utf-8", "replace").decode("utf-8"))
                yield path

"""What a trajectory tells in ``extra``: what the format has no word for, and no reader would guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.transcripts.atif_fields import OURS
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, Transcript
from pytest_agenteval.reports.trial.conversation import Step, StepCall

Fields: TypeAlias = dict[str, Any]


def filled(**fields: Any) -> Fields:
    """Leave out what is not known; 0 and False are known."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", {}, [])}


def ours(**fields: Any) -> Fields | None:
    """Give what is known of these as ``extra`` has it, None where that is nothing."""
    told = filled(**fields)
    return {OURS: told} if told else None


def unusual_places(transcript: Transcript, steps: Sequence[Step]) -> Mapping[int, int]:
    """Give the numbers of messages and of calls, by identity, where their order is not that of the steps."""
    messages: list[object] = []
    calls: list[object] = []
    for step in steps:
        answers = [call.answer for call in step.calls if call.answer is not None]
        messages += [*([] if step.message is None else [step.message]), *answers]
        calls += [call.execution for call in step.calls if call.execution is not None]
    return {
        id(each): number
        for listed, usual in ((transcript.messages, messages), (transcript.calls, calls))
        if [*map(id, listed)] != [*map(id, usual)]
        for number, each in enumerate(listed)
    }


def answer_extra(
    answer: Message | None, asking: Message | None, ask: Ask | None, places: Mapping[int, int]
) -> Fields | None:
    """Give what is not as usual of the message that tells a call's result."""
    if answer is None or asking is None:
        return None
    usual = asking.turn + 1 if ask else asking.turn
    return filled(
        turn=answer.turn if answer.turn != usual else None,
        seeded=answer.seeded if answer.seeded != asking.seeded else None,
        phase=answer.phase if answer.phase != asking.phase else None,
        place=places.get(id(answer)),
    )


def tool_call(call: StepCall, at: int, step: Step) -> Fields:
    """Write a call as its step asks for it, with what its place in that does not tell."""
    request = call.request
    fields = {"tool_call_id": request.id, "function_name": request.tool, "arguments": dict(request.args)}
    turn = step.message.turn if step.message else step.calls[0].request.turn
    usual = ("agent", turn) if step.ask or step.message is None else ("seed", 0)
    return fields | filled(
        extra=ours(
            raw_arguments=request.raw_args,
            by=request.by if request.by != usual[0] else None,
            turn=request.turn if request.turn != usual[1] else None,
            index=request.index if request.index != at else None,
        )
    )


def differences(execution: ToolCall, request: ToolCall) -> Fields:
    """Give what a call that was carried out has otherwise than the request for it."""
    names = {"turn": "turn", "index": "index", "args": "arguments", "raw_args": "raw_arguments"}
    return {
        name: getattr(execution, field)
        for field, name in names.items()
        if getattr(execution, field) != getattr(request, field)
    }

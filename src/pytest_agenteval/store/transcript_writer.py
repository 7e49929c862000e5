"""The transcript line: all of a trial that its journal line does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_agenteval.records.evidence import FileText, Tree
from pytest_agenteval.records.grade import Check, Grade
from pytest_agenteval.records.transcript import Ask, Event, Message, ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_codec import SHORT_MESSAGE, SHORT_RATIONALE, SHORT_TRACEBACK
from pytest_agenteval.store.json_lines import VERSION, Line, add, if_too_long, usage_line

INLINE_CHARS = 1024
"""A longer text is stored beside the transcripts, once, and referred to by its digest."""

Keep = Callable[[str, str], str]
"""Stores a text and gives its digest, which is the second argument where it is already known."""


def transcript_line(trial: Trial, keep: Keep) -> Line:
    """Write down a trial; long texts and files go to ``keep``."""
    said, left = trial.transcript, trial.outcome
    line: Line = {"v": VERSION, "trial": (*trial.key, trial.attempt)}
    add(line, messages=[_message(message, keep) for message in said.messages])
    add(line, calls=[_call(call, keep) for call in said.calls], asks=[_ask(ask) for ask in said.asks])
    add(line, events=[_event(event) for event in said.events])
    add(line, answer=_text(left.answer.text, keep), state=left.answer.state)
    if left.before.files or left.after.files:
        add(line, before=_files(left.before, keep), after=_changes(left.before, left.after, keep))
    rest = [_rest(grade) for grade in trial.grades]
    add(line, grades=rest if any(rest) else (), message=if_too_long(trial.message, SHORT_MESSAGE))
    add(
        line,
        traceback=if_too_long(trial.traceback, SHORT_TRACEBACK),
        output=trial.output,
        log=trial.log,
        workspace=trial.workspace,
    )
    return line


def _message(message: Message, keep: Keep) -> Line:
    line: Line = {"role": message.role, "content": _text(message.content, keep)}
    if message.calls:
        line["calls"] = [_call(call, keep) for call in message.calls]
    add(line, turn=message.turn, seeded=message.seeded, call_id=message.call_id)
    if message.phase != 1:
        line["phase"] = message.phase
    return line


def _call(call: ToolCall, keep: Keep) -> Line:
    line: Line = {"id": call.id, "turn": call.turn, "index": call.index, "tool": call.tool}
    add(line, args=call.args)
    if call.raw_args is not None:
        line["raw_args"] = call.raw_args
    _write_result(line, call.result, keep)
    if call.error is not None:
        line["error"] = {"type": call.error.type, "message": call.error.message}
    add(line, started=call.started, ended=call.ended)
    if call.by != "agent":
        line["by"] = call.by
    if call.tape != "none":
        line["tape"] = call.tape
    return line


def _write_result(line: Line, result: Any, keep: Keep) -> None:
    if isinstance(result, str) and len(result) > INLINE_CHARS:
        line["result_text"] = keep(result, "")
    elif result is not None:
        line["result"] = result


def _ask(ask: Ask) -> Line:
    line: Line = {"turn": ask.turn, "started": ask.started, "ended": ask.ended}
    add(line, usage=usage_line(ask.usage), reasoning=ask.reasoning)
    if ask.finish != "stop":
        line["finish"] = ask.finish
    if ask.first_token_s is not None:
        line["first_token_s"] = ask.first_token_s
    return line


def _event(event: Event) -> Line:
    line: Line = {"at": event.at, "kind": event.kind, "text": event.text}
    add(line, details=event.details)
    return line


def _text(text: str, keep: Keep) -> str | Line:
    return text if len(text) <= INLINE_CHARS else {"d": keep(text, "")}


def _files(tree: Tree, keep: Keep) -> Line:
    return {path: _file(file, keep) for path, file in tree.files.items()}


def _changes(before: Tree, after: Tree, keep: Keep) -> Line:
    """Give the files that came or changed, and null for those that went."""
    if before is after:  # nobody asked for a workspace, which is so for most trials
        return {}
    old, new = before.files, after.files
    changed: Line = {path: _file(file, keep) for path, file in new.items() if old.get(path) != file}
    changed.update((path, None) for path in old if path not in new)
    return changed


def _file(file: FileText, keep: Keep) -> Line:
    if file.text is None:
        return {"d": file.digest, "size": file.size, "why": file.why}
    keep(file.text, file.digest)
    return {"d": file.digest, "size": file.size}


def _rest(grade: Grade) -> Line:
    """Give what the journal line does not hold of a grade."""
    line: Line = {}
    if grade.checks:
        line["checks"] = [_check(check) for check in grade.checks]
    add(line, rationale=if_too_long(grade.rationale, SHORT_RATIONALE), details=grade.details)
    return line


def _check(check: Check) -> Line:
    line: Line = {"claim": check.claim, "passed": check.passed}
    add(line, expected=check.expected, found=check.found)
    return line

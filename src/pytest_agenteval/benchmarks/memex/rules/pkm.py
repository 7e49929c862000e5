"""Playing the PKM agent: a look for a file, an edit with an insight, a plainer try, then no more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from pytest_agenteval import ChatMessage, Move, ToolSpec
from pytest_agenteval.benchmarks.memex.rules.entry_message import block, last_entry
from pytest_agenteval.benchmarks.memex.rules.pkm_cues import (
    best_file,
    files_of,
    is_trivial,
    lines_read,
    new_file,
    opt_out,
    paths_in,
    telling_words,
    unique_end,
)
from pytest_agenteval.chat.offline.rules import failed, text_of
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool import parse_arguments

INSIGHT = "update_timeline_card_insight"
SKIP = "skip_pkm_organization"
_LOOKING = ("Read", "Grep")

Call: TypeAlias = tuple[str, Mapping[str, Any]]


class PkmEntry(FrozenValue, frozen=True):
    """An entry as the user message gave it, and the files that were there."""

    fact_id: str
    text: str
    files: Sequence[str]

    @property
    def marked(self) -> str:
        """The entry on one line, with its marker."""
        return f"{' '.join(self.text.split())} <!-- fact_id: {self.fact_id} -->"


class PastCall(FrozenValue, frozen=True):
    """One call that was made: in which reply, of which tool, and what came of it."""

    reply: int
    tool: str
    args: Mapping[str, Any]
    said: str
    refused: bool


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    found = last_entry(messages)
    if found is None:
        return None
    place, note = found[0], _read_entry(*found[1:])
    steps = list(_past_calls(messages[place:]))
    tries = [step for step in steps if step.tool not in _LOOKING]
    if not tries:
        return Move("", _first_try(note, steps))
    refused = [step.tool for step in tries if step.refused]
    if not refused:
        return Move("That is all I can see in this entry.")
    if tries[0].reply != tries[-1].reply:
        return Move("I have no better idea for this entry.")
    return Move("", tuple(_plainer(note, tool) for tool in refused))


def _read_entry(fact: str, text: str) -> PkmEntry:
    tree = text.partition("<fact_id>")[0]
    return PkmEntry(fact, (block(text, "entry") or "").strip(), files_of(tree))


def _past_calls(messages: Sequence[ChatMessage]) -> Iterator[PastCall]:
    """Give the calls that were answered, each with its answer."""
    answers = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    for place, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            answer, asked = answers.get(call["id"]), call["function"]
            if answer is not None:
                args = parse_arguments(asked["arguments"])[0]
                yield PastCall(place, asked["name"], args, text_of(answer), failed(answer))


def _first_try(note: PkmEntry, looked: Sequence[PastCall]) -> tuple[Call, ...]:
    quote = note.text if is_trivial(note.text) else opt_out(note.text)
    if quote is not None:
        return (_skip(quote),)
    if not looked:
        return _look(note)
    last = looked[-1]
    if last.tool == "Grep" and not last.refused and (paths := paths_in(last.said)):
        return (("Read", {"file_path": paths[0]}),)
    if last.tool == "Read" and not last.refused and (end := unique_end(lines_read(last.said))):
        return _append(note, last.args["file_path"], end)
    return _start(note)


def _look(note: PkmEntry) -> tuple[Call, ...]:
    """Look into the file that sounds best, else for the entry's longest words."""
    file, words = best_file(note.text, note.files), telling_words(note.text)
    if file is not None:
        return (("Read", {"file_path": file}),)
    if note.files and words:
        pattern = "|".join(map(re.escape, words))
        return (("Grep", {"pattern": pattern, "path": "/", "output_mode": "files_with_matches"}),)
    return _start(note)


def _append(note: PkmEntry, path: str, end: str) -> tuple[Call, ...]:
    """Put the entry after the file's last line, whatever the file says about its order."""
    edit = {"file_path": path, "old_string": end, "new_string": f"{end}\n- {note.marked}"}
    return (("Edit", edit), _insight(note, f"This goes with what you wrote in {PurePosixPath(path).stem}."))


def _start(note: PkmEntry) -> tuple[Call, ...]:
    path = new_file(note.text)
    content = f"# {PurePosixPath(path).stem}\n\n- {note.marked}\n"
    return (
        ("Write", {"file_path": path, "content": content}),
        _insight(note, f"You had not written about {PurePosixPath(path).stem} before."),
    )


def _plainer(note: PkmEntry, refused: str) -> Call:
    """Ask for the same again in the plainest way."""
    if refused == SKIP:
        return _skip(note.text)
    if refused == INSIGHT:
        return _insight(note, "Noted.")
    name = re.sub(r"\W+", " ", note.fact_id).strip()
    return ("Write", {"file_path": f"/Resources/{name}.md", "content": f"- {note.marked}\n"})


def _skip(quote: str) -> Call:
    return (SKIP, {"evidence": quote or "(nothing)"})


def _insight(note: PkmEntry, text: str) -> Call:
    return (INSIGHT, {"fact_id": note.fact_id, "insight_text": text})

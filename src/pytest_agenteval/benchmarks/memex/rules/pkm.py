"""Playing the PKM agent: a look for a file, an edit with an insight, a plainer try, then no more.

What an entry is about goes by its words. The rules are meant to be plausible and no more. Do not tune them to
tasks: what they miss is what makes a first run worth looking at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from pytest_agenteval import ChatMessage, Move, ToolSpec
from pytest_agenteval.benchmarks.memex.rules import block, last_entry
from pytest_agenteval.chat.offline.rules import is_failed_result, text_of
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import parse_arguments

_NUMBERED = re.compile(r"^ *([0-9]+)\t(.*)$")


def files_of(tree: str) -> list[str]:
    """Give the paths of all Markdown files of a tree drawn by indenting, in its order."""
    open_folders: list[tuple[int, str]] = []
    paths = []
    for line in tree.splitlines():
        name = line.strip()
        depth = len(line) - len(line.lstrip(" "))
        while open_folders and open_folders[-1][0] >= depth:
            open_folders.pop()
        if name.endswith("/"):
            open_folders.append((depth, name.strip("/")))
        elif name.endswith(".md"):
            paths.append("/" + "/".join([*(folder for _, folder in open_folders if folder), name]))
    return paths


def paths_in(text: str) -> list[str]:
    """Give the Markdown files that a list of paths names, each on a line of its own."""
    return [line.strip() for line in text.splitlines() if line.strip().endswith(".md")]


def lines_read(text: str) -> list[str]:
    """Give a file's lines out of numbered ones; what is not numbered is not the file's."""
    matches = (_NUMBERED.match(line) for line in text.split("\n"))
    return [line[2] for line in matches if line is not None]


def unique_end(lines: list[str]) -> str | None:
    """Give the shortest run of whole last lines that stands only once in the file; None: there is none."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    whole = "\n".join(lines)
    for first in range(len(lines) - 1, -1, -1):
        end = "\n".join(lines[first:])
        if whole.find(end) == len(whole) - len(end):  # not count(), which leaves out what overlaps
            return end
    return None


_OPT_OUTS = re.compile(
    "|".join(
        (
            r"\b(?:do not|don['’]?t|no need to|please never) (?:save|store|keep|file|remember|record)\b",
            r"\boff the record\b",
            r"不要(?:保存|记|存)|别(?:保存|记|存)|不用(?:保存|记)",
            r"(?:저장|기록|기억|보관)하지\s?(?:마|말)",
            r"(?:保存|記録|メモ)しないで|(?:覚え|残さ)ないで",
        )
    ),
    re.IGNORECASE,
)
_FOLDERS: tuple[tuple[str, str], ...] = (
    ("Projects", r"\b(?:project|deadline|launch|milestone|draft|prototype|release|plan)"),
    ("Areas", r"\b(?:health|doctor|sleep|habit|every (?:day|morning|night|week)|money|family|team|manager)"),
)
_OTHERWISE = "Resources"
_TOO_COMMON = frozenset(
    (
        *("projects", "areas", "resources", "archives", "inbox", "notes"),
        *("this", "that", "what", "with", "from", "before", "behind", "about", "after", "into", "over"),
    )
)


def opt_out(text: str) -> str | None:
    """Give the sentence that asks not to keep the entry, None where none does."""
    return next((sentence for sentence in _sentences(text) if _OPT_OUTS.search(sentence)), None)


def is_trivial(text: str) -> bool:
    """Whether there is no letter in the entry."""
    return not any(letter.isalpha() for letter in text)


def best_file(text: str, paths: Iterable[str]) -> str | None:
    """Give the file whose path shares most with the entry, its own name counting twice; None: no word."""
    best, most = None, 0
    for path in paths:
        here = _path_score(text, path)
        if here > most:
            best, most = path, here
    return best


def telling_words(text: str) -> list[str]:
    """Give the three longest words, which may be found inside files."""
    return sorted(dict.fromkeys(re.findall(r"\w{5,}", text)), key=len, reverse=True)[:3]


def new_file(text: str) -> str:
    """Name a new file by the entry's first words, in the folder that a keyword speaks for."""
    folder = next((folder for folder, cue in _FOLDERS if re.search(cue, text, re.IGNORECASE)), _OTHERWISE)
    words = re.findall(r"\w+", text)[:4]
    return f"/{folder}/{' '.join(words)[:40].strip()}.md"


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?。！？])\s*|\n", text) if part.strip()]


def _path_score(text: str, path: str) -> int:
    """Count the words of a path that the entry has too, a word of the file's own name twice."""
    *folders, _ = PurePosixPath(path).parts
    return 2 * _hits(text, PurePosixPath(path).stem) + _hits(text, " ".join(folders))


def _hits(text: str, name: str) -> int:
    words = {word for word in re.findall(r"\w+", name.casefold()) if word not in _TOO_COMMON}
    return sum(_stands_in(word, text.casefold()) for word in words)


def _stands_in(word: str, text: str) -> bool:
    """Whether a word of four letters or more, an ending left out, begins one of the text's."""
    if not word.isascii():  # most likely written without spaces, where a word may begin anywhere
        return len(word) > 1 and word in text
    stem = word[:-1] if len(word) > 4 else word
    return len(word) > 3 and re.search(rf"\b{re.escape(stem)}", text) is not None


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
    result: str
    refused: bool


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    entry = last_entry(messages)
    if entry is None:
        return None
    place, note = entry[0], _read_entry(*entry[1:])
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
            answer, request = answers.get(call["id"]), call["function"]
            if answer is not None:
                args = parse_arguments(request["arguments"])[0]
                yield PastCall(place, request["name"], args, text_of(answer), is_failed_result(answer))


def _first_try(note: PkmEntry, looked: Sequence[PastCall]) -> tuple[Call, ...]:
    quote = note.text if is_trivial(note.text) else opt_out(note.text)
    if quote is not None:
        return (_skip(quote),)
    if not looked:
        return _look(note)
    last = looked[-1]
    if last.tool == "Grep" and not last.refused and (paths := paths_in(last.result)):
        return (("Read", {"file_path": paths[0]}),)
    if last.tool == "Read" and not last.refused and (end := unique_end(lines_read(last.result))):
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

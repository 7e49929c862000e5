"""How the rule-based model plays the agents of this benchmark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from pytest_agenteval import ChatMessage, Move, ToolSpec
from pytest_agenteval.chat.offline.rules import is_failed_result, text_of
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import parse_arguments


class Entry(FrozenValue, frozen=True):
    """An entry as a user message gave it: the message's place, and the files that it draws before it."""

    place: int
    fact_id: str
    text: str
    published: str = ""
    files: Sequence[str] = ()

    @property
    def marked(self) -> str:
        """The entry on one line, with its marker."""
        return f"{' '.join(self.text.split())} <!-- fact_id: {self.fact_id} -->"


def last_entry(messages: Sequence[ChatMessage]) -> Entry | None:
    """Find the last user message that holds an entry; None where none does."""
    for place in range(len(messages) - 1, -1, -1):
        text = text_of(messages[place])
        if messages[place]["role"] == "user" and (fact := block(text, "fact_id")) is not None:
            files = files_of(text.partition("<fact_id>")[0])
            entry = (block(text, "entry") or "").strip()
            return Entry(place, fact, entry, block(text, "published") or "", files)
    return None


def block(text: str, tag: str) -> str | None:
    """Give what stands between ``<tag>`` and the last ``</tag>``; None where there is no such block."""
    # Up to the last closing tag, because the text of an entry may hold one itself.
    match = re.search(rf"<{tag}>\n?(.*?)\n?</{tag}>(?!.*</{tag}>)", text, re.DOTALL)
    return None if match is None else match[1]


_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CLOCK = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]"
_AMOUNT = r"[$€£¥]?\s?[0-9]+(?:[.,][0-9]+)*\s?(?:[$€£¥]|(?i:[a-z]+))?"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_MONEY = r"[$€£¥]\s?[0-9]|[0-9.,]+\s?(?:[$€£¥]|euros?\b|eur\b|dollars?\b|usd\b|pounds?\b)"

# Cues and no understanding: this model is mediocre on purpose, so that a first run without a key shows
# partial scores. Of two cues at one place the earlier rule wins.
RULES: Mapping[str, str] = {
    "link": r"https?://\S+",
    "transaction": _MONEY,
    "event": rf"\b{_CLOCK}\b|\b{_DAY}\b|\b(?:today|tonight|tomorrow|next week)\b",
    "metric": r"\b[0-9]+",
    "rating": r"\b[0-9]+\s?(?:/|out of)\s?(?:5|10)\b|\bstars\b",
    "routine": r"\bevery\b|\bdaily\b|\bhabit\b",
    "quote": r"[\"“][^\"“”]{15,}[\"”]",
    "task": r"\b(?:must|need to|have to|has to|should|remember to|don't forget|todo)\b",
    "progress": r"\b(?:progress|finished|halfway)\b|[0-9] ?% done",
    "mood": r"\b(?:happy|sad|angry|proud|annoyed|worried|anxious|excited|tired|relieved|lonely|grateful)\b",
    "person": r"\b(?:met|introduced to|talked to|spoke with)\b",
    "place": r"\b(?:visited|went to|stopped by|cafe|café|restaurant|museum|park)\b",
}
# What an entry must have for a template, and the template's required fields.
_FIELDS: Mapping[str, tuple[str, Callable[[re.Match[str], str], Mapping[str, Any]]]] = {
    "link": (r"https?://\S+", lambda found, text: {"url": found[0]}),
    "transaction": (_AMOUNT, lambda found, text: {"merchant": name(text), "amount": found[0].strip()}),
    "metric": (_NUMBER, lambda found, text: {"items": [{"title": title(text), "value": number(text)}]}),
    "rating": (_NUMBER, lambda found, text: {"subject": name(text), "score": number(text)}),
    "routine": ("", lambda found, text: {"habit_name": title(text), "streak": 1}),
    "quote": (r"[\"“]([^\"“”]+)[\"”]", lambda found, text: {"content": found[1]}),
    "task": ("", lambda found, text: {"title": title(text), "is_completed": False}),
    "progress": (
        r"\b([0-9]+) of ([0-9]+)\b",
        lambda found, text: {"current": int(found[1]), "total": int(found[2]), "title": title(text)},
    ),
    "mood": ("", lambda found, text: {"mood_name": title(text), "color_hex": "#8888AA"}),
    "person": ("", lambda found, text: {"name": name(text)}),
    "place": ("", lambda found, text: {"name": name(text)}),
}


def template_cues(text: str) -> list[str]:
    """Give the ids of all templates with a cue in the text, the earliest cue first, then by rule."""
    found = ((re.search(cue, text, re.IGNORECASE), id) for id, cue in RULES.items())
    first_cues = [(cue.start(), id) for cue, id in found if cue]
    return [id for _, id in sorted(first_cues, key=lambda hit: hit[0])]


def fill_template(id: str, text: str, published: str) -> Mapping[str, Any] | None:
    """Fill a template's required fields; None where the entry does not have what they need."""
    if id == "event":
        # The day of publication: working out "tomorrow" is more than these rules can do.
        day = re.search(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", published)
        clock = re.search(r"\b([01]?[0-9]|2[0-3]):([0-5][0-9])\b", text)
        hour = f"{int(clock[1]):02}:{clock[2]}" if clock else "09:00"
        return {"title": title(text), "start_time": f"{day[0]}T{hour}:00"} if day else None
    pattern, fields = _FIELDS[id]
    found = re.search(pattern, text)
    return fields(found, text) if found else None


def title(text: str) -> str:
    """Take the first four words; of an entry without a word, say so."""
    return " ".join(text.split()[:4]) or "Empty note"


def name(text: str) -> str:
    """Take the first words in a row that begin with a capital, unless they only begin a sentence."""
    match = re.search(r"(?<=[\w,;] )[A-Z]\w+(?: [A-Z]\w+)*|\b[A-Z]\w+(?: [A-Z]\w+)+", text)
    return match[0] if match else title(text)


def sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def hashtags(text: str) -> list[str]:
    """Take every word with a hash before it, whether or not there is such a tag."""
    return re.findall(r"#(\w+)", re.sub(r"https?://\S+", "", text))


def number(text: str) -> float | int | None:
    match = re.search(_NUMBER, text)
    return match and (float(match[0]) if "." in match[0] else int(match[0]))


SAVE = "save_timeline_card"


def play_card(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    note = last_entry(messages)
    if note is None:
        return None
    answers = [message for message in messages[note.place :] if message["role"] == "tool"]
    if not answers:
        filled = ((id, fill_template(id, note.text, note.published)) for id in template_cues(note.text))
        configs = [{"template_id": id, "data": data} for id, data in filled if data]
        return _save(
            note, configs[:2] or _plainest(note), tags=[{"name": tag} for tag in hashtags(note.text)]
        )
    if not is_failed_result(answers[-1]):
        return Move("The card is saved.")
    # After one refusal it tries a plain card without tags; after two it gives up.
    return _save(note, _plainest(note)) if len(answers) == 1 else Move("I have no better idea for this card.")


def _plainest(note: Entry) -> list[dict[str, Any]]:
    if any(letter.isalnum() for letter in note.text):
        return [{"template_id": "snippet", "data": {"text": sentence(note.text)}}]
    return [{"template_id": "compact", "data": {"color": "#9E9E9E", "title": note.text}}]


def _save(note: Entry, configs: list[dict[str, Any]], **more: Any) -> Move:
    set_fields = {name: value for name, value in more.items() if value}
    card = {"fact_id": note.fact_id, "title": title(note.text), "ui_configs": configs, **set_fields}
    return Move("", ((SAVE, card),))


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
    """Give the shortest run of whole last lines that stands only once in the file; None where none does."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    whole = "\n".join(lines)
    for first in range(len(lines) - 1, -1, -1):
        end = "\n".join(lines[first:])
        # find() and not count(), which leaves out places that overlap.
        if whole.find(end) == len(whole) - len(end):
            return end
    return None


# Plain wishes in English, Chinese, Korean and Japanese. The list is short on purpose: what only a reader
# would understand goes past it.
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
_TOO_COMMON = frozenset(
    (
        "projects", "areas", "resources", "archives", "inbox", "notes",
        "this", "that", "what", "with", "from", "before", "behind", "about", "after", "into", "over",
    )
)  # fmt: skip


def opt_out(text: str) -> str | None:
    """Give the sentence that says not to save the entry, None where none does."""
    sentences = (part.strip() for part in re.split(r"(?<=[.!?。！？])\s*|\n", text))
    return next((sentence for sentence in sentences if sentence and _OPT_OUTS.search(sentence)), None)


def is_trivial(text: str) -> bool:
    """Whether the entry has no letter."""
    return not any(letter.isalpha() for letter in text)


def best_file(text: str, paths: Iterable[str]) -> str | None:
    """Give the file whose path shares most words with the entry, its own name counting twice; or None."""
    best, most = None, 0
    for path in paths:
        *folders, _ = PurePosixPath(path).parts
        words_of_name, words_of_folders = PurePosixPath(path).stem, " ".join(folders)
        here = 2 * _hits(text, words_of_name) + _hits(text, words_of_folders)
        if here > most:
            best, most = path, here
    return best


def telling_words(text: str) -> list[str]:
    """Give the three longest words, which may be found inside files."""
    return sorted(dict.fromkeys(re.findall(r"\w{5,}", text)), key=len, reverse=True)[:3]


def new_file(text: str) -> str:
    """Name a new file by the entry's first words, in the folder that a keyword speaks for."""
    folder = next((folder for folder, cue in _FOLDERS if re.search(cue, text, re.IGNORECASE)), "Resources")
    words = re.findall(r"\w+", text)[:4]
    return f"/{folder}/{' '.join(words)[:40].strip()}.md"


def _hits(text: str, name: str) -> int:
    """Count the words of a name that begin a word of the text, with one letter of an ending left out.

    Words of ASCII letters count from four letters on, others from two.
    """
    text = text.casefold()
    hits = 0
    for word in {word for word in re.findall(r"\w+", name.casefold()) if word not in _TOO_COMMON}:
        # Most likely a language that is written without spaces: a word may begin anywhere.
        if not word.isascii():
            hits += len(word) > 1 and word in text
        elif len(word) > 3:
            stem = word[:-1] if len(word) > 4 else word
            hits += re.search(rf"\b{re.escape(stem)}", text) is not None
    return hits


INSIGHT = "update_timeline_card_insight"
SKIP = "skip_pkm_organization"

Call: TypeAlias = tuple[str, Mapping[str, Any]]


class PastCall(FrozenValue, frozen=True):
    """One earlier call: in which reply, of which tool, and its result."""

    reply: int
    tool: str
    args: Mapping[str, Any]
    result: str
    refused: bool


def play_pkm(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    note = last_entry(messages)
    if note is None:
        return None
    steps = list(_past_calls(messages[note.place :]))
    tries = [step for step in steps if step.tool not in ("Read", "Grep")]
    if not tries:
        return Move("", _first_try(note, steps))
    refused = [step.tool for step in tries if step.refused]
    if not refused:
        return Move("That is all I can see in this entry.")
    # Calls of two replies were tried: a third try would only repeat them.
    if tries[0].reply != tries[-1].reply:
        return Move("I have no better idea for this entry.")
    # Only what was refused is tried again: an edit that went through must not be made twice.
    return Move("", tuple(_plainer(note, tool) for tool in refused))


def _past_calls(messages: Sequence[ChatMessage]) -> Iterator[PastCall]:
    """Give the calls that have an answer, each with it."""
    answers = {message["tool_call_id"]: message for message in messages if message["role"] == "tool"}
    for place, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            answer, request = answers.get(call["id"]), call["function"]
            if answer is not None:
                args = parse_arguments(request["arguments"])[0]
                yield PastCall(place, request["name"], args, text_of(answer), is_failed_result(answer))


def _first_try(note: Entry, looked: Sequence[PastCall]) -> tuple[Call, ...]:
    quote = note.text if is_trivial(note.text) else opt_out(note.text)
    if quote is not None:
        return (_skip(quote),)
    if not looked:
        return _look(note)
    last = looked[-1]
    if last.tool == "Grep" and not last.refused and (paths := paths_in(last.result)):
        return (("Read", {"file_path": paths[0]}),)
    if last.tool == "Read" and not last.refused and (end := unique_end(lines_read(last.result))):
        # Added after the last line of the file, whatever order the file has.
        path = last.args["file_path"]
        edit = {"file_path": path, "old_string": end, "new_string": f"{end}\n- {note.marked}"}
        text = f"This goes with what you wrote in {PurePosixPath(path).stem}."
        return (("Edit", edit), _insight(note, text))
    return _start(note)


def _look(note: Entry) -> tuple[Call, ...]:
    """Look into the file that sounds best, else for the entry's longest words."""
    file, words = best_file(note.text, note.files), telling_words(note.text)
    if file is not None:
        return (("Read", {"file_path": file}),)
    if note.files and words:
        pattern = "|".join(map(re.escape, words))
        return (("Grep", {"pattern": pattern, "path": "/", "output_mode": "files_with_matches"}),)
    return _start(note)


def _start(note: Entry) -> tuple[Call, ...]:
    path = new_file(note.text)
    stem = PurePosixPath(path).stem
    write = ("Write", {"file_path": path, "content": f"# {stem}\n\n- {note.marked}\n"})
    return (write, _insight(note, f"You had not written about {stem} before."))


def _plainer(note: Entry, refused: str) -> Call:
    """Make the refused call again in the plainest way."""
    if refused == SKIP:
        return _skip(note.text)
    if refused == INSIGHT:
        return _insight(note, "Noted.")
    name = re.sub(r"\W+", " ", note.fact_id).strip()
    return ("Write", {"file_path": f"/Resources/{name}.md", "content": f"- {note.marked}\n"})


def _skip(quote: str) -> Call:
    return (SKIP, {"evidence": quote or "(nothing)"})


def _insight(note: Entry, text: str) -> Call:
    return (INSIGHT, {"fact_id": note.fact_id, "insight_text": text})

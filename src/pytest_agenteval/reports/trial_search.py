"""Words in transcripts: what of a trial is searched, and which trials have the words of a query."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import printable
from pytest_agenteval.text.json_values import encoder_fallback
from pytest_agenteval.text.redaction import KNOWN_SECRETS

MOST_CHARACTERS = 30_000_000
"""Characters of lower-cased transcripts that stay in memory, so that the next search is quick."""

_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_DIGEST = re.compile(rb'"(?:d|result_text)":"([0-9a-f]+)"')
T = TypeVar("T")


def phrases_of(query: str) -> list[str]:
    """Give the words of a query, and what stands in quotes as one; a trial has to have them all."""
    return [quoted or word for quoted, word in _PHRASE.findall(query.lower())]


def search_text(trial: Trial) -> str:
    """Give what is searched, in lower case: messages, calls, changed files, events, answer, state, output.

    The page of a file searches the same texts by itself.
    """
    view = KNOWN_SECRETS.value(msgspec.to_builtins(trial_view(trial), enc_hook=encoder_fallback))
    return "\n".join(_texts(view)).lower()


def _texts(view: dict[str, Any]) -> Iterator[str]:
    for message in view["messages"]:
        yield from (message["content"], message["reasoning"])
        for call in message["calls"]:
            error = call["error"]
            yield from (call["tool"], call["raw_args"] or "", call["reply"])
            yield from (error["type"], error["message"]) if error else ()
            yield from _values(call["args"])
            yield from _values(call["result"])
    for file in view["files"]:
        yield file["path"]
        for hunk in file["hunks"]:
            for _, before, after in hunk["rows"]:
                yield before if after is None else after
    for event in view["events"]:
        yield from (event["kind"], event["text"])
        yield from _values(event["details"])
    for name in ("answer", "state", "output", "log"):
        yield from _values(view[name])


def _values(value: Any) -> Iterator[str]:
    """Give the words of any value, with the names of its fields."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    elif value is not None:
        yield printable(value) if isinstance(value, str) else json.dumps(value)


class TranscriptTexts:
    """The texts of transcripts that were searched last, so that they need not be read again."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[Path, object], str] = OrderedDict()
        self._characters = 0

    def text(self, run: Run, entry: JournalEntry) -> str:
        """Give what is searched of a trial; raises TranscriptLost where it cannot be read."""
        key = run.folder, entry.location
        if (known := self._texts.get(key)) is not None:
            return known
        text = self._texts[key] = search_text(run.trial(entry))
        self._characters += len(text)
        while self._characters > MOST_CHARACTERS and len(self._texts) > 1:
            self._characters -= len(self._texts.popitem(last=False)[1])
        return text

    def __contains__(self, key: tuple[Path, object]) -> bool:
        return key in self._texts


class TranscriptSearch(Generic[T]):
    """A search through the transcripts of trials, which goes on where it was left.

    ``trials`` are pairs of a run with an entry, each with what stands for it in the result.
    """

    def __init__(
        self, query: str, trials: Sequence[tuple[T, Run | None, JournalEntry]], texts: TranscriptTexts
    ) -> None:
        self.total, self.done, self.unreadable = len(trials), 0, 0
        self._phrases, self._texts = phrases_of(query), texts
        self._trials = iter(trials)
        # What JSON or a page write otherwise than it is cannot be looked for in the files.
        raw = [phrase for phrase in self._phrases if phrase.isprintable() and not {'"', "\\"} & set(phrase)]
        self._raw = [phrase for phrase in raw if not phrase.isdecimal() and _is_plain(phrase)]
        self._digests: dict[Path, list[set[bytes]]] = {}

    def found(self) -> Iterator[T | None]:
        """Look at one trial after the other; give those that have all words, None for any other."""
        for mark, run, entry in self._trials:
            self.done += 1
            try:
                yield mark if run is not None and self._has_phrases(run, entry) else None
            except (AgentEvalError, OSError):
                self.unreadable += 1
                yield None

    def _has_phrases(self, run: Run, entry: JournalEntry) -> bool:
        if (run.folder, entry.location) not in self._texts and not self._may_have(run, entry):
            return False
        text = self._texts.text(run, entry)
        return all(phrase in text for phrase in self._phrases)

    def _may_have(self, run: Run, entry: JournalEntry) -> bool:
        """Whether the bytes of a transcript, or of the texts that it names, have the phrases.

        To read bytes takes a fiftieth of reading the trial.
        """
        if not self._raw:
            return True
        line = run.transcript_bytes(entry)
        text, named = line.decode(errors="replace").lower(), set(_DIGEST.findall(line))
        if run.folder not in self._digests:
            self._digests[run.folder] = list(_digests_with(run.folder, self._raw))
        having = zip(self._raw, self._digests[run.folder], strict=True)
        return all(phrase in text or not named.isdisjoint(digests) for phrase, digests in having)


def _is_plain(phrase: str) -> bool:
    # What pages write out is searched as it is written out.
    return printable(phrase) == phrase


def _digests_with(folder: Path, phrases: Iterable[str]) -> Iterator[set[bytes]]:
    """Give for each phrase the digests of the stored texts that have it."""
    found: dict[str, set[bytes]] = {phrase: set() for phrase in phrases}
    for path in sorted(folder.glob("texts-*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                text, match = line.decode(errors="replace").lower(), _DIGEST.search(line)
                for phrase, digests in found.items():
                    if match and phrase in text:
                        digests.add(match[1])
    yield from found.values()

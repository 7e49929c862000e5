"""What an agent gave as its transcript, in whichever of the known forms, as a transcript of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.transcripts.atif import read_atif
from pytest_agenteval.cassettes.transcripts.messages import read_messages
from pytest_agenteval.cassettes.transcripts.parts import usage_of
from pytest_agenteval.cassettes.transcripts.place import Place, UnreadableTranscript
from pytest_agenteval.cassettes.transcripts.span_forms import are_spans, plain_spans
from pytest_agenteval.cassettes.transcripts.span_reading import read_spans
from pytest_agenteval.records.transcript import Transcript, Usage
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.value_paths import format_path

# What is read may be anything, at any depth: whatever a reader stumbles over says that it is no known form.
_STUMBLES = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
MOST_CHARS = 200

FORMS = "a list of messages (OpenAI's or Anthropic's), an ATIF trajectory, or exported spans"


def read_transcript(value: Any, path: KeyPath = ("transcript",), *, usage: Any = None) -> Transcript:
    """Read messages of OpenAI or Anthropic, an ATIF trajectory or spans (also as JSON text), or one of ours.

    ``path`` is where the value stands for whoever wrote it, ``usage`` what all replies together took, where
    the messages do not say. Raises UnreadableTranscript, whose one line names the place.
    """
    if isinstance(value, Transcript):
        return value
    place = Place(_parsed(value), path)
    try:
        return _read(place, usage_of(None if usage is None else Place(usage, ("usage",))))
    except _STUMBLES as odd:
        raise UnreadableTranscript(
            f"{format_path(path)}: expected {FORMS}, found what cannot be read as one: {type(odd).__name__}: "
            + " ".join(str(odd).split())[:MOST_CHARS]
        ) from odd


def _read(place: Place, total: Usage | None) -> Transcript:
    if are_spans(place.value):
        return read_spans(plain_spans(place))
    if isinstance(place.value, list | tuple):
        return read_messages(place, total)
    if isinstance(place.value, Mapping) or hasattr(place.value, "model_dump"):
        trajectory = place.map()
        if "steps" in trajectory or "schema_version" in trajectory:
            return read_atif(place)
    raise place.wrong(FORMS)


def _parsed(value: Any) -> Any:
    """Read a JSON text; any other stays what it is, and is refused as that."""
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value

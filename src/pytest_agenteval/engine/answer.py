"""What an agent gave back: its answer, its end state, and the transcript that it tells itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.chat.model_prices import with_prices
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import NO_ANSWER
from pytest_agenteval.text.errors import TrialBroken

_MOST_KEYS = 8
_WHAT_TO_RETURN = "expected a text, a map with `answer`, or pytest_agenteval.Answer(text, state)"

MAP_KEYS = ("answer", "state", "messages", "usage")
"""The keys of a map that is an answer: it has one of the first three at least, and no other key."""


class InvalidAnswer(TrialBroken):
    """An agent gave back something that is no answer."""

    cause = "answer"


def as_answer(value: Any, transcript: Recorder) -> Answer:
    """Give the answer that a value is; raises InvalidAnswer for one that is none.

    None is an empty answer, for an agent may do all its work in the workspace; the transcript says so. A map
    ``{"answer", "state", "messages", "usage"}`` is one, too. Messages, as an answer's own ``transcript``, go
    into the trial's transcript; raises UnreadableTranscript for what is none.
    """
    if value is None:
        transcript.event(NO_ANSWER, f"the agent returned None: graded as an empty answer; {_WHAT_TO_RETURN}")
        return Answer()
    if isinstance(value, str):
        return Answer(value)
    if isinstance(value, Mapping) and not {*value}.isdisjoint(MAP_KEYS[:3]):
        return _of_map(value, transcript)
    if not isinstance(value, Answer):
        raise InvalidAnswer(f"the agent returned {_type_in_words(value)}; {_WHAT_TO_RETURN}")
    answer = _checked(value)
    return answer if answer.transcript is None else _with_transcript(answer, "transcript", None, transcript)


def as_end_state(value: Any) -> Mapping[str, Any]:
    """Give the end state that a value is; raises InvalidAnswer for one that is none."""
    if isinstance(value, Mapping):
        return value
    if inspect.iscoroutine(value):
        value.close()  # else Python complains that nobody waited for it
    raise InvalidAnswer(f"the agent's end_state gave {_type_in_words(value)}; expected a map")


def _of_map(value: Mapping[str, Any], transcript: Recorder) -> Answer:
    if any(key not in MAP_KEYS for key in value):
        raise InvalidAnswer(
            f"the agent returned {_type_in_words(value)}; expected no other keys than {', '.join(MAP_KEYS)}: "
            "what else graders shall see belongs into state"
        )
    text = value.get("answer")
    answer = _checked(Answer("" if text is None else text, value.get("state"), value.get("messages")))  # type: ignore[arg-type]
    if answer.transcript is None:
        return answer
    return _with_transcript(answer, "messages", value.get("usage"), transcript)


def _checked(answer: Answer) -> Answer:
    if not isinstance(answer.text, str):
        raise InvalidAnswer(
            f"the agent returned an Answer whose text is {_type_in_words(answer.text)}; expected a text"
        )
    if answer.state is None:  # somebody's agent has none to tell
        return Answer(answer.text, NOTHING, answer.transcript)
    if not isinstance(answer.state, Mapping):
        raise InvalidAnswer(
            f"the agent returned an Answer whose state is {_type_in_words(answer.state)}; expected a map"
        )
    return answer


def _with_transcript(answer: Answer, key: str, usage: Any, transcript: Recorder) -> Answer:
    """Put what an answer tells of its course into the trial's transcript; its last words may be the text."""
    from pytest_agenteval.cassettes.transcripts.reading import read_transcript

    returned = with_prices(read_transcript(answer.transcript, (key,), usage=usage), transcript.prices)
    transcript.add_returned(returned)
    return Answer(answer.text or returned.last_words, answer.state)


def _type_in_words(value: Any) -> str:
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    if not isinstance(value, dict):
        return f"{article} {name}"
    keys = [str(key) for key in value]
    more = ", …" if len(keys) > _MOST_KEYS else ""
    return f"a {name} (keys: {', '.join(keys[:_MOST_KEYS])}{more})" if keys else f"an empty {name}"

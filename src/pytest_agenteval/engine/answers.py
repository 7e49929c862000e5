"""What an agent gave back, taken as an answer or refused."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.errors import TrialBroken
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import NO_ANSWER

_MOST_KEYS = 8
_WHAT_TO_RETURN = "expected a text, or pytest_agenteval.records.evidence.Answer(text, state)"


class AnswerRefused(TrialBroken):
    """An agent gave back something that is no answer."""

    cause = "answer"


def answer_of(value: Any, transcript: Recorder) -> Answer:
    """Give the answer that a value is; raises AnswerRefused for one that is none.

    None is an empty answer, for an agent may do all its work in the workspace; the transcript says so.
    """
    if value is None:
        transcript.event(NO_ANSWER, f"the agent returned None: graded as an empty answer; {_WHAT_TO_RETURN}")
        return Answer()
    if isinstance(value, str):
        return Answer(value)
    if not isinstance(value, Answer):
        raise AnswerRefused(f"the agent returned {_in_words(value)}; {_WHAT_TO_RETURN}")
    if not isinstance(value.text, str):
        raise AnswerRefused(
            f"the agent returned an Answer whose text is {_in_words(value.text)}; expected a text"
        )
    return value


def _in_words(value: Any) -> str:
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    if not isinstance(value, dict):
        return f"{article} {name}"
    keys = [str(key) for key in value]
    more = ", …" if len(keys) > _MOST_KEYS else ""
    return f"a {name} (keys: {', '.join(keys[:_MOST_KEYS])}{more})" if keys else f"an empty {name}"

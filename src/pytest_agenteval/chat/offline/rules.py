"""The model made of rules: mediocre on purpose, so that a first run shows more than 0 and 1.

It sees messages and tools, and nothing of the task behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from pytest_agenteval.chat.chat import ChatMessage, Reply
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.json_values import compact_json

MOST_QUOTED = 2000
# The attempts after each failure: the rank of the tool, and how many words it searches for.
TRIES = ((0, 4), (0, 2), (1, 3))

_QUOTED = re.compile(r"['\"“”‘’「」『』<>《》]([^'\"“”‘’「」『』<>《》]{2,60})['\"“”‘’「」『』<>《》]")
_CODE = re.compile(r"(?<![\w.])(?:\d{6}|[A-Z]{2,5}-[A-Z]{2,6}|[A-Z]{2,6})(?![\w.])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ENDING = re.compile(
    r"(?<=[가-힣]{2})(?:에서|으로|까지|부터|이랑|하고|은|는|이|가|을|를|에|의|로|도|와|과|랑)$"
)
_ASKING = re.compile(
    r"(?:찾아|알려|검색해|조회해|보여|확인해|골라|추천해|말해|정리해|please|tell me|find)\s?\S*[.?!]*$", re.I
)


class Move(FrozenValue, frozen=True):
    """The next message of an offline model: its text and its tool calls."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


def text_of(message: ChatMessage) -> str:
    """Give a message's text; of content in parts, the text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = (part.get("text") for part in content or () if isinstance(part, Mapping))
    return "\n".join(part for part in parts if isinstance(part, str))


def last_words(messages: Sequence[ChatMessage]) -> str:
    return next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")


def is_failed_result(message: ChatMessage) -> bool:
    try:
        result = json.loads(text_of(message))
    except ValueError:
        return False
    return isinstance(result, dict) and "error" in result


def call_likeliest_tool(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Call the tool most similar to the user's words; after a failure the next; then repeat its result."""
    question = last_words(messages)
    answers: list[ChatMessage] = []
    for message in reversed(messages):  # those since the user's last one
        if message["role"] == "user":
            break
        if message["role"] == "tool":
            answers.insert(0, message)
    if answers and not is_failed_result(answers[-1]):
        # Whoever reads a first run has to understand what the agent answered.
        begins = "찾은 결과입니다" if _is_korean(question) else "This is what was found"
        return Move(f"{begins}: {_values_in_words(text_of(answers[-1]))[:MOST_QUOTED]}")
    ranked = sorted(tools, key=lambda tool: -_likeness(question, tool))
    tries = [(place, words) for place, words in TRIES if place < len(ranked)]
    if len(answers) >= len(tries):
        failed = "도구에서 답을 얻지 못했습니다." if _is_korean(question) else "No tool gave an answer."
        return Move(failed)
    place, words = tries[len(answers)]
    return Move(calls=((ranked[place].name, _arguments(question, ranked[place], words)),))


def _is_korean(text: str) -> bool:
    return re.search("[가-힣]", text) is not None


def _values_in_words(result: str) -> str:
    """Write a tool's result: of JSON the values, each behind its name; any other text as it is."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return ", ".join(_named_values("", value)) if isinstance(value, dict | list) else result


def _named_values(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named_values(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_values(name, inner)
    else:
        yield f"{name} {value}".strip()


def _likeness(question: str, tool: ToolSpec) -> float:
    """Give the share of the tool's pairs of characters that the question has, too."""
    own = _pairs(f"{tool.name} {tool.description}")
    return len(own & _pairs(question)) / (len(own) or 1)


def _pairs(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {word[place : place + 2] for word in words for place in range(len(word) - 1)}


def _arguments(question: str, tool: ToolSpec, words: int) -> Mapping[str, Any]:
    """Fill in the tool's required parameters only."""
    shape = tool.parameters
    required = shape.get("required") or ()
    numbers = iter(_NUMBER.findall(question))
    shapes = shape.get("properties", {})
    return {name: _argument(question, shapes.get(name, {}), numbers, words) for name in required}


def _argument(question: str, shape: Mapping[str, Any], numbers: Iterator[str], words: int) -> Any:
    if shape.get("enum"):
        choices = [choice for choice in shape["enum"] if str(choice).lower() in question.lower()]
        return max(choices, key=lambda choice: len(str(choice))) if choices else shape["enum"][0]
    if shape.get("type") in ("integer", "number"):
        number = float(next(numbers, "1"))
        return int(number) if shape["type"] == "integer" else number
    if shape.get("type") == "boolean":
        return True
    code = _CODE.search(question)
    wants_code = "pattern" in shape or re.search(
        r"코드|심볼|종목|code|symbol", str(shape.get("description", ""))
    )
    quoted = _QUOTED.search(question)
    if code and wants_code:
        text = code[0]
    elif quoted:
        text = quoted[1].strip()
    else:  # the question's first words without their endings
        stems = [_ENDING.sub("", word.strip(",.?!()~")) for word in _ASKING.sub("", question).split()]
        text = " ".join([word for word in stems if len(word) > 1][:words]) or question.strip()
    return [text] if shape.get("type") == "array" else text


RulesPlayer = Callable[[Sequence[ChatMessage], Sequence[ToolSpec]], Move | None]
"""Returns the next move for ``(messages, tools)``, or None."""


class InvalidMove(TrialBroken):
    """A registered player returned something else than a move."""


class RulesChat:
    """Plays by rules if it has tools, and repeats the user's message if it has none.

    ``player_of`` gives the player of an agent with tools of these names; without one, the likeliest tool is
    called.
    """

    def __init__(self, player_of: Callable[[Iterable[str]], RulesPlayer | None]) -> None:
        self._player_of = player_of
        self._numbers = count(1)

    async def ask(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), **_: Any
    ) -> Reply:
        """Give the next reply; a token counts as four characters, and costs nothing."""
        move: object = None
        if tools:
            player = self._player_of(tool.name for tool in tools) or call_likeliest_tool
            move = player(messages, tools)
        if move is None:
            move = Move(last_words(messages))
        if not isinstance(move, Move):
            name = getattr(player, "__qualname__", type(player).__qualname__)
            where = f"the rules player {player.__module__}.{name}"
            raise InvalidMove(f"{where}: expected a Move or None; found {move!r:.200}")
        calls = tuple(
            ToolCall(f"rules_{next(self._numbers)}", 0, index, tool, args)
            for index, (tool, args) in enumerate(move.calls)
        )
        output = move.text + "".join(compact_json(call.args) for call in calls)
        length_read = sum(len(text_of(message)) for message in messages)
        usage = Usage(length_read // 4, len(output) // 4, cost_usd=0.0, asks=1, attempts=1)
        return Reply(move.text, calls, usage, "tool_calls" if calls else "stop")

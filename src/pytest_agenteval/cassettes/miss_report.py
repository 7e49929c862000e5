"""Says what a request asked that no recording answers: the nearest recording, what differs, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from pytest_agenteval.cassettes.interaction import CHAT, TOOL, Request, chat_place, text_of, tool_call
from pytest_agenteval.cassettes.request_identity import address_of, json_body, request_parameters
from pytest_agenteval.text.json_values import equal

LONGEST, COMPARED = 60, 200
CHAT_PLACE = ("role", "model", "repetition", "ask")
NOT_SHOWN = "nothing that is shown here"
_NONE = object()


def describe_request(request: Request) -> str:
    """Name a request in a reader's words: ``search(keyword='x')``, ``agent asks gpt…``."""
    if request.uri.startswith(CHAT):
        role, model, repetition, ask = chat_place(request)
        return f"{role} asks {model} (repetition {repetition}, ask {ask})"
    args = ", ".join(f"{name}={_short(value)}" for name, value in request_parameters(request).items())
    return f"{_address(request)}({args})"


def nearest_recording(missed: Request, same: int, recorded: Sequence[Request]) -> str:
    """Say what the cassette holds instead; ``same`` counts recordings of this very request, all played."""
    if same:
        return f"{_count(same, 'recording')} of this very {_noun(missed)[0]}, played already"
    if not recorded:
        return "no recordings at all"
    return _nearest_ask(missed, recorded) if missed.uri.startswith(CHAT) else _nearest_call(missed, recorded)


def _nearest_call(missed: Request, recorded: Sequence[Request]) -> str:
    alike = [request for request in recorded if _address(request) == _address(missed)]
    noun, place = _noun(missed)
    if not alike:
        others = sorted({_address(request) for request in recorded if not request.uri.startswith(CHAT)})
        return f"no {noun} of this {place}; recorded are: {_some(others)}"
    differs = (
        ", ".join(_differences(request_parameters(missed), request_parameters(_nearest(missed, alike))))
        or NOT_SHOWN
    )
    return f"{_count(len(alike), noun)} of this {place}; the nearest differs in {differs}"


def _nearest(missed: Request, alike: Sequence[Request]) -> Request:
    """Give the request that differs in the fewest arguments, and of several the most similar in its text."""
    parameters = request_parameters(missed)
    apart = [len(list(_differences(parameters, request_parameters(request)))) for request in alike]
    fewest = min(apart)
    ties = [request for request, number in zip(alike, apart, strict=True) if number == fewest]
    return max(ties[:COMPARED], key=lambda request: _similarity(missed, request))


def _similarity(missed: Request, request: Request) -> float:
    ours, theirs = (text_of(side.body)[:500] + side.uri for side in (missed, request))
    return SequenceMatcher(None, ours, theirs, autojunk=False).ratio()


def _differences(args: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterable[str]:
    """Give what differs, with the recorded side of it."""
    for name in [*args, *(name for name in recorded if name not in args)]:
        there = recorded.get(name, _NONE)
        if not _same(args.get(name, _NONE), there):
            yield f"{name}: {'(not given)' if there is _NONE else _short(there)}"


def _same(argument: Any, recorded: Any) -> bool:
    """Compare as a recording is looked for: ``1`` is not ``true``."""
    return argument is recorded or (_NONE not in (argument, recorded) and equal(argument, recorded))


def _nearest_ask(missed: Request, recorded: Sequence[Request]) -> str:
    chats = [request for request in recorded if request.uri.startswith(CHAT)]
    if not chats:
        return "no recorded chats"
    nearest = max(chats, key=lambda request: _agreement(chat_place(missed), chat_place(request)))
    apart = [
        f"{word}: {there}"
        for word, here, there in zip(CHAT_PLACE, chat_place(missed), chat_place(nearest), strict=True)
        if here != there
    ]
    differs = ", ".join(apart or _changes(missed, nearest))
    return f"{_count(len(chats), 'ask')} recorded; the nearest differs in {differs}"


def _agreement(here: Sequence[str], there: Sequence[str]) -> tuple[int, int]:
    """Prefer the same role, then as many other parts as agree; of asks, the nearest number."""
    agreed = sum(left == right for left, right in zip(here, there, strict=True)) + 4 * (here[0] == there[0])
    return agreed, -abs(int(here[3]) - int(there[3]))


def _changes(missed: Request, recorded: Request) -> list[str]:
    """Say which parts of an ask changed: the first message, the names of tools, the settings."""
    ours, theirs = json_body(missed), json_body(recorded)
    changes: list[str] = []
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(name), theirs.get(name)
        if here != there:
            changes += _change(name, here, there)
    return changes or [NOT_SHOWN]


def _change(name: str, here: Any, there: Any) -> Iterable[str]:
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        return [f"{name}.{part}" for part in _differences(here, there)]
    if isinstance(here, list) and isinstance(there, list):
        return [_first_change(name, here, there)]
    return [f"{name}: {_short(there)}"]


def _first_change(name: str, here: list[Any], there: list[Any]) -> str:
    at = next((i for i, (left, right) in enumerate(zip(here, there, strict=False)) if left != right), None)
    if at is None:
        return f"{name}: {len(there)} of them, not {len(here)}"
    left, right = here[at], there[at]
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        return f"{name}[{at}]: {_short(right)}"
    return f"{name}[{at}].{next(iter(_differences(left, right)))}"


def _address(request: Request) -> str:
    if request.uri.startswith(TOOL):
        return tool_call(request)[0]
    return " ".join(address_of(request))


def _noun(request: Request) -> tuple[str, str]:
    if request.uri.startswith(CHAT):
        return "ask", "chat"
    return ("call", "tool") if request.uri.startswith(TOOL) else ("request", "address")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (", ".join(names[:5]) or "(none)") + more


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

"""When a recorded request answers another one, and how it is found.

Two requests are equal whatever the order of keys and parameters. A tool's ``matching`` adds a rule for each
parameter; calls that it accepts are found by an index."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    NOTHING,
    TOOL,
    Interaction,
    Request,
    http_request_of,
    text_of,
    tool_call,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import (
    canonical_json,
    fold_compact,
    json_equal,
    number_of,
    text_digest,
    whole_numbers,
)

MATCHER_WORDS = ("exact", "folded", "ignore", "contains")
MATCHER_RULES = "exact, folded, ignore, contains or {number: TOLERANCE}"
_NONE = object()


class ParamMatcher(FrozenValue, frozen=True):
    """One of the four words, or ``number`` with how far two numbers may be apart."""

    word: str
    tolerance: Decimal = Decimal(0)

    def same(self, recorded: Any, argument: Any) -> bool:
        if self.word == "ignore" or json_equal(recorded, argument):
            return True
        if self.word == "folded":
            return json_equal(_folded(recorded), _folded(argument))
        if self.word == "contains":
            if not isinstance(recorded, str) or not isinstance(argument, str):
                return False
            there, here = _folded(recorded), _folded(argument)
            # An empty text is part of every other one: it would answer every search.
            return there == here or (bool(there and here) and (there in here or here in there))
        return self.word == "number" and _numbers_apart(recorded, argument) <= self.tolerance


EXACT = ParamMatcher("exact")
FAR = Decimal("Infinity")
Nearness: TypeAlias = tuple[bool, int, int, Decimal]


class ParamMatchers:
    """What a tool's ``matching`` says, by parameter; ``exact`` where it says nothing.

    ``folded`` leaves out case, width and all white space, ``contains`` asks that one text be found in the
    other once both are folded, ``{"number": 0.001}`` lets numbers, and texts that are numbers, be that far
    apart, ``ignore`` takes any value, and none. A parameter that only one side has differs otherwise.
    """

    def __init__(self, matching: Mapping[str, Any] = NOTHING, *, where: str = "matching") -> None:
        self._rules = {name: _read_matcher(rule, f"{where}.{name}") for name, rule in matching.items()}
        self.ident = canonical_json(matching)
        self._folded = {name for name, rule in self._rules.items() if rule.word == "folded"}
        self._texts = [name for name, rule in self._rules.items() if rule.word == "contains"]
        self._numbers = [name for name, rule in self._rules.items() if rule.word == "number"]
        # Only under these two rules does one value alone decide which others are the same.
        self._left_out = {name for name, rule in self._rules.items() if rule.word not in ("exact", "folded")}

    def key(self, args: Mapping[str, Any]) -> Hashable:
        """Give what accepted calls share: the parameters whose rule needs one value alone."""
        shared = {name: value for name, value in args.items() if name not in self._left_out}
        for name, value in shared.items():
            shared[name] = _folded(value) if name in self._folded else whole_numbers(value)
        return canonical_json(shared)

    def accepts(self, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
        return all(self._same(name, recorded, args) for name in recorded.keys() | args.keys())

    def nearness(self, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> Nearness:
        """Rank accepted calls: equal in all, in how many parameters, how near in their texts and numbers."""
        same = sum(name in recorded and json_equal(recorded[name], value) for name, value in args.items())
        texts = [(_folded(recorded[name]), _folded(args[name])) for name in self._texts if name in args]
        letters = sum(abs(len(there) - len(here)) for there, here in texts)
        numbers = (_numbers_apart(recorded[name], args[name]) for name in self._numbers if name in args)
        return same == len(recorded.keys() | args.keys()), same, -letters, -sum(numbers, Decimal(0))

    def ignores(self, name: str) -> bool:
        return self._rules.get(name, EXACT).word == "ignore"

    def _same(self, name: str, recorded: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
        rule = self._rules.get(name, EXACT)
        if rule.word == "ignore":
            return True
        there, here = recorded.get(name, _NONE), args.get(name, _NONE)
        return there is not _NONE and here is not _NONE and rule.same(there, here)


def _folded(value: Any) -> Any:
    """Give texts without case, width and white space, also those in lists; other values stay."""
    if isinstance(value, str):
        return fold_compact(value)
    return [_folded(item) for item in value] if isinstance(value, list | tuple) else whole_numbers(value)


def _numbers_apart(recorded: Any, argument: Any) -> Decimal:
    there, here = number_of(recorded), number_of(argument)
    return FAR if there is None or here is None else abs(there - here)


def _read_matcher(rule: Any, place: str) -> ParamMatcher:
    if isinstance(rule, str) and rule in MATCHER_WORDS:
        return ParamMatcher(rule)
    if isinstance(rule, Mapping) and list(rule) == ["number"]:
        value = rule["number"]
        # ``true`` is an int in Python; no distance is ever within NaN, and any is within infinity.
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if is_number and value >= 0:
            # By way of its text: Decimal(0.1) is not 0.1.
            return ParamMatcher("number", Decimal(str(value)))
        raise UsageMistake(f"{place}: number is how far two numbers may be apart, 0 or more, not {value!r}")
    hint = did_you_mean(rule, MATCHER_WORDS) if isinstance(rule, str) else ""
    if rule == "number":
        hint = "set how far two numbers may be apart: {number: 0.001}"
    raise UsageMistake(f"{place}: a rule is {MATCHER_RULES}, not {rule!r}{f'; {hint}' if hint else ''}")


EndpointKey: TypeAlias = tuple[str, str]
RequestKey: TypeAlias = tuple[str, str, str]
CallArgs: TypeAlias = Mapping[str, Any]

_FORM = re.compile(r"[\w.%+*\[\]-]+=[^\s{}\"<>]*")


class CallMatcher(FrozenValue, frozen=True):
    """How the arguments of calls are read out of requests, and when two calls are the same.

    ``read`` gives None for a request that is not this tool's. Those of equal ``ident`` read alike.
    """

    ident: Hashable
    read: Callable[[Request], CallArgs | None]
    matchers: ParamMatchers


def http_request_matcher(matchers: ParamMatchers) -> CallMatcher:
    """Compare any HTTP request: its address, and by name the parameters of its query and of its body."""

    def read(request: Request) -> CallArgs | None:
        if request.uri.startswith((TOOL, CHAT)):
            return None
        # No parameter has the empty name. A parameter of a body is not the same one of a query.
        return {**request_parameters(request), "": [*address_of(request), bool(request.body)]}

    return CallMatcher(("HTTP", matchers.ident), read, matchers)


def address_of(request: Request) -> EndpointKey:
    """Give method and URI without query and fragment: what requests to one tool or endpoint share."""
    return request.method.upper(), _split_uri(request.uri)[0]


def key_of(request: Request) -> RequestKey:
    """Give what equal requests share; headers tell of the client, not of the question, and are left out."""
    global _latest
    known, key = _latest
    # Remembered, as a request that is recorded needs its key twice, and a prompt may be long.
    if known is not request:
        address, query, fragment = _split_uri(request.uri)
        parameters = _in_order(query) + (f"#{_in_order(fragment)}" if fragment else "")
        body = text_of(request.body)
        # JSON with other white space, or with its keys in another order, is the same body.
        if body[:1] in ("{", "[") or body[:1].isspace():
            with suppress(ValueError, RecursionError):
                body = canonical_json(json.loads(body))
        key = request.method.upper(), address, text_digest(f"{parameters}\n{body}")
        _latest = request, key
    return key


_latest: tuple[Request | None, RequestKey] = (None, ("", "", ""))


def request_parameters(request: Request) -> dict[str, Any]:
    """Give the arguments of a tool's call, or the parameters and body of an HTTP request, by name.

    A name that occurs several times has the list of its values.
    """
    if request.uri.startswith(TOOL):
        return tool_call(request)[1]
    _, query, fragment = _split_uri(request.uri)
    text, body = text_of(request.body), json_body(request)
    of_body: Iterable[tuple[str, Any]] = [("body", text)] if text else ()
    if isinstance(body, dict):
        of_body = body.items()
    elif _FORM.fullmatch(text):
        of_body = _pairs(text)
    values_of: dict[str, list[Any]] = {}
    for name, value in (*_pairs(query), *_pairs(fragment), *of_body):
        values_of.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in values_of.items()}


def json_body(request: Request) -> Any:
    """Read a body of JSON; None for any other, and for NaN, which Python reads and nobody can compare."""
    try:
        value = json.loads(text_of(request.body))
        canonical_json(value)
    except (ValueError, RecursionError):
        return None
    return value


def _split_uri(uri: str) -> tuple[str, str, str]:
    # Not urlsplit: it strips, or refuses, characters that stand in recorded addresses.
    before_fragment, _, fragment = uri.partition("#")
    address, _, query = before_fragment.partition("?")
    return address, query, fragment


def _in_order(pairs: str) -> str:
    return "&".join(sorted(pairs.split("&")))


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """Read a query or a form; words in EUC-KR are no UTF-8, and stay different words."""
    return parse_qsl(text, True, errors="surrogateescape")


InteractionSlot: TypeAlias = int
"""The place of an interaction in its cassette: it never changes, so a tape can note what it has played."""


class InteractionIndex:
    """The interactions of one cassette, by slot, by equal request and by the arguments of a tool's calls."""

    def __init__(self) -> None:
        self._interactions: list[Interaction] = []
        self._by_request: dict[RequestKey, list[InteractionSlot]] = defaultdict(list)
        self._candidates: dict[Hashable, CallIndex] = {}

    def __len__(self) -> int:
        return len(self._interactions)

    def __getitem__(self, slot: InteractionSlot) -> Interaction:
        return self._interactions[slot]

    def append(self, interaction: Interaction) -> InteractionSlot:
        slot = len(self._interactions)
        self._interactions.append(interaction)
        self._by_request[key_of(interaction.request)].append(slot)
        # A call of a tool is found by the request that it made, too.
        if (sent := http_request_of(interaction.response)) is not None:
            self._by_request[key_of(sent)].append(slot)
        return slot

    def replace_response(self, slot: InteractionSlot, interaction: Interaction) -> Interaction:
        """Put an interaction of the same request into a slot."""
        self._interactions[slot] = interaction
        return interaction

    def by_request(self, key: RequestKey) -> Sequence[InteractionSlot]:
        """Give the slots of equal requests, in the order in which they were recorded."""
        return self._by_request.get(key, ())

    def by_call(self, matcher: CallMatcher) -> CallIndex:
        """Give the index of one tool's calls, made at first use and up to date."""
        index = self._candidates.get(matcher.ident)
        if index is None:
            index = self._candidates[matcher.ident] = CallIndex(matcher)
        index.take_in(self._interactions)
        return index

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(interaction.request for interaction in self._interactions)


class CallIndex:
    """One tool's calls in one cassette, by the parameters with the rule ``exact`` or ``folded``.

    Calls of other buckets are not looked at. Parameters with the rules ``contains`` and ``number`` are
    compared within a bucket.
    """

    def __init__(self, matcher: CallMatcher) -> None:
        self._matcher = matcher
        self._buckets: dict[Hashable, list[InteractionSlot]] = defaultdict(list)
        self._args: dict[InteractionSlot, CallArgs] = {}
        self._seen = 0

    def take_in(self, interactions: Sequence[Interaction]) -> None:
        for slot in range(self._seen, len(interactions)):
            args = self._matcher.read(interactions[slot].request)
            if args is not None:
                self._args[slot] = args
                self._buckets[self._matcher.matchers.key(args)].append(slot)
        self._seen = len(interactions)

    def candidates(self, args: CallArgs) -> Sequence[InteractionSlot]:
        """Give the slots of calls that may be accepted for these arguments, in order of recording."""
        return self._buckets.get(self._matcher.matchers.key(args), ())

    def args(self, slot: InteractionSlot) -> CallArgs:
        return self._args[slot]

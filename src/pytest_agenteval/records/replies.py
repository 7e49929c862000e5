"""Reads what every model's reply has: its text and thoughts, its token counts, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import UNREAD_USAGE, Usage

# More tokens than any model reads or writes in one reply: a larger count is wrong.
MOST_TOKENS = 10**9

# The usage of a reply whose tokens and price are both unknown.
UNKNOWN = UNREAD_USAGE


class PricedApart(FrozenValue, frozen=True):
    """Tokens of one reply that have prices of their own; its usage counts them with all others.

    ``hour_writes`` are those of ``cache_writes`` that last for an hour. ``service_tier`` is the provider's
    name for how quickly it answered, where that has a price.
    """

    cache_writes: int = 0
    hour_writes: int = 0
    audio_input: int = 0
    audio_output: int = 0
    service_tier: str = ""


# Why replies end, by what providers, servers and gateways call it.
FINISHES: Mapping[str, str] = {
    word: finish
    for finish, words in {
        "stop": "stop end_turn eos eos_token stop_sequence",
        "tool_calls": "tool_calls function_call tool_use tool_call",
        "length": "length max_tokens max_output_tokens model_length model_context_window_exceeded",
        "content_filter": "content_filter content_filtered guardrail_intervened refusal",
    }.items()
    for word in words.split()
}


# The finish reason of a reply that breaks off, even if it is a refusal.
INCOMPLETE = "incomplete"


def finish_of(reason: str, *, calls: bool, refused: bool = False) -> str:
    """Give the reason for the end of a reply in one word for all providers; an unknown one is unchanged."""
    refused = refused and reason != INCOMPLETE
    finish = "content_filter" if refused else FINISHES.get(reason or "stop", reason or "stop")
    # Some providers write stop also for a reply with calls.
    return "tool_calls" if calls and finish == "stop" else finish


def credible_usage(usage: Usage) -> Usage:
    """Give the usage of one reply; counts and costs that are impossible become unknown.

    A count below 0 would lower the sums that it is added to.
    """
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    for count in counts:
        # To Python True is an int.
        if count is not None and not (type(count) is int and 0 <= count <= MOST_TOKENS):
            return UNKNOWN
    cost = usage.cost_usd
    priced = cost is None or (isfinite(cost) and cost >= 0)
    return usage if priced else Usage(*counts, None, usage.asks, usage.attempts)


class SplitReply(NamedTuple):
    """The answer of a model, and its thoughts before that."""

    text: str
    reasoning: str


def split_thoughts(text: str) -> SplitReply:
    """Separate a model's thoughts from its answer, by the marks that servers without a parser leave.

    A closing mark alone ends a thought that the prompt began. A thought that is never closed reaches to the
    end. A mark in the middle of a line opens a thought only if that thought is closed.

    A quoted mark is text: within code, between quotation marks, as `<think> and </think>` in a sentence, or
    in a reply that begins as JSON or as a block of code.
    """
    if _DATA_BEGINS.match(text):
        return SplitReply(text, "")
    # The plain look comes first: few models write these messages.
    if _HARMONY.search(_without_quotes(text)) if "<|channel|>" in text else None:
        thoughts, spoken = [], []
        for each in harmony_messages(text):
            if each.channel == "analysis" and not each.recipient:
                thoughts.append(each.body)
            else:
                spoken.append(each.written if each.recipient else each.body)
        answer = "\n".join(filter(None, map(str.strip, spoken)))
        return SplitReply(answer, _joined_thoughts(thoughts))
    if stripped := _STRIPPED_HARMONY.match(text):
        return SplitReply(stripped[2], stripped[1].strip())
    marks = _marks(text) if _MARK.search(text) else []
    return _split_at(text, marks) if marks else SplitReply(text, "")


class _Mark(NamedTuple):
    """A mark that opens or closes a thought; ``kind`` is the same for both."""

    start: int
    end: int
    kind: str
    closes: bool


# Marks of DeepSeek, Qwen and others (<think>), Mistral ([think]), Kimi, Cohere (start_thinking) and Gemma.
_MARK = re.compile(
    r"<(?P<slash>/?)(?P<tag>(?:\w{1,20}:)?think(?:ing)?|thought)>|\[(?P<bracket>/?)think\]"
    r"|◁(?P<triangle>/?)think▷|<\|(?P<word>begin|start|end)_(?:of_thought|thinking)\|>"
    r"|<\|channel>thought\b|(?P<gemma><channel\|>)",
    re.I,
)
# What may end a thought, with or without escapes: an alternative for each mark that ``split_thoughts`` knows.
ENDS_THOUGHTS = re.compile(
    r"/(?:\w{1,20}:)?(?:think|thought)|end_(?:of_thought|thinking)|channel\|>|assistantfinal", re.I
)
_TAGS = ("think", "thinking", "thought")
# Both marks named in one sentence: ``<think> and </think>``, ``<think>...</think>``.
_NAMED = re.compile(
    r"(?<=\S )<((?:\w{1,20}:)?think(?:ing)?|thought)>(?: ?\S{1,4} | ?(?:\.{3}|…|[/,&])? ?)</\1>", re.I
)
_DATA_BEGINS = re.compile(r"\s*(?:\{|\[(?!/?think\])|`{3}|~{3})", re.I)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_QUOTATION_MARKS = frozenset(('""', "''", "“”", "‘’", "«»", "「」"))
# What is left of GPT-OSS's marks if a server removes special tokens.
_STRIPPED_HARMONY = re.compile(r"\s*analysis(?=[^\s:])(.*)assistantfinal(.*)", re.S)


def _split_at(text: str, marks: Sequence[_Mark]) -> SplitReply:
    answer: list[str] = []
    thoughts: list[str] = []
    last_closing = {mark.kind: mark.start for mark in marks if mark.closes}
    opened, begin, blocks, nested = "", 0, 0, 0
    # No line is read twice: a model may repeat a mark for ever.
    line_read_to, line_is_blank = 0, True
    for mark in marks:
        if opened:
            # A thought may be opened twice: by the prompt's template, and by the model.
            nested += not mark.closes and mark.kind == opened
            if not mark.closes or mark.kind != opened:
                continue
            thoughts.append(text[begin : mark.start])
            opened, blocks = "", blocks + 1
        elif mark.closes:
            # Behind the end of thoughts, an answer names the mark.
            if blocks and not nested:
                continue
            nested = max(0, nested - 1)
            # A closing mark alone: all text before it was a thought, which the prompt began.
            thoughts.append("".join(answer) + text[begin : mark.start])
            answer, line_is_blank = [], True
        else:
            _, newline, line = text[line_read_to : mark.start].rpartition("\n")
            line_is_blank = not line.strip() and (line_is_blank or bool(newline))
            line_read_to = mark.start
            # Within a line, a mark that is never closed is text.
            if not line_is_blank and last_closing.get(mark.kind, -1) < mark.start:
                continue
            answer.append(text[begin : mark.start])
            opened = mark.kind
        begin = line_read_to = mark.end
    (thoughts if opened else answer).append(text[begin:])
    return SplitReply("".join(answer), _joined_thoughts(thoughts))


def _joined_thoughts(thoughts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, map(str.strip, thoughts)))


def _marks(text: str) -> list[_Mark]:
    """Find the marks of thoughts that are not quoted.

    A block of code that a thought does not close may reach into the answer. So, where a reply begins with a
    thought, a closing mark within code counts if there is no other.
    """
    marks = list(_marks_in(_without_quotes(text)))
    begins = bool(marks) and not text[: marks[0].start].strip()
    if begins and not any(mark.closes for mark in marks):
        marks = list(_marks_in(text))
    tags = [mark for mark in marks if mark.kind.endswith(_TAGS)]
    if {mark.kind for mark in tags if not mark.closes} <= {mark.kind for mark in tags if mark.closes}:
        return marks
    # A mark is closed in another spelling, as in <think>...</thinking>, or not at all.
    return [mark._replace(kind="think") if mark.kind.endswith(_TAGS) else mark for mark in marks]


def _marks_in(text: str) -> Iterator[_Mark]:
    for match in _MARK.finditer(text):
        start, end = match.span()
        if text[max(0, start - 1) : start] + text[end : end + 1] in _QUOTATION_MARKS:
            continue
        groups = match.groupdict()
        slashes = (groups[name] for name in ("slash", "bracket", "triangle"))
        closes = "/" in slashes or groups["gemma"] is not None or (groups["word"] or "").lower() == "end"
        kind = next((name for name in ("bracket", "triangle", "word") if groups[name] is not None), "gemma")
        yield _Mark(start, end, (groups["tag"] or kind).lower(), closes)


def _without_quotes(text: str) -> str:
    """Give the text with blanks in place of code and of named marks, so that all places stay the same."""
    lines = text.split("\n")
    fence, opened = "", 0
    for at, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        closes = bool(fence) and match[1].startswith(fence) and not match[2].strip()
        if closes:
            lines[opened : at + 1] = [" " * len(each) for each in lines[opened : at + 1]]
            fence = ""
        # Where the same fence opens a second time, the first one was never closed.
        elif "`" not in match[2] and (not fence or match[1] == fence):
            fence, opened = match[1], at
    text = _INLINE_CODE.sub(lambda match: " " * len(match[0]), "\n".join(lines))
    return _NAMED.sub(lambda match: " " * len(match[0]), text)


class HarmonyMessage(NamedTuple):
    """One message of GPT-OSS's harmony; ``recipient`` is the tool that it is for, or empty."""

    channel: str
    recipient: str
    body: str
    written: str


_HARMONY = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]*))?<\|channel\|>(?P<header>[^<]*(?:<\|constrain\|>[^<]*)?)"
    r"<\|message\|>(?P<body>.*?)(?:<\|end\|>|<\|call\|>|<\|return\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.-]+)")


def harmony_messages(text: str) -> list[HarmonyMessage]:
    """Read a reply of several messages, each on a channel and for a recipient.

    Text outside of them is a message without a channel, which is then the first of the list.
    """
    messages = []
    for match in _HARMONY.finditer(text):
        recipient = _RECIPIENT.search(f"{match['role'] or ''} {match['header']}")
        channel = next(iter(match["header"].split()), "")
        tool = recipient[1] if recipient and recipient[1] not in ("user", "assistant") else ""
        messages.append(HarmonyMessage(channel, tool, match["body"], match[0]))
    outside = _HARMONY.sub("", text)
    return [HarmonyMessage("", "", outside, outside), *messages] if outside.strip() else messages

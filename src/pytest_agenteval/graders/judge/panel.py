"""Asking judges: side by side, each by itself, and what they find together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pytest_agenteval.canonical import digest
from pytest_agenteval.chat.chat import Chat, ChatMessage, ChatSettings
from pytest_agenteval.errors import ProviderDown, TrialBroken
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.aggregation import Judgement, Vote, no_judgement
from pytest_agenteval.graders.judge.prompt import Rubric
from pytest_agenteval.graders.judge.reply_parser import UnreadableReply, Verdict, parse_reply

MAX_TOKENS = 2000
SETTINGS = ChatSettings(temperature=0, max_tokens=MAX_TOKENS)
EMPTY = "(an empty reply)"

Parsed = TypeVar("Parsed")


async def ask_judges(
    rubric: Rubric,
    values: Mapping[str, str],
    judges: Sequence[Judge],
    *,
    seed: str = "",
    parse: Callable[[str, Rubric], Verdict] = parse_reply,
    repair: bool = True,
    skip_unreachable: bool = False,
) -> Judgement:
    """Ask every judge about one thing, side by side, and give their votes.

    ``parse`` reads a reply, or raises UnreadableReply. Such a reply is asked for once more, unless ``repair``
    is false; then it is a vote of nothing with its problem. A provider's failure (ProviderDown) is raised,
    after the others are done; with ``skip_unreachable`` it is such a vote too, and raised only where nobody
    else could tell. A chat holds one of these conversations at a time, so that its asks have the same numbers
    when they are replayed: who wants them side by side takes several chats.
    """
    messages = rubric.messages(values)
    unreachable: list[ProviderDown] = []

    async def vote_of(judge: Judge) -> Vote:
        try:
            verdict, raw, problem = await ask_judge(
                judge, rubric, messages, rubric.schema(), lambda reply: parse(reply, rubric), repair=repair
            )
        except ProviderDown as down:
            if not skip_unreachable:
                raise
            unreachable.append(down)
            return Vote(judge.model.name, no_judgement(rubric), problem=str(down))
        if verdict is None:
            return Vote(judge.model.name, no_judgement(rubric), raw=raw, problem=problem)
        return Vote(judge.model.name, verdict.scores, verdict.rationale, raw)

    votes = await gather_all(map(vote_of, judges))
    judgement = Judgement(rubric, tuple(votes), digest(messages), seed)
    if unreachable and judgement.score is None:
        raise unreachable[0]
    return judgement


async def ask_judge(
    judge: Judge,
    rubric: Rubric,
    messages: Sequence[ChatMessage],
    schema: Mapping[str, Any],
    read: Callable[[str], Parsed],
    *,
    repair: bool = True,
) -> tuple[Parsed | None, tuple[str, ...], str]:
    """Ask one judge, where needed once more; give what was read or None, all replies, and the problem."""
    raw: list[str] = []
    problem = ""
    async with _turn(judge.chat):
        for _ in range(2 if repair else 1):
            if raw:
                # Providers take no empty message.
                answer = {"role": "assistant", "content": raw[-1].strip() or EMPTY}
                messages = [*messages, answer, rubric.once_more(problem)]
            reply = await judge.chat.ask(messages, response_schema=schema, settings=SETTINGS)
            raw.append(reply.text)
            try:
                return read(reply.text), tuple(raw), ""
            except UnreadableReply as unreadable:
                cut = f"; it was cut off after {MAX_TOKENS} tokens" if reply.finish == "length" else ""
                problem = f"{unreadable}{cut}"
    return None, tuple(raw), problem


async def gather_all(asked: Iterable[Coroutine[Any, Any, Parsed]]) -> list[Parsed]:
    """Wait for all, also where one fails; then raise what broke the trial, else what else failed."""
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    failed = [each for each in outcomes if isinstance(each, BaseException)]
    if failed:
        raise next((each for each in failed if isinstance(each, TrialBroken)), failed[0])
    return [each for each in outcomes if not isinstance(each, BaseException)]


_turns: dict[int, tuple[asyncio.Lock, int]] = {}


@asynccontextmanager
async def _turn(chat: Chat) -> AsyncIterator[None]:
    """Hold a chat for one conversation; those who wait get it in the order in which they came.

    Several graders of one trial ask through the same chats. Were their asks mixed, a second ask of one of
    them would get its number by the time a reply took, and no replay could find it again.
    """
    lock, users = _turns.get(id(chat), (asyncio.Lock(), 0))
    _turns[id(chat)] = lock, users + 1
    try:
        async with lock:
            yield
    finally:
        lock, users = _turns.pop(id(chat))
        if users > 1:
            _turns[id(chat)] = lock, users - 1

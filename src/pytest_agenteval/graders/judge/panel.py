"""Requests to judges: to one or several, about one answer or about candidates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.graders.grader import Judge
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.graders.judge.verdicts import (
    Judgement,
    UnreadableReply,
    Verdict,
    Vote,
    no_judgement,
    parse_comparison,
    parse_reply,
)
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import ProviderDown, TrialBroken
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import json_digest

MOST_OF_REPLY = 120
"""Characters of a reply without a verdict that its problem quotes."""


class ShownValues(FrozenValue, frozen=True):
    """A rubric, and the values by name that a grader puts into it."""

    rubric: Rubric
    values: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Equal for two of these where judges would be shown the same."""
        return json_digest([self.rubric.digest(), dict(self.values)])


class SilentJudge:
    """A judge that records what it is shown and returns an empty reply, so that no grade comes of it.

    A grader that runs with it shows what judges of this evidence would see: the same values with the same
    cuts, because they come the same way. ``agenteval review`` shows them to a person.
    """

    def __init__(self) -> None:
        self.shown: list[ShownValues] = []

    @property
    def model(self) -> Model:
        return Model("nobody", "nobody", offline=True)

    @property
    def chat(self) -> SilentJudge:
        return self

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        return Reply("")


def note_shown(judges: Iterable[Judge], rubric: Rubric, values: Mapping[str, str]) -> None:
    """Record the values with every silent judge, before they are written into a prompt."""
    for judge in judges:
        if isinstance(judge, SilentJudge):
            judge.shown.append(ShownValues(rubric, dict(values)))


MAX_TOKENS = 2000
SETTINGS = ChatSettings(temperature=0, max_tokens=MAX_TOKENS)
EMPTY = "(an empty reply)"

Parsed = TypeVar("Parsed")
# Keyed by identity: a chat class of a user may define equality, or have no hash. Who waits holds the chat, so
# no other object can have its id meanwhile.
_turns: dict[int, tuple[asyncio.Lock, int]] = {}


async def ask_judges(
    rubric: Rubric,
    values: Mapping[str, str],
    judges: Sequence[Judge],
    *,
    seed: str = "",
    parse: Callable[[str, Rubric], Verdict] | None = None,
    repair: bool = True,
    skip_unreachable: bool = False,
) -> Judgement:
    """Ask all judges in parallel; return their votes.

    ``parse`` reads a reply, or raises UnreadableReply; without it, a verdict quoted from ``values`` is not
    read as the judge's. An unreadable reply is requested once more, unless ``repair`` is false. A judge
    without a readable reply has a vote without scores that names the problem.

    A provider's failure (ProviderDown) is raised after the other judges are done. With ``skip_unreachable``
    it becomes such a vote, too, and is raised only where no other judge could tell.

    A chat holds one of these conversations at a time, so that its requests have the same numbers when they
    are replayed: several at once need several chats.
    """
    messages = rubric.messages(values)
    note_shown(judges, rubric, values)
    unreachable: list[ProviderDown] = []
    parser = parse or partial(parse_reply, material=tuple(values.values()))

    async def vote_of(judge: Judge) -> Vote:
        try:
            verdict, raw, problem = await ask_judge(
                judge, rubric, messages, rubric.schema(), lambda reply: parser(reply, rubric), repair=repair
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
    judgement = Judgement(rubric, tuple(votes), json_digest(messages), seed)
    # Where the others decided, an unreachable judge is no more than a vote with a problem.
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
    """Ask one judge, and once more where its first reply cannot be read and ``repair`` is true.

    Returns what was read, all replies, and the problem with the beginning of the last reply. What was read
    is None where no reply could be read; the problem is empty where one could.
    """
    raw: list[str] = []
    problem = ""
    async with _turn(judge.chat):
        # One repair and no more: a judge that cannot be read twice gives no score, and nothing is guessed.
        for _ in range(2 if repair else 1):
            if raw:
                # Providers refuse empty messages, so a remark stands for an empty reply.
                answer = {"role": "assistant", "content": raw[-1].strip() or EMPTY}
                messages = [*messages, answer, rubric.once_more(problem)]
            reply = await judge.chat.ask(messages, response_schema=schema, settings=SETTINGS)
            raw.append(reply.text)
            try:
                return read(reply.text), tuple(raw), ""
            except UnreadableReply as unreadable:
                cut = f"; it was cut off after {MAX_TOKENS} tokens" if reply.finish == "length" else ""
                problem = f"{unreadable}{cut}"
    return None, tuple(raw), f"{problem}; the reply was {_quote(raw[-1])}"


def _quote(reply: str) -> str:
    # A blank at an end, and a line break, are part of what could not be read.
    return one_line(repr(reply[:MOST_OF_REPLY]), MOST_OF_REPLY)


async def gather_all(asks: Iterable[Coroutine[Any, Any, Parsed]]) -> list[Parsed]:
    """Wait for all, even where one fails; then raise a TrialBroken, else the first other error."""
    # With return_exceptions, because gather would else raise while other requests go on behind the trial.
    outcomes = await asyncio.gather(*asks, return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failed:
        # Of a spent limit and a provider that is down, the second decides how the trial ends.
        raise next((error for error in failed if isinstance(error, TrialBroken)), failed[0])
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


@asynccontextmanager
async def _turn(chat: Chat) -> AsyncIterator[None]:
    """Hold a chat for one conversation; those who wait get it in the order in which they came.

    Several graders of one trial use the same chats. If their requests mixed, the number of a second request
    would depend on how long replies took, and no replay could find it again.
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


class CandidateComparison(FrozenValue, frozen=True):
    """What all judges found of each candidate, by its real name."""

    judgements: Mapping[str, Judgement]

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Each candidate's mean over the dimensions that could be decided for all; None where none could."""
        all_of = [judgement.scores for judgement in self.judgements.values()]
        dimensions = [name for name in all_of[0] if all(scores[name] is not None for scores in all_of)]
        means = {}
        for name, judgement in self.judgements.items():
            decided = [judgement.scores[dimension] or 0.0 for dimension in dimensions]
            means[name] = sum(decided) / len(decided) if decided else None
        return means

    def preference(self, candidate: str) -> float | None:
        """Return 1 if it beats all others, 0.5 if it shares the first place, else 0; None for unknown."""
        scores = self.scores
        own = scores[candidate]
        others = [score for name, score in scores.items() if name != candidate and score is not None]
        if own is None:
            return None
        best = max(others)
        return 0.5 if abs(own - best) <= ROUNDING else float(own > best)

    def as_details(self) -> dict[str, Any]:
        """Give everything about the comparison as JSON; a judge's replies appear once."""
        first = next(iter(self.judgements.values()))
        # The first judgement stands for what all have in common; the spread is each candidate's own, below.
        details = {key: value for key, value in first.as_details().items() if key != "spread"}
        candidates = {
            name: {"scores": dict(judgement.scores), "spread": dict(judgement.spread)}
            for name, judgement in self.judgements.items()
        }
        votes = [
            {
                **vote.as_details(),
                "scores": {name: dict(other.votes[at].scores) for name, other in self.judgements.items()},
            }
            for at, vote in enumerate(first.votes)
        ]
        return {**details, "scores": dict(self.scores), "candidates": candidates, "votes": votes}


async def compare(
    rubric: Rubric,
    values: Mapping[str, str],
    candidates: Mapping[str, str],
    judges: Sequence[Judge],
    *,
    seed: str = "",
) -> CandidateComparison:
    """Ask every judge about all candidates, which are given by name; see ``ask_judges``.

    Judges are called side by side. Each sees the candidates in an order of its own, drawn with ``seed``.
    """
    # Of the candidates by name and not of a prompt: each judge gets them in another order.
    content = json_digest([rubric.digest(), dict(values), dict(candidates)])
    material = (*values.values(), *candidates.values())

    async def ballot_of(judge: Judge) -> Mapping[str, Vote]:
        who = judge.model.name
        order_seed = json_digest([content, who, seed])
        order = shuffled_names(candidates, order_seed)
        messages = rubric.messages(values, candidates=[candidates[name] for name in order])
        parser = partial(parse_comparison, rubric=rubric, candidates=len(order), material=material)
        schema = rubric.schema(len(order))
        verdicts, raw, problem = await ask_judge(judge, rubric, messages, schema, parser)
        if verdicts is None:
            none = no_judgement(rubric)
            return {name: Vote(who, none, "", raw, problem, order, order_seed) for name in order}
        return {
            name: Vote(who, verdict.scores, verdict.rationale, raw, "", order, order_seed)
            for name, verdict in zip(order, verdicts, strict=True)
        }

    ballots = await gather_all(map(ballot_of, judges))
    found = {
        name: Judgement(rubric, tuple(each[name] for each in ballots), content, seed) for name in candidates
    }
    return CandidateComparison(found)


def shuffled_names(candidates: Mapping[str, str], seed: str) -> tuple[str, ...]:
    """Give the names in an order that depends only on names and seed."""
    # Sorted first, so that the order in which the task lists them changes nothing.
    names = sorted(candidates)
    Random(seed).shuffle(names)
    return tuple(names)

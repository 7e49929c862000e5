"""The user messages of a trial: those that the task holds, or those of a model that plays a person."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.agents.loop import user_messages
from pytest_agenteval.chat.chat import Chat, ChatMessage
from pytest_agenteval.processes.threads import on_loop
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import read_json
from pytest_agenteval.text.errors import LimitReached, ProblemsFound, TrialBroken

# The kind of event that says why a simulated user sends no more messages.
USER_LEFT = "user_left"
# How often a simulated user speaks, including the opening words, if the task sets no number.
MOST_TURNS = 10
# How many replies are read for one turn of a simulated user, before it is given up as unreadable.
MOST_TRIES = 2

_SCHEMA = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "message": {"type": "string"}},
    "required": ["done", "message"],
    "additionalProperties": False,
}
_ROLE = """\
You play a person who talks to an assistant. Stay this person; never speak as the assistant, never say that \
you play.

Who you are: {persona}
What you want: {goal}
You are done when: {stop}

Say one short message at a time, as this person would write it. Tell what you know when you are asked for \
it, and not before; what you were not told here you do not know. Answer with a JSON object and nothing else: \
{{"done": false, "message": "what you say next"}}, or {{"done": true, "message": ""}} once you are done."""
_AGAIN = 'Answer with a JSON object and nothing else: {"done": true or false, "message": "..."}'


class SimulatedUserBroken(TrialBroken):
    """The model that plays the user returned nothing readable, or could not be reached."""

    cause = "simulated_user"


class UserTurns:
    """The task's user messages: each call returns the next one, or None if there are no more.

    The caller passes what was ``replied`` to the last one; without it, that is the agent's last words.
    ``several`` says whether there may be more than one.
    """

    def __init__(self, task_input: Mapping[str, Any], recorder: Recorder, user: SimulatedUser | None) -> None:
        self._scripted = iter([text for text in user_messages(task_input) if text or user is None])
        self._recorder, self._user = recorder, user
        self.several = bool(task_input.get("turns")) or user is not None

    async def __call__(self, replied: str | None = None) -> str | None:
        scripted = next(self._scripted, None)
        if self._user is None:
            return scripted
        if scripted is not None:
            self._user.spoke(scripted)
            return scripted
        return await self._user.answer(self._recorder.last_words if replied is None else replied)


class SimulatedUser:
    """A model that plays the person whom a task describes; its failures are not the agent's.

    ``person`` holds ``persona``, ``goal``, ``stop`` and ``most_turns``. It runs on the loop on which it was
    made, from wherever it is called. The agent's ``budget`` is not charged for its time.
    """

    def __init__(
        self, chat: Chat | None, person: Mapping[str, Any], recorder: Recorder, budget: Budget
    ) -> None:
        self._chat, self._recorder, self._budget = chat, recorder, budget
        self._most = person.get("most_turns") or MOST_TURNS
        stop = person.get("stop") or "you have what you want, or it is plain that you will not get it"
        who = person.get("persona") or "a customer"
        role = _ROLE.format(persona=who, goal=person["goal"], stop=stop)
        self._messages: list[ChatMessage] = [{"role": "system", "content": role}]
        self._turns, self._left = 0, False
        self._loop = asyncio.get_running_loop()

    def spoke(self, message: str) -> None:
        """Note a message of this person that the model did not write: the task's opening words."""
        self._messages.append({"role": "assistant", "content": message})
        self._turns += 1

    async def answer(self, replied: str) -> str | None:
        """Return the person's answer to a reply; None once they are done, or have used up their turns.

        Raises SimulatedUserBroken.
        """
        return await on_loop(self._loop, self._answer(replied))

    async def _answer(self, replied: str) -> str | None:
        if self._left or self._chat is None:
            return None
        if self._turns >= self._most:
            self._leave(f"said {self._turns} messages, the most that the task allows")
            return None
        silence = "(the assistant said nothing)" if self._turns else "(you speak first)"
        self._messages.append({"role": "user", "content": replied or silence})
        with self._budget.time.span("uncharged"):
            message = await self._next_message(self._chat)
        if not message:
            self._leave("was done")
            return None
        self.spoke(message)
        return message

    async def _next_message(self, chat: Chat) -> str:
        """Return the next message; an empty one means that the person is done."""
        messages = list(self._messages)
        for _ in range(MOST_TRIES):
            try:
                reply = await chat.ask(messages, response_schema=_SCHEMA)
            except (TrialBroken, ProblemsFound, LimitReached) as broken:
                raise self._break(f"the simulated user: {broken}") from broken
            # A registered model may raise anything: the agent that waits for the message has no part in it.
            except Exception as raised:
                why = f"the simulated user: {type(raised).__name__}: {raised}"
                raise self._break(why) from raised
            message = _read(reply.text)
            if message is not None:
                return message
            messages += [reply.message(), {"role": "user", "content": _AGAIN}]
        raise self._break(
            f"the simulated user returned no valid turn in {MOST_TRIES} tries: {reply.text[:200]!r}"
        )

    def _break(self, why: str) -> SimulatedUserBroken:
        broken = SimulatedUserBroken(why)
        # Even if the agent catches the exception.
        self._recorder.broken = broken
        return broken

    def _leave(self, why: str) -> None:
        self._left = True
        self._recorder.event(USER_LEFT, f"the simulated user {why}", {"turns": self._turns})


def _read(text: str) -> str | None:
    """Return the message of a turn, empty if the person is done; None if the text is not a turn."""
    start, end = text.find("{"), text.rfind("}")
    try:
        turn = read_json(text[start : end + 1]) if start >= 0 else None
    except ValueError:
        return None
    if not isinstance(turn, dict) or not isinstance(turn.get("message", ""), str):
        return None
    if turn.get("done") is True:
        return ""
    return turn.get("message") or None

"""Journal entries and the cards made of them, with what both agents share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from itertools import zip_longest
from typing import Any

import yaml

from pytest_agenteval import (
    AgentContext,
    Answer,
    OutsideWorkspace,
    StopCondition,
    Tool,
    ToolFailed,
    Workspace,
    converse,
    run_until_complete,
)
from pytest_agenteval.graders.text_reading import SafeLoader
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import KeyPath
from pytest_agenteval.text.json_values import json_digest

# Cards have a writer of their own, for a fixed layout: keys stay in order, no text is folded over lines, and
# only what YAML would misread is quoted. Graders in mode upstream search the text of the file. The words,
# marks and patterns below are those that some reader takes for something else than a text.
_KEYWORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", "+.inf", "=", "<<"}
_MARKS = re.compile("[:#\"'\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_NUMERIC = re.compile(r"\+?[0-9][-+0-9_.xXoOa-fA-F]*|\+\.[0-9].*")
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def card_text(card: Mapping[str, Any]) -> str:
    """Write a card; its keys stay in their order."""
    return "\n".join(_map_lines(card, 0)) + "\n"


def parse_card(text: str | None) -> dict[str, Any] | None:
    """Read a card; None where there is no text, and an empty card where it is no YAML map."""
    if text is None:
        return None
    try:
        card = yaml.load(text, SafeLoader)
    except (yaml.YAMLError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def _map_lines(values: Mapping[Any, Any], depth: int) -> Iterator[str]:
    for key, value in values.items():
        yield from _value_lines(" " * depth + f"{_text(str(key))}:", value, depth + 2)


def _value_lines(before: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield before
        yield from _map_lines(value, depth)
    elif isinstance(value, list | tuple) and value:
        yield before
        for item in value:
            if isinstance(item, Mapping) and item:
                lines = list(_map_lines(item, depth + 2))
                yield " " * depth + "- " + lines[0].lstrip(" ")
                yield from lines[1:]
            else:
                yield from _value_lines(" " * depth + "-", item, depth + 2)
    else:
        yield f"{before} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        digits, e, power = str(value).partition("e")
        # YAML reads 1e+20 as a text, and 1.0e+20 as a number.
        return f"{digits if '.' in digits else digits + '.0'}e{power}" if e else digits
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, list | tuple) else _text(str(value))


def _text(text: str) -> str:
    plain = (
        text
        and text == text.strip()
        and text[0] not in "-?,[]{}&*!|>%@`."
        and not _MARKS.search(text)
        and not _NUMERIC.fullmatch(text)
        and text.lower() not in _KEYWORDS
    )
    return text if plain else '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    mark = match.group()
    code = ord(mark)
    if 0xD800 <= code <= 0xDFFF:
        # Half of a surrogate pair, which JSON can carry and no file can hold.
        return "\ufffd"
    return _SHORT.get(mark) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")


def template_id(config: Any) -> str:
    """Give the template of one part of a stored card; a part that names none counts as ``classic_card``."""
    id = config.get("template_id") if isinstance(config, Mapping) else None
    return id if isinstance(id, str) and id else "classic_card"


def plain_text(value: Any) -> str | None:
    """Write a value of a card as text; None for a map, a list and nothing."""
    return None if value is None or isinstance(value, dict | list) else str(value)


def card_end_state(
    card: Mapping[str, Any] | None, fact_id: str, saved: bool, path: str = "", blob: str = ""
) -> dict[str, Any]:
    """Give how far a card has come: what its file holds, None where there is no file, and if it was saved."""
    # Names and order of the requirements are those of Memex, so that figures can be compared.
    there, card = card is not None, card or {}
    configs = card["ui_configs"] if isinstance(card.get("ui_configs"), list) else []
    has_title = bool((plain_text(card.get("title")) or "").strip())
    requirements = {
        "matching_successful_save_timeline_card_tool_call": saved,
        "card_file_exists": there,
        "persisted_fact_id_matches": card.get("fact_id") == fact_id,
        "status_completed": card.get("status") == "completed",
        "title_present": has_title,
        "ui_configs_present": bool(configs),
    }
    missing = [name for name, is_met in requirements.items() if not is_met]
    tags = card.get("tags")
    reason = f"the card is not finished: {', '.join(missing)}" if missing else None
    return {
        "is_complete": not missing,
        "card_save_tool_called": saved,
        "card_path": path,
        "persisted_fact_id": plain_text(card.get("fact_id")),
        "status": plain_text(card.get("status")),
        "has_title": has_title,
        "has_ui_configs": bool(configs),
        "missing_requirements": missing,
        "failure_reason": plain_text(card.get("failure_reason")) or reason,
        "template_ids": [template_id(config) for config in configs],
        "card_tags": [str(tag) for tag in tags] if isinstance(tags, list) else [],
        "card_yaml_blob": blob,
    }


def bad_argument(message: str) -> ToolFailed:
    return ToolFailed(message, "bad_arguments")


def describe_value(value: Any) -> str:
    """Describe a value for an error message, as in ``a list of 3``."""
    if isinstance(value, str):
        return f"{value[:40]!r} (text)" if value else "an empty text"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return "an object" if isinstance(value, Mapping) else repr(value)


_FACT_ID = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})\.md#(ts_[0-9]+)")
_HEADING = re.compile(
    r"^#+[ \t]*<id:(ts_[0-9]+)>[ \t]*((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]).*$", re.MULTILINE
)


class FactId(FrozenValue, frozen=True):
    """Which entry of which day."""

    text: str
    day: date
    entry: str

    @property
    def daily_file(self) -> str:
        """The file with all entries of the day."""
        return f"Facts/{self.day:%Y/%m/%d}.md"

    @property
    def card_file(self) -> str:
        return f"Cards/{self.day:%Y/%m/%d}_{self.entry}.yaml"


def fact_id(text: object) -> FactId | None:
    """Read a fact id such as ``2026/09/17.md#ts_1``; None when it is none."""
    match = _FACT_ID.fullmatch(text) if isinstance(text, str) else None
    try:
        return (
            FactId(match[0], date(int(match[1]), int(match[2]), int(match[3])), match[4]) if match else None
        )
    # The pattern also fits days that no calendar has.
    except ValueError:
        return None


class DailyEntry(FrozenValue, frozen=True):
    """One entry of a daily file: when it was written, and its text."""

    written_at: datetime
    text: str


def _entries(daily: str) -> Iterator[tuple[re.Match[str], str]]:
    """Give each entry's heading and text, which runs to the next heading."""
    headings = list(_HEADING.finditer(daily))
    for heading, following in zip_longest(headings, headings[1:]):
        end = None if following is None else following.start()
        yield heading, daily[heading.end() : end].strip()


def find_entry(daily: str | None, fact: FactId) -> DailyEntry | None:
    """Find an entry in the text of its daily file; None where it is not there."""
    for heading, text in _entries(daily or ""):
        if heading[1] == fact.entry:
            return DailyEntry(datetime.combine(fact.day, time.fromisoformat(heading[2])), text)
    return None


def read_file(workspace: Workspace, path: str) -> str | None:
    """Read a file of the workspace, None when it is not there; makes no tree where there was none."""
    if not workspace.exists:
        # A workspace is copied from its fixture when it is first used, which reading a file must not cause.
        return workspace.before().text(path)
    try:
        return workspace.inside(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, OutsideWorkspace):
        return None


def write_file(workspace: Workspace, path: str, text: str) -> None:
    """Write a file of the workspace; raises ToolFailed when that cannot be done."""
    try:
        file = workspace.inside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        # The same bytes on every system.
        file.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, OutsideWorkspace) as failed:
        raise ToolFailed(f"the card could not be written: {failed}", "write_failed") from failed


MORNING = "09:00:00"
FIRST_NUMBER, NUMBERS = 1000, 9000
"""Entries without an id are numbered by their task, far from those that people write."""


def input_problems(task_input: Mapping[str, Any]) -> list[tuple[KeyPath, str, str]]:
    """Say what is wrong with a task's input: where, what was expected, what was found."""
    problems: list[tuple[KeyPath, str, str]] = []
    if "fact_id" in task_input and fact_id(task_input["fact_id"]) is None:
        expected = "the id of an entry, like 2026/09/17.md#ts_1; without one the entry gets its own"
        problems.append((("fact_id",), expected, _describe_key(task_input, "fact_id")))
    if not isinstance(task_input.get("content"), str):
        expected = "the entry's text, may be empty"
        problems.append((("content",), expected, _describe_key(task_input, "content")))
    return problems


def prepared(
    task_input: Mapping[str, Any], task_id: str, clock: str | None, read: Callable[[str], str | None]
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Give the input with the entry's id, and the day's file with the entry in it where it lacks it.

    The journal gives an entry its id and writes it down before any agent sees it. Of an entry without an id
    the day is the clock's; the number is that of the day's entry with the very same text, else one that
    comes from the task's id.
    """
    # Another agent's input, or a wrong one, which is reported elsewhere.
    if input_problems(task_input):
        return task_input, {}
    content = task_input["content"]
    # Where neither clock nor id names a day, it is a fixed one, so that runs can be compared.
    at = datetime(2026, 1, 1, 9) if clock is None else datetime.fromisoformat(clock)
    fact = fact_id(task_input.get("fact_id")) or _derive_fact_id(content, task_id, at, read)
    whole = task_input if "fact_id" in task_input else {**task_input, "fact_id": fact.text}
    daily = read(fact.daily_file) or ""
    if find_entry(daily, fact) is not None:
        return whole, {}
    # The clock's hour is one of its own day: entries of other days were written in the morning.
    time = f"{at:%H:%M:%S}" if clock and fact.day == at.date() else MORNING
    above = f"{daily.rstrip()}\n\n" if daily.strip() else ""
    laid = f'{above}## <id:{fact.entry}> {time} "{{}}"\n\n{content}\n'
    return whole, {fact.daily_file: laid}


def _derive_fact_id(content: str, task_id: str, at: datetime, read: Callable[[str], str | None]) -> FactId:
    daily = read(FactId("", at.date(), "").daily_file) or ""
    # Worked out from the task's id, so that an entry has the same id in every run.
    number = FIRST_NUMBER + int(json_digest(task_id)[:8], 16) % NUMBERS
    # Tasks are many and numbers few: another task, or the user, may have the number already.
    while re.search(rf"<id:ts_{number}>", daily):
        number += 1
    # An entry that stands in the file already keeps its id.
    same = (heading[1] for heading, text in _entries(daily) if text == content.strip() and text)
    name = next(same, f"ts_{number}")
    return FactId(f"{at:%Y/%m/%d}.md#{name}", at.date(), name)


def format_moment(moment: datetime) -> str:
    """Write a moment as an agent reads it: with its weekday, in English on every machine."""
    # Not by strftime, whose names of weekdays depend on the locale of the machine.
    weekdays = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return f"{weekdays[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S}"


def _describe_key(task_input: Mapping[str, Any], key: str) -> str:
    return describe_value(task_input[key]) if key in task_input else "nothing"


@dataclass(frozen=True, slots=True)
class JournalAgent(ABC):
    """Works on one journal entry until its end state is complete, or there are no more ``retries``.

    An attempt ends when ``stop_condition`` says so, when the model has no more calls, or after ``most_asks``
    replies. Its prompts are ``system``, ``entry`` and ``unfinished``.
    """

    user_language: str = "English"
    most_asks: int = 20
    # As in Memex: four runs at most, of which all but the first begin with a reminder of what is missing.
    retries: int = 3

    input_problems = staticmethod(input_problems)
    prepared = staticmethod(prepared)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Work on the entry; the answer is the last reply, with the end state."""
        ctx.tools.offer(*self.make_tools(ctx))
        messages = self._opening(task_input, ctx)

        def remind(state: Mapping[str, Any]) -> None:
            fact = task_input["fact_id"]
            text = ctx.prompts.render("unfinished", fact_id=fact, **self.reminder_values(state))
            # To the same conversation: the next attempt knows what the last one did.
            messages.append({"role": "user", "content": text})

        async def attempt() -> str:
            return await converse(ctx, messages, finished=self.stop_condition(), most_asks=self.most_asks)

        end_state = partial(self.end_state, task_input, ctx)
        return await run_until_complete(attempt, end_state, remind, self.retries)

    @abstractmethod
    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Give how far the work has come; also called after a crash."""

    @abstractmethod
    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]: ...

    @abstractmethod
    def stop_condition(self) -> StopCondition:
        """Watch one attempt for its end."""

    def prompt_values(self) -> Mapping[str, Any]:
        """Give what the system prompt says beside the language."""
        return {}

    @abstractmethod
    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        """Give what the prompt ``entry`` says beside the entry itself."""

    @abstractmethod
    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give what the prompt ``unfinished`` says of an incomplete end state."""

    def _opening(self, task_input: Mapping[str, Any], ctx: AgentContext) -> list[dict[str, Any]]:
        entry = ctx.prompts.render(
            "entry",
            language=self.user_language,
            fact_id=task_input["fact_id"],
            published=format_moment(ctx.clock.now()),
            content=task_input["content"],
            **self.entry_values(ctx),
        )
        system = ctx.prompts.render("system", language=self.user_language, **self.prompt_values())
        return [{"role": "system", "content": system}, {"role": "user", "content": entry}]

"""The card agent, its tools and its templates: turns one journal entry into one finished timeline card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from importlib.resources import files
from typing import Any, ClassVar

import yaml

from pytest_agenteval import (
    AgentContext,
    Clock,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    ToolFailed,
    ToolSpec,
    Workspace,
    read_templates,
)
from pytest_agenteval.benchmarks.memex import journal
from pytest_agenteval.benchmarks.memex.journal import (
    JournalAgent,
    bad_argument,
    describe_value,
    fact_id,
    find_entry,
    read_file,
    write_file,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import read_json
from pytest_agenteval.text.errors import did_you_mean


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(member, str) for member in value)


# The kinds of fields: its words for the model, what a refusal expects, and whether a value fits.
# Flags and maps are never required, and a missing value is reported by itself: anything else will do.
_KINDS: Mapping[str, tuple[str, str, Callable[[Any], bool]]] = {
    "text": ("text", "a text", lambda value: isinstance(value, str)),
    "filled": (
        "text",
        "a text that is not blank",
        lambda value: isinstance(value, str) and value.strip() != "",
    ),
    "number": ("number", "a number", _is_number),
    "integer": ("integer", "a whole number", lambda value: isinstance(value, int) and _is_number(value)),
    "texts": ("list of texts", "a list of texts, at least one", _is_texts),
    "given": ("text or number", "anything but nothing", lambda value: True),
    "flag": ("true or false", "", lambda value: True),
    "map": ("object", "", lambda value: True),
}


class Field(FrozenValue, frozen=True):
    """One field of a template; ``parts`` are the fields of each member where it holds a list of objects."""

    name: str
    required: bool
    kind: str = ""
    note: str = ""
    parts: tuple[Field, ...] = ()

    def __str__(self) -> str:
        star = "*" if self.required else ""
        if self.parts:
            return f"{self.name}{star} (list of {{{', '.join(map(str, self.parts))}}})"
        return f"{self.name}{star} ({', '.join(filter(None, (_KINDS[self.kind][0], self.note)))})"


class Template(FrozenValue, frozen=True):
    """One shape a card can have; of the fields in ``either`` one is enough."""

    id: str
    use: str
    fields: tuple[Field, ...]
    either: tuple[str, ...] = ()

    @property
    def choice(self) -> str:
        """The words for fields of which one is enough; empty where there are none."""
        return f"; one of {', '.join(self.either)} must be there" if self.either else ""


@cache
def catalogue() -> Mapping[str, Template]:
    """Give every template by its id, in the order of the file."""
    text = files(__package__).joinpath("templates.yaml").read_text(encoding="utf-8")
    return {
        id: Template(id, template["use"], _fields(template), tuple(template.get("either", ())))
        for id, template in yaml.safe_load(text).items()
    }


def _fields(fields_yaml: Mapping[str, Any]) -> tuple[Field, ...]:
    fields = []
    for share in ("required", "optional"):
        for name, field_yaml in fields_yaml.get(share, {}).items():
            if isinstance(field_yaml, Mapping):
                fields.append(Field(name, share == "required", parts=_fields(field_yaml)))
            else:
                kind, _, note = field_yaml.partition(",")
                fields.append(Field(name, share == "required", kind, note.strip()))
    return tuple(fields)


def template_problems(template: Template, data: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with a template's data, field by field; nothing when it will do.

    Only required fields are checked, and the members of lists of objects; a card with a strange optional
    field is still a card.
    """
    problems = list(_field_problems(template.fields, data, ""))
    if template.either and not any(isinstance(data.get(name), str) for name in template.either):
        problems.append(f"one of {', '.join(template.either)} must be there, as a text")
    return problems


def _field_problems(fields: tuple[Field, ...], data: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for field in fields:
        value, place = data.get(field.name), prefix + field.name
        _, expected, fits = _KINDS.get(field.kind, ("", "a list of objects, at least one", None))
        if value is None:
            if field.required:
                yield f"{place} is missing: {expected}"
        elif fits is not None:
            if field.required and not fits(value):
                yield f"{place} must be {expected}, not {describe_value(value)}"
        elif not isinstance(value, list) or (field.required and not value):
            yield f"{place} must be {expected}, not {describe_value(value)}"
        else:
            for number, member in enumerate(value):
                if isinstance(member, Mapping):
                    yield from _field_problems(field.parts, member, f"{place}[{number}].")
                else:
                    yield f"{place}[{number}] must be an object, not {describe_value(member)}"


TAGS = (
    "Project", "Trip", "Milestone", "Health", "Relationship", "Finance", "Knowledge", "Emotion", "Visual",
    "Audio",
)  # fmt: skip
METADATA = "get_card_metadata"
SAVE = "save_timeline_card"

_TEXT = {"type": "string"}


def card_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, Tool]:
    """Make the tools of one trial: the one that lists the tags, and the one that saves a card."""
    metadata, save = specs()
    tags = f"The journal's tags: {', '.join(TAGS)}"
    return Tool(metadata, lambda args: tags), Tool(save, partial(_save_card, workspace, clock))


@cache
def specs() -> tuple[ToolSpec, ToolSpec]:
    """Declare the tools; they check their own arguments and touch nothing but the workspace."""
    config = {
        "type": "object",
        "properties": {
            "template_id": {"type": "string", "enum": list(catalogue())},
            "data": {"type": "object", "description": "the template's fields"},
        },
        "required": ["template_id", "data"],
    }
    tag = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": list(TAGS)}, "icon": _TEXT},
        "required": ["name"],
    }
    save = {
        "type": "object",
        "properties": {
            "fact_id": {"type": "string", "description": "the entry's fact id, exactly as given"},
            "title": {"type": "string", "description": "the card's title, short and plain"},
            "ui_configs": {"type": "array", "items": config, "minItems": 1},
            "address": {"type": "string", "description": "where the user was at that moment"},
            "user_mark_address": {"type": "string", "description": "an address the user wants pinned"},
            "content_creation_date": {"type": "string", "description": "YYYY-MM-DD HH:MM:SS"},
            "tags": {"type": "array", "items": tag},
        },
        "required": ["fact_id", "title", "ui_configs"],
    }
    no_arguments = {"type": "object", "properties": {}}
    return (
        # Not checked, not taped and not blocking: the tools check their own arguments, so that a refusal says
        # how to mend them, and touch only the workspace.
        ToolSpec(METADATA, "Lists the tags that a card can have.", no_arguments, False, False, False),
        ToolSpec(SAVE, "Saves the finished card of an entry.", save, False, False, False),
    )


def _save_card(workspace: Workspace, clock: Clock, args: Mapping[str, Any]) -> str:
    """Save a card over what may already be there; raises ToolFailed at the first thing that is wrong.

    The card's keys are in its file's order; what was not given stays as it was.
    """
    title = args.get("title")
    if not isinstance(title, str) or not title.strip():
        raise bad_argument("title must be a text that is not empty")
    configs = _configs(args.get("ui_configs"))
    created, warning = _creation_date(args.get("content_creation_date"))
    fact = fact_id(args.get("fact_id"))
    if fact is None:
        found = describe_value(args.get("fact_id"))
        raise bad_argument(f"fact_id must look like 2026/09/17.md#ts_1, not {found}")
    tags = _tags(args.get("tags"))
    address, pinned = _optional_text(args, "address"), _optional_text(args, "user_mark_address")
    entry = find_entry(read_file(workspace, fact.daily_file), fact)
    if entry is None:
        raise ToolFailed(f"there is no entry {fact.entry} in {fact.daily_file}", "not_found")
    old = journal.parse_card(read_file(workspace, fact.card_file)) or {}
    timestamp = old.get("timestamp")
    # A card that was saved before keeps its place in the timeline, unless it is given a date.
    if created is not None or not isinstance(timestamp, int):
        moment = created or entry.written_at
        timestamp = int((moment if moment.tzinfo else moment.replace(tzinfo=clock.now().tzinfo)).timestamp())
    card: dict[str, Any] = {
        "fact_id": fact.text,
        "timestamp": timestamp,
        "status": "completed",
        "tags": tags or old.get("tags") or [],
        "ui_configs": configs,
        "title": title.strip(),
    }
    if address := address or old.get("address") or "":
        card["address"] = address
    card |= {key: value for key, value in old.items() if str(key).startswith("user_fixed_")}
    if pinned:
        card["user_fixed_address"] = pinned
    # Comments and insights are written into a card by others, and outlive its being saved anew.
    card |= {key: old[key] for key in ("comments", "insight", "deleted") if key in old}
    write_file(workspace, fact.card_file, journal.card_text(card))
    return f"The card of {fact.text} is saved." + (f" Note: {warning}." if warning else "")


def _configs(value: Any) -> list[Mapping[str, Any]]:
    # Some models write nested arguments as JSON text.
    if isinstance(value, str):
        try:
            value = read_json(value)
        except ValueError as wrong:
            raise bad_argument(f"ui_configs is a text that is not JSON: {wrong}") from wrong
    if not isinstance(value, list) or not value:
        expected = "ui_configs must be a list with at least one template"
        raise bad_argument(f"{expected}, not {describe_value(value)}")
    filled = [_config(config, f"ui_configs[{number}]") for number, config in enumerate(value)]
    # Among several templates a snapshot only repeats the picture; of nothing but snapshots one stays.
    return [config for config in filled if config["template_id"] != "snapshot"] or filled[:1]


def _config(config: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(config, Mapping):
        raise bad_argument(
            f"{place} must be an object with template_id and data, not {describe_value(config)}"
        )
    id, data = config.get("template_id"), config.get("data")
    if not isinstance(id, str) or not id:
        raise bad_argument(f"{place}.template_id: missing; it must be the id of a template")
    template = catalogue().get(id)
    if template is None:
        parts = (f"there is no template {id!r}", did_you_mean(id, catalogue()))
        raise bad_argument(
            f"{place}.template_id: {'; '.join(filter(None, parts))}; known: {', '.join(catalogue())}"
        )
    if not isinstance(data, Mapping):
        raise bad_argument(
            f"{place}.data must be an object with the fields of {id}, not {describe_value(data)}"
        )
    if wrong := template_problems(template, data):
        raise bad_argument(f"{place}.data does not fill {id}: {'; '.join(wrong)}")
    return {"template_id": id, "data": dict(data)}


def _tags(value: Any) -> list[str]:
    if value is not None and not isinstance(value, list):
        raise bad_argument(f"tags must be a list, not {describe_value(value)}")
    names: list[str] = []
    for number, tag in enumerate(value or ()):
        name = tag.get("name") if isinstance(tag, Mapping) else tag
        if name is not None and not isinstance(name, str):
            raise bad_argument(f"tags[{number}] must be an object with a name, not {describe_value(tag)}")
        proper = (name or "").strip().capitalize()
        if proper and proper not in TAGS:
            raise bad_argument(f"tags[{number}]: there is no tag {name!r}; the tags are: {', '.join(TAGS)}")
        names += [proper] if proper else []
    return list(dict.fromkeys(names))


def _optional_text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_argument(f"{name} must be a text, not {describe_value(value)}")
    return (value or "").strip()


def _creation_date(value: Any) -> tuple[datetime | None, str]:
    """Read a date; one that cannot be read is not used, and a warning says so."""
    if value is None or value == "":
        return None, ""
    try:
        return datetime.fromisoformat(value), ""
    except (TypeError, ValueError):
        return None, f"content_creation_date {value!r} is no date like 2026-09-17 20:30:00, and was not used"


def was_saved(fact_id: str, calls: Iterable[ToolCall]) -> bool:
    saves = (call for call in calls if call.tool == SAVE and call.error is None)
    return any(call.args.get("fact_id") == fact_id for call in saves)


@dataclass(frozen=True, slots=True)
class CardAgent(JournalAgent):
    """Makes the timeline card of one journal entry.

    An attempt ends with a successful save, when the model has no more calls, after ``most_asks`` replies, or
    when the same call comes five times on end. An unfinished card is requested again, ``retries`` times; one
    that is unfinished even then is no error: the end state says what is missing.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Read from transcript and disk how far the card has come; also called after a crash."""
        # An input that never made sense still gets an end state with all its keys.
        target = str(task_input.get("fact_id", ""))
        fact = fact_id(target)
        path = "" if fact is None else fact.card_file
        blob = read_file(ctx.workspace, path) if path else None
        saved = was_saved(target, ctx.transcript.calls)
        return journal.card_end_state(journal.parse_card(blob), target, saved, path, blob or "")

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        return card_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        guard = RepeatedCallGuard()
        # The guard comes first, because it has to count the calls of every reply.
        return lambda answered: (
            guard.is_stuck(answered)
            or any(call.tool == SAVE and result.error is None for call, result in answered)
        )

    def prompt_values(self) -> Mapping[str, Any]:
        return {"templates": tuple(catalogue().values()), "tags": TAGS}

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        return {"tags": TAGS}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"missing": state["missing_requirements"]}

"""The PKM agent: files what one journal entry says into a knowledge base, or leaves it alone."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    ToolResult,
    ToolSpec,
    Workspace,
    read_templates,
)
from pytest_agenteval.benchmarks.memex.journal import JournalAgent, bad_argument, describe_value
from pytest_agenteval.benchmarks.memex.pkm_agent import reading_tools, writing_tools
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import KnowledgeBase
from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import REMINDER, overview
from pytest_agenteval.text.errors import did_you_mean

# Of these texts an empty one says something.
MAY_BE_EMPTY = ("content", "old_string", "new_string")

# Each takes the knowledge base and its arguments by name; one with a default need not be given.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Read": reading_tools.read,
    "BatchRead": reading_tools.batch_read,
    "Write": writing_tools.write,
    "Edit": writing_tools.edit,
    "Move": writing_tools.move,
    "Remove": writing_tools.remove,
    "LS": reading_tools.ls,
    "Glob": reading_tools.glob,
    "Grep": reading_tools.grep,
    "update_timeline_card_insight": writing_tools.update_insight,
    "skip_pkm_organization": writing_tools.skip,
}


@cache
def specs() -> tuple[ToolSpec, ...]:
    """Declare the tools: they check their own arguments, and none calls the outside world."""
    declared = yaml.safe_load(files(__package__).joinpath("tools.yaml").read_text(encoding="utf-8"))
    return tuple(_spec(name, tool) for name, tool in declared.items())


def _spec(name: str, declared: Mapping[str, str]) -> ToolSpec:
    arguments = {key: text for key, text in declared.items() if key != "use"}
    properties = {key.rstrip("*"): _property(*text.split(": ", 1)) for key, text in arguments.items()}
    required = [key.rstrip("*") for key in arguments if key.endswith("*")]
    parameters = {"type": "object", "properties": properties, "required": required}
    # The tools check their own arguments, so that a refusal can say how to mend them.
    return ToolSpec(name, declared["use"], parameters, checked=False, taped=False, blocking=False)


def _property(kind: str, description: str) -> dict[str, Any]:
    types: dict[str, Any] = {"text": {"type": "string"}, "flag": {"type": "boolean"}}
    types["texts"] = {"type": "array", "items": {"type": "string"}}
    if kind.startswith("from "):
        types[kind] = {"type": "integer", "minimum": int(kind.removeprefix("from "))}
    return {**types.get(kind, {"type": "string", "enum": kind.split("|")}), "description": description}


def pkm_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, ...]:
    """Make the tools of one trial, in the order in which the model is shown them."""
    base = KnowledgeBase(workspace, clock)
    return tuple(Tool(spec, partial(_call, spec, base)) for spec in specs())


def _call(spec: ToolSpec, base: KnowledgeBase, args: Mapping[str, Any]) -> Any:
    function = FUNCTIONS[spec.name]
    return function(base, **read_arguments(spec, function, args))


def read_arguments(spec: ToolSpec, function: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is declared; raises ToolFailed at the first argument that is wrong.

    Models write null or an empty text for what they do not give, 3.0 for 3, and a text for a list of one.
    """
    read: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters
    for name, declared in spec.parameters["properties"].items():
        value = args.get(name)
        has_default = parameters[name].default is not inspect.Parameter.empty
        if not (has_default and (value is None or (value == "" and declared["type"] == "string"))):
            read[name] = _read(name, declared, value)
    return read


def _read(name: str, declared: Mapping[str, Any], value: Any) -> Any:
    described = "nothing" if value is None else describe_value(value)
    match declared["type"]:
        case "string":
            if not isinstance(value, str):
                raise bad_argument(f"{name} must be a text, not {described}")
            if not value.strip() and name not in MAY_BE_EMPTY:
                raise bad_argument(f"{name} must not be empty")
            choices = declared.get("enum", [value])
            if value not in choices:
                parts = (f"{name} must be one of {', '.join(choices)}", did_you_mean(value, choices))
                raise bad_argument("; ".join(filter(None, parts)))
            return _writable(name, value)
        case "array":
            listed = [value] if isinstance(value, str) else value
            if not isinstance(listed, list | tuple) or not all(isinstance(text, str) for text in listed):
                raise bad_argument(f"{name} must be a list of texts, not {described}")
            return [_writable(name, text) for text in listed]
        case "integer":
            least = declared["minimum"]
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise bad_argument(f"{name} must be a whole number from {least}, not {described}")
        case _:
            if not isinstance(value, bool):
                raise bad_argument(f"{name} must be true or false, not {described}")
    return value


def _writable(name: str, value: str) -> str:
    """Refuse half a character, which JSON can write and no file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise bad_argument(f"{name} holds half a character (a lone surrogate); leave it out") from None
    return value


INSIGHT = "update_timeline_card_insight"
SKIP = "skip_pkm_organization"


def pkm_end_state(fact_id: str, calls: Iterable[ToolCall]) -> dict[str, Any]:
    """Give how an entry was dealt with, as the calls show it; a call that failed shows nothing.

    It is complete when it was filed and has its insight, or when it was skipped and no file was touched.
    ``wrote_para`` says that a file was written with the entry's fact id in the call; ``skip_evidence`` is
    what the agent gave as its reason for skipping, None where it did not skip.
    """
    done = [call for call in calls if call.error is None]
    skips = [call for call in done if call.tool == SKIP]
    writes = [call for call in done if call.tool in ("Write", "Edit")]
    wrote = any(_mentions(call, fact_id) for call in writes)
    # As in Memex, whose insight it was does not matter here; pkm_completion looks at that.
    insight = any(call.tool == INSIGHT for call in done)
    changed = bool(writes) or any(call.tool in ("Move", "Remove") for call in done)
    complete = (wrote and insight) or (bool(skips) and not changed)
    met = {"wrote_para_with_fact_id": wrote, "updated_timeline_card_insight": insight, SKIP: False}
    missing = [] if complete else [name for name, is_met in met.items() if not is_met]
    if skips and not complete:
        # Of a skip after a change, only that is missing.
        missing = ["skip_without_successful_pkm_mutation"]
    return {
        "is_complete": complete,
        "wrote_para": wrote,
        "updated_insight": insight,
        "skipped_pkm": bool(skips),
        "successful_pkm_mutation": changed,
        "missing_requirements": missing,
        "skip_evidence": str(skips[-1].args.get("evidence", "")) if skips else None,
    }


def _mentions(call: ToolCall, fact_id: str) -> bool:
    """Whether the fact id stands anywhere in the arguments, as they were sent."""
    # Not the canonical writer, which refuses NaN: arguments are looked at as the model sent them.
    sent = call.raw_args or json.dumps(dict(call.args), ensure_ascii=False, default=str)
    return bool(fact_id) and fact_id in sent


@dataclass(frozen=True, slots=True)
class PkmAgent(JournalAgent):
    """Files one journal entry in the knowledge base and tells what it means there, or skips it.

    An attempt ends with a successful skip or insight, when the model has no more calls, after ``most_asks``
    replies, or when the same call comes five times on end. Where a file that was read came with a reminder to
    put it in order, an insight is not the end yet. An entry that is not dealt with is requested again,
    ``retries`` times; one that is not dealt with even then is no error: the end state says what is missing.

    Whether the user wants an entry to be filed is for the model to decide: no filter looks at it before.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Read from the transcript how the entry was dealt with; also called after a crash."""
        fact = task_input.get("fact_id")
        return pkm_end_state(fact if isinstance(fact, str) else "", ctx.transcript.calls)

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        return pkm_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        """Stop once the entry is skipped or has its insight, or the same call came too often."""
        guard, reminded = RepeatedCallGuard(), False

        def is_reached(answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
            nonlocal reminded
            # The guard comes first, because it has to count the calls of every reply.
            if guard.is_stuck(answered):
                return True
            done = [(call.tool, result.content) for call, result in answered if result.error is None]
            # A reminder holds for the rest of this attempt; the next one starts with a new condition.
            reminded = reminded or any(tool == "Read" and REMINDER in content for tool, content in done)
            successful = {tool for tool, _ in done}
            return SKIP in successful or (INSIGHT in successful and not reminded)

        return is_reached

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        tree_view = overview(ctx.workspace, ctx.clock)
        return {"tree": tree_view.tree, "entries": tree_view.entries, "truncated": tree_view.truncated}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "missing": state["missing_requirements"],
            "wrote": state["wrote_para"],
            "insight": state["updated_insight"],
            "skipped": state["skipped_pkm"],
            "changed": state["successful_pkm_mutation"],
        }

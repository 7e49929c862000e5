"""The PKM agent: files what one journal entry says into a knowledge base."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, ClassVar

from pytest_agenteval import (
    AgentContext,
    Clock,
    Prompts,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    ToolFunction,
    ToolResult,
    ToolSpec,
    Workspace,
    read_templates,
)
from pytest_agenteval.benchmarks.memex.journal import JournalAgent
from pytest_agenteval.benchmarks.memex.pkm_agent.grep_tool import MODES, TYPES, grep
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import KnowledgeBase
from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import (
    REMINDER,
    batch_read,
    glob,
    ls,
    overview,
    read,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.writing_tools import (
    edit,
    move,
    remove,
    skip,
    update_insight,
    write,
)
from pytest_agenteval.records.record import FrozenValue

# Names and arguments of the tools are those that recorded runs of the original agent have.
READ = "Read"
BATCH_READ = "BatchRead"
WRITE = "Write"
EDIT = "Edit"
MOVE = "Move"
REMOVE = "Remove"
LS = "LS"
GLOB = "Glob"
GREP = "Grep"
INSIGHT = "update_timeline_card_insight"
SKIP = "skip_pkm_organization"


@cache
def specs() -> tuple[ToolSpec, ...]:
    """Declare the tools: they check their own arguments, and none calls the outside world."""
    return (*_file_tools(), *_looking(), *_ending())


def _file_tools() -> tuple[ToolSpec, ...]:
    return (
        _spec(
            READ,
            "Shows a file with numbered lines, 2000 at most. The number and the tab are not the file's.",
            {
                "file_path": _text("the file, from the root: /Areas/Bread.md"),
                "offset": _number("the first line to show", 1),
                "limit": _number("how many lines to show", 1),
            },
            "file_path",
        ),
        _spec(
            BATCH_READ,
            "Shows several files one after the other. What cannot be read is said in its place.",
            {"file_patterns": _texts("paths, or globs such as /Areas/**/*.md")},
            "file_patterns",
        ),
        _spec(
            WRITE,
            "Creates a file, with the folders it lies in, or puts a new text in place of all that it held. "
            "To change a part of a file, use Edit.",
            {"file_path": _text("the file"), "content": _text("all that the file shall hold")},
            "file_path",
            "content",
        ),
        _spec(
            EDIT,
            "Replaces a text within a file. The old text must stand there exactly once, letter by letter, "
            "unless all of them are to be replaced. An empty old text creates a file that is not there.",
            {
                "file_path": _text("the file"),
                "old_string": _text("the text to replace, as it stands in the file, without line numbers"),
                "new_string": _text("the text to put there"),
                "replace_all": _flag("replace it wherever it stands; false if not given"),
            },
            "file_path",
            "old_string",
            "new_string",
        ),
        _spec(
            MOVE,
            "Moves or renames a file or folder. Where the destination is a folder, it is moved into it.",
            {
                "source_path": _text("what to move"),
                "destination_path": _text("its new path, or the folder to put it in"),
                "overwrite": _flag("replace a file that is there already; false if not given"),
            },
            "source_path",
            "destination_path",
        ),
        _spec(
            REMOVE,
            "Removes a file, or a folder with all that is in it, for good.",
            {"path": _text("what to remove"), "confirm": _flag("must be true")},
            "path",
            "confirm",
        ),
    )


def _looking() -> tuple[ToolSpec, ...]:
    output_mode = f"paths, lines or counts; {MODES[0]} if not given"
    kind = "the kind of files to search"
    return (
        _spec(
            LS,
            "Lists a folder as a tree. Names that start with a dot are left out.",
            {
                "path": _text("the folder; / is the root"),
                "ignore": _texts("globs of what to leave out"),
                "depth": _number("how many levels to show; 3 if not given", 1),
            },
            "path",
        ),
        _spec(
            GLOB,
            "Lists the files whose paths fit a glob, those written last first, 100 at most.",
            {
                "pattern": _text("a glob: * within a folder, ** through folders, {one,two}, [a-z]"),
                "path": _text("the folder to look in; the root if not given"),
            },
            "pattern",
        ),
        _spec(
            GREP,
            "Looks for a regular expression in the files' text.",
            {
                "pattern": _text("a regular expression, as Python reads it"),
                "path": _text("the file or folder to search; the root if not given"),
                "include": _text("a glob of the files to search, such as *.md"),
                "output_mode": {"type": "string", "enum": list(MODES), "description": output_mode},
                "A": _number("lines to show after each match; content mode", 0),
                "B": _number("lines to show before each match; content mode", 0),
                "C": _number("lines to show around each match; content mode", 0),
                "n": _flag("show line numbers; content mode; true if not given"),
                "i": _flag("upper and lower case are alike; true if not given"),
                "type": {"type": "string", "enum": list(TYPES), "description": kind},
                "head_limit": _number("how many lines of the result to show", 1),
                "multiline": _flag("a match may span lines, and . takes line breaks; false if not given"),
            },
            "pattern",
        ),
    )


def _ending() -> tuple[ToolSpec, ...]:
    return (
        _spec(
            INSIGHT,
            "Puts the insight on the entry's card. Call it once, when the entry is filed.",
            {
                "fact_id": _text("the entry's fact id, exactly as given"),
                "insight_text": _text("the thought, for the user to read"),
                "related_fact_ids": _texts("fact ids of the earlier entries that it rests on"),
            },
            "fact_id",
            "insight_text",
        ),
        _spec(
            SKIP,
            "Leaves the entry alone: nothing of it is filed. Call it instead of changing any file.",
            {"evidence": _text("the words of the entry that decided it, as they stand")},
            "evidence",
        ),
    )


def _spec(name: str, description: str, properties: dict[str, Any], *required: str) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    # The tools check their own arguments, so that a refusal can say how to mend them.
    return ToolSpec(name, description, parameters, checked=False, taped=False, blocking=False)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _number(description: str, least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


class PkmEndState(FrozenValue, frozen=True):
    """The state of one entry on its way into the knowledge base.

    It is complete when it was filed and has its insight, or when it was skipped and no file was touched.
    ``wrote_para`` says that a file was written with the entry's fact id in the call; ``skip_evidence`` is
    what the agent gave as its reason for skipping, None where it did not skip.
    """

    wrote_para: bool = False
    updated_insight: bool = False
    skipped_pkm: bool = False
    successful_pkm_mutation: bool = False
    skip_evidence: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the entry has come to one of its two proper ends."""
        filed = self.wrote_para and self.updated_insight
        return filed or (self.skipped_pkm and not self.successful_pkm_mutation)

    @property
    def missing(self) -> list[str]:
        """The names of what is missing for either end; of a skip after a change, only that."""
        if self.is_complete:
            return []
        if self.skipped_pkm:
            return ["skip_without_successful_pkm_mutation"]
        met = {
            "wrote_para_with_fact_id": self.wrote_para,
            "updated_timeline_card_insight": self.updated_insight,
            "skip_pkm_organization": False,
        }
        return [name for name, is_met in met.items() if not is_met]

    def state(self) -> dict[str, Any]:
        """Give the end state that graders look at, as JSON values."""
        return {
            "is_complete": self.is_complete,
            "wrote_para": self.wrote_para,
            "updated_insight": self.updated_insight,
            "skipped_pkm": self.skipped_pkm,
            "successful_pkm_mutation": self.successful_pkm_mutation,
            "missing_requirements": self.missing,
            "skip_evidence": self.skip_evidence,
        }


def pkm_end_state(fact_id: str, calls: Iterable[ToolCall]) -> PkmEndState:
    """Gather what the calls show; a call that failed shows nothing."""
    done = [call for call in calls if call.error is None]
    skips = [call for call in done if call.tool == SKIP]
    writes = [call for call in done if call.tool in (WRITE, EDIT)]
    return PkmEndState(
        wrote_para=any(_mentions(call, fact_id) for call in writes),
        # As in Memex, whose insight it was does not matter here; pkm_completion looks at that.
        updated_insight=any(call.tool == INSIGHT for call in done),
        skipped_pkm=bool(skips),
        successful_pkm_mutation=bool(writes) or any(call.tool in (MOVE, REMOVE) for call in done),
        skip_evidence=str(skips[-1].args.get("evidence", "")) if skips else None,
    )


def _mentions(call: ToolCall, fact_id: str) -> bool:
    """Whether the fact id stands anywhere in the arguments, as they were sent."""
    # Not the canonical writer, which refuses NaN: arguments are looked at as the model sent them.
    sent = call.raw_args or json.dumps(dict(call.args), ensure_ascii=False, default=str)
    return bool(fact_id) and fact_id in sent


def pkm_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, ...]:
    """Make the tools of one trial, in the order in which the model is shown them."""
    of_files: Mapping[str, Callable[[KnowledgeBase, Mapping[str, Any]], Any]] = {
        READ: read,
        BATCH_READ: batch_read,
        WRITE: write,
        EDIT: edit,
        MOVE: move,
        REMOVE: remove,
        LS: ls,
        GLOB: glob,
        GREP: grep,
    }
    base = KnowledgeBase(workspace)
    functions: dict[str, ToolFunction] = {name: partial(tool, base) for name, tool in of_files.items()}
    functions |= {INSIGHT: partial(update_insight, workspace, clock), SKIP: skip}
    return tuple(Tool(spec, functions[spec.name]) for spec in specs())


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
        return pkm_end_state(fact if isinstance(fact, str) else "", ctx.transcript.calls).state()

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
            reminded = reminded or any(tool == READ and REMINDER in content for tool, content in done)
            successful = {tool for tool, _ in done}
            return SKIP in successful or (INSIGHT in successful and not reminded)

        return is_reached

    def system_prompt(self, texts: tuple[tuple[str, str], ...]) -> str:
        return _system_prompt(texts, self.user_language)

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        tree_view = overview(ctx.workspace)
        return {"tree": tree_view.tree, "entries": tree_view.entries, "truncated": tree_view.truncated}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "missing": state["missing_requirements"],
            "wrote": state["wrote_para"],
            "insight": state["updated_insight"],
            "skipped": state["skipped_pkm"],
            "changed": state["successful_pkm_mutation"],
        }


# Made once: all trials of a run share one system prompt.
@lru_cache(maxsize=64)
def _system_prompt(texts: tuple[tuple[str, str], ...], language: str) -> str:
    return Prompts(dict(texts), {}).render("system", language=language)

"""What the PKM agent is told of its tools."""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_agenteval import ToolSpec
from pytest_agenteval.benchmarks.memex.pkm_agent.grep_tool import MODES, TYPES

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
    """Declare the tools: they check their own arguments, and none asks the outside world."""
    return (*_reading(), *_changing(), *_looking(), *_ending())


def _reading() -> tuple[ToolSpec, ...]:
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
    )


def _changing() -> tuple[ToolSpec, ...]:
    return (
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
        _spec(GREP, "Looks for a regular expression in the files' text.", _grep(), "pattern"),
    )


def _grep() -> dict[str, Any]:
    return {
        "pattern": _text("a regular expression, as Python reads it"),
        "path": _text("the file or folder to search; the root if not given"),
        "include": _text("a glob of the files to search, such as *.md"),
        "output_mode": {
            "type": "string",
            "enum": list(MODES),
            "description": f"paths, lines or counts; {MODES[0]} if not given",
        },
        "A": _number("lines to show after each match; content mode", 0),
        "B": _number("lines to show before each match; content mode", 0),
        "C": _number("lines to show around each match; content mode", 0),
        "n": _flag("show line numbers; content mode; true if not given"),
        "i": _flag("upper and lower case are alike; true if not given"),
        "type": {"type": "string", "enum": list(TYPES), "description": "the kind of files to search"},
        "head_limit": _number("how many lines of the result to show", 1),
        "multiline": _flag("a match may span lines, and . takes line breaks; false if not given"),
    }


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
    return ToolSpec(name, description, parameters, checked=False, taped=False, blocking=False)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _number(description: str, least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}

"""Tools that write and edit files of the knowledge base, and those that end the work."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from typing import Any

from pytest_agenteval import ToolFailed, Workspace
from pytest_agenteval.benchmarks.memex import journal
from pytest_agenteval.benchmarks.memex.journal import (
    FactId,
    bad_argument,
    describe_value,
    find_entry,
    read_file,
    write_file,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import (
    KnowledgeBase,
    PkmPath,
    count_of,
    disk_errors,
    lines_of,
)

_NUMBERED = re.compile(r"^ *[0-9]+\t", re.MULTILINE)


def write(base: KnowledgeBase, file_path: str, content: str) -> str:
    """Create a file, or put another text in its place; a file that is not text is not written over."""
    place = _file(base, file_path)
    there = place.real.exists()
    # Read for the refusal only: a file that is no text is not written over.
    if there:
        base.text(place)
    base.save(place, content)
    return f"{'Replaced' if there else 'Created'} {place}: {_line_count(content)}."


def edit(
    base: KnowledgeBase, file_path: str, old_string: str, new_string: str, replace_all: bool = False
) -> str:
    """Put one text in another's place within a file; with an empty old text, create the file."""
    if old_string == new_string:
        raise bad_argument("old_string and new_string are the same, so there is nothing to do")
    place = _file(base, file_path)
    if not old_string:
        if place.real.exists():
            message = f"{place} is there already; give the old_string that is to be replaced"
            raise ToolFailed(message, "exists")
        base.save(place, new_string)
        return f"Created {place}: {_line_count(new_string)}."
    before = base.text(place)
    old, new = _with_line_ends_of(before, old_string), _with_line_ends_of(before, new_string)
    count = before.count(old)
    if not count:
        raise ToolFailed(f"old_string does not stand in {place}{_hint(before, old)}", "no_match")
    if not replace_all and count > 1:
        message = (
            f"old_string stands {count} times in {place}; give more of the text around it, or replace_all"
        )
        raise ToolFailed(message, "ambiguous")
    after = before.replace(old, new)
    base.save(place, after)
    return f"Edited {place}: {count_of(count, 'place')}, {_line_count(after)} now."


def _file(base: KnowledgeBase, path: str) -> PkmPath:
    place = base.place(path)
    if place.is_folder or not place.parts:
        raise ToolFailed(f"{place} is a folder", "is_a_folder")
    if path.endswith("/"):
        raise bad_argument(f"file_path must name a file, not a folder: {place}/")
    return place


def _hint(before: str, old: str) -> str:
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in before:
        return "; leave out the line numbers and tabs that Read puts before each line"
    if " ".join(old.split()) in " ".join(before.split()):
        return "; its words do, with other spaces or line breaks between them"
    return "; it must be the text of the file, letter by letter: read the file first"


def _with_line_ends_of(before: str, text: str) -> str:
    """Write line breaks as the file does: an agent never sees whether a line ends with ``\\r\\n``."""
    if "\r\n" not in before or before.count("\n") != before.count("\r\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _line_count(content: str) -> str:
    return count_of(len(lines_of(content)))


def move(base: KnowledgeBase, source_path: str, destination_path: str, overwrite: bool = False) -> str:
    """Give a file or folder another name or place, as ``mv`` does.

    An existing folder, or a path that ends with a slash, is moved into. Folders that are not there yet are
    made.
    """
    source = base.place(source_path)
    if not source.parts:
        raise bad_argument("the root itself cannot be moved")
    base.must_exist(source)
    target = _target(base, source, destination_path)
    if target.parts == source.parts:
        raise ToolFailed(f"{source} is there already", "same_place")
    if target.parts[: len(source.parts)] == source.parts:
        raise ToolFailed(f"{source} cannot be moved into itself", "same_place")
    # Every refusal comes before the first change to the disk: a move that fails leaves no folder behind.
    replaced = target.real.exists()
    if replaced and (target.is_folder or source.is_folder or not overwrite):
        way = "name another" if target.is_folder or source.is_folder else "name another, or overwrite it"
        raise ToolFailed(f"{target} is there already; {way}", "exists")
    with disk_errors(source, "moved"):
        target.real.parent.mkdir(parents=True, exist_ok=True)
        source.real.replace(target.real)
    return f"Moved {source} to {target}{', over what was there' if replaced else ''}."


def remove(base: KnowledgeBase, path: str, confirm: bool = False) -> str:
    """Remove a file, or a folder with all that is in it; only where it is confirmed."""
    place = base.place(path)
    if not confirm:
        raise bad_argument("nothing was removed: confirm must be true")
    if not place.parts:
        raise bad_argument("the root itself cannot be removed")
    base.must_exist(place)
    folder = place.is_folder
    count = len(base.files(place)) if folder else 0
    with disk_errors(place, "removed"):
        if folder:
            # rmtree removes links in the folder and does not follow them.
            shutil.rmtree(place.real)
        else:
            place.real.unlink()
    return f"Removed {place} with {count_of(count, 'file')} in it." if folder else f"Removed {place}."


def _target(base: KnowledgeBase, source: PkmPath, destination: str) -> PkmPath:
    place = base.place(destination)
    if not place.is_folder and not destination.endswith("/") and place.parts:
        return place
    if place.real.exists() and not place.is_folder:
        raise ToolFailed(f"{place} is a file, so nothing can be moved into it", "not_a_folder")
    if place.parts == source.parts:
        return place
    return base.place("/".join(("", *place.parts, source.parts[-1])))


def update_insight(
    base: KnowledgeBase, fact_id: str, insight_text: str, related_fact_ids: Sequence[str] = ()
) -> str:
    """Write an entry's insight into its card, and nothing else there; a missing card is created."""
    workspace, fact = base.workspace, _fact("fact_id", fact_id)
    ids = (_fact("each of related_fact_ids", id).text for id in related_fact_ids)
    related = [id for id in dict.fromkeys(ids) if id != fact.text]
    entry = find_entry(read_file(workspace, fact.daily_file), fact)
    if entry is None:
        raise ToolFailed(f"there is no entry {fact.entry} in {fact.daily_file}", "not_found")
    # A new card is pending, as those that the journal itself begins.
    card = _card(workspace, fact) or {
        "fact_id": fact.text,
        "timestamp": int(entry.written_at.replace(tzinfo=base.clock.now().tzinfo).timestamp()),
        "status": "pending",
        "tags": [],
        "ui_configs": [],
    }
    facts = [{"id": other} for other in related]
    # Character 0, which speaks an insight, is the one of the journal itself.
    card["insight"] = {"text": insight_text.strip(), "related_facts": facts, "character_id": "0"}
    write_file(workspace, fact.card_file, journal.card_text(card))
    tied = f", tied to {count_of(len(related), 'other fact')}" if related else ""
    return f"The insight is on the card of {fact.text}{tied}."


def skip(base: KnowledgeBase, evidence: str) -> str:
    """Accept that an entry is not to be filed; nothing is written."""
    return "The entry is left alone; nothing was filed."


def _fact(name: str, value: str) -> FactId:
    fact = journal.fact_id(value)
    if fact is None:
        raise bad_argument(f"{name} must look like 2026/09/17.md#ts_1, not {describe_value(value)}")
    return fact


def _card(workspace: Workspace, fact: FactId) -> dict[str, Any] | None:
    """Read the card; raises ToolFailed where it could not be written back as it was."""
    blob = read_file(workspace, fact.card_file)
    card = journal.parse_card(blob)
    if blob is not None and blob.strip() and not card:
        raise ToolFailed(f"the card of {fact.text} is no YAML map, and stays as it is", "card_broken")
    return card

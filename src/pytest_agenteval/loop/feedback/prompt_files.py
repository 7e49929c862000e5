"""Which prompts the agent read in the trials that feedback is about, and in which files they stand."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import templates_of
from pytest_agenteval.loop.feedback.content import PromptFile
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.records.prompts import ENDING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import PROMPT_READ
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.json_values import json_digest

PROMPT_FOLDER = "prompts"
"""The folder beside an agent's module from which ``read_templates`` reads its prompts."""

SETTINGS = "settings."
NOT_RECORDED = "not recorded: the run was made before reads of prompts were events, or its agent reads none"


class PromptText(FrozenValue, frozen=True):
    """A prompt file of today: its path, the name under which it may be read, and its text's digest."""

    path: str
    name: str
    digest: str


def given_prompts(texts: Mapping[str, str]) -> list[PromptText]:
    """Give prompt files that somebody names by their paths."""
    return [_prompt(path, text) for path, text in texts.items()]


def _prompt(path: str, text: str, name: str = "") -> PromptText:
    return PromptText(path, name or Path(path).name.partition(".")[0], json_digest(text))


def prompts_of_today(
    entries: Iterable[JournalEntry], tasks: TodaysTasks, factory: Callable[[str], Any]
) -> list[PromptText]:
    """Give the prompt files that suites and tasks name, and those beside the modules of agents.

    ``factory`` gives an agent's class by its name, or None where that is registered by a conftest.
    """
    files: dict[Path, str] = {}
    settings: dict[tuple[str, Path], str] = {}
    agents: set[str] = set()
    for entry in entries:
        files |= {path: name for name, path in tasks.prompt_files(entry).items()}
        settings |= {(name, path): text for name, (path, text) in tasks.instructions(entry).items()}
        agents.add(entry.key.agent)
    for agent in sorted(agents):
        files = {path: name for name, path in _beside(factory(agent))} | files
    read = [_prompt(short_path(path), text, name) for path, name in files.items() if (text := _text(path))]
    return [*read, *(_prompt(short_path(path), text, name) for (name, path), text in settings.items())]


def _beside(agent: Any) -> Iterator[tuple[str, Path]]:
    """Give the files of an agent's own templates, as far as they lie where templates are read from."""
    if agent is None:
        return
    try:
        folder = Path(inspect.getfile(agent)).parent / PROMPT_FOLDER
    except TypeError:  # what is made in no file, or is no class
        return
    for name in templates_of(agent) or ():
        path = folder / f"{name}{ENDING}"
        if path.is_file():
            yield name, path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def prompt_list(trials: Sequence[Trial], today: Sequence[PromptText]) -> tuple[tuple[PromptFile, ...], str]:
    """Give the prompts that trials read, most often read first, and in words what is known of that.

    Where no read is recorded these are the files of today, of which nobody knows whether they were read.
    """
    reads: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        events = (event for event in trial.transcript.events if event.kind == PROMPT_READ)
        reads.update({(event.text, str(event.details.get("digest", ""))) for event in events})
    if not reads:
        return tuple(replace(_unread(each), read_in=None) for each in today), NOT_RECORDED
    ordered = sorted(reads.items(), key=lambda read: (-read[1], read[0]))
    prompts = tuple(_read_prompt(name, mark, times, today) for (name, mark), times in ordered)
    unread = [each for each in today if all(each.name != name for name, _ in reads)]
    others = tuple(_unread(each) for each in unread)
    return (*prompts, *others), f"recorded in {pluralize(len(trials), 'trial')} of these buckets"


def _unread(each: PromptText) -> PromptFile:
    if each.name.startswith(SETTINGS):  # which are no prompts whose reads are recorded
        return PromptFile(each.name, each.digest, each.path, note=f"`{each.name}`")
    return PromptFile(each.name, each.digest, each.path, 0)


def _read_prompt(name: str, mark: str, times: int, today: Sequence[PromptText]) -> PromptFile:
    same = [each for each in today if each.digest == mark]
    named = [each for each in today if each.name == name]
    if same:
        return PromptFile(name, mark, same[0].path, times)
    if named:
        return PromptFile(name, mark, named[0].path, times, "the file has another text today")
    return PromptFile(name, mark, "", times, "its file is not known")

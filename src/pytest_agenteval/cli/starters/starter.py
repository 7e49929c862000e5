"""The four kinds of first suite: an agent in Python, a command, a model with tools, one that keeps files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pytest_agenteval.cli.starters.project import Project, module_name
from pytest_agenteval.cli.starters.writing import NewFile
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.session.planning.suites import recordings_of

RECORDINGS = "cassettes"
"""The folder of a kind's templates that does not go into the suite."""


class Starter(FrozenValue, frozen=True):
    """A kind of first suite.

    ``options`` are those of pytest with which it runs offline, ``change`` says what to change first, by lines
    of what to change and what to type then.
    """

    suite: str
    options: tuple[str, ...]
    change: tuple[str, ...]


STARTERS: Mapping[str, Starter] = {
    "python": Starter(
        "orders",
        (),
        (
            "the agent: `agent: {call: package.module:function}` in {{folder}}/suite.yaml names yours",
            "record it: OPENAI_API_KEY=... {{pytest}} {{folder}} --agent-record=once --agent-record-chat=all",
        ),
    ),
    "command": Starter(
        "museum",
        (),
        (
            "the agent: `agent: {command: [...]}` in {{folder}}/suite.yaml names your program",
            "in Node or bash: {{folder}}/suite.yaml has the same program in both",
            "record it: OPENAI_API_KEY=... {{pytest}} {{folder}} --agent-record=once --agent-record-chat=all",
        ),
    ),
    "tools": Starter(
        "units",
        ("--agent-model=oracle",),
        (
            "the tools: the functions of {{folder}}/tools.py",
            "no LLM, mediocre on purpose: {{pytest}} {{folder}}",
            "a real model: OPENAI_API_KEY=... {{pytest}} {{folder}} --agent-model=gpt",
        ),
    ),
    "workspace": Starter(
        "notes",
        (),
        (
            "the agent: `agent: {call: package.module:function}` in {{folder}}/suite.yaml names yours",
            "where a trial starts: the files of workspace/ beside each task.yaml",
            "record it: OPENAI_API_KEY=... {{pytest}} {{folder}} --agent-record=once --agent-record-chat=all",
        ),
    ),
}


def starter_files(kind: str, suite: str, project: Project) -> list[NewFile]:
    """Give the files of a first suite, and the recordings that its first run plays."""
    folder = project.evals / suite
    words = {"suite": suite, "module": module_name(suite), "python": _python()}
    written = (
        NewFile(_place(path, folder, suite, project.root), _filled(template, words))
        for path, template in _templates(files(__package__) / "templates" / kind)
    )
    return sorted(written, key=lambda file: (not file.path.is_relative_to(folder), file.path))


def _templates(folder: Traversable, below: str = "") -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_file():
            yield f"{below}{each.name}", each
        elif each.name != "__pycache__":  # of an installer that compiles all that ends with .py
            yield from _templates(each, f"{below}{each.name}/")


def _place(path: str, folder: Path, suite: str, root: Path) -> Path:
    top, _, below = path.partition("/")
    if top == RECORDINGS:  # TASK.chat/MODEL-REPETITION.yaml
        task, _, name = below.partition(".chat/")
        return Path(f"{recordings_of(folder / f'{task}.yaml', root)}.chat", name)
    return folder / (f"{module_name(suite)}_bot.py" if path == "bot.py" else path)


def _filled(template: Traversable, words: Mapping[str, str]) -> bytes:
    text = template.read_bytes().decode("utf-8")
    return fill(text, words).encode("utf-8")


def fill(text: str, words: Mapping[str, str]) -> str:
    """Put words in the places of their names: ``{{name}}``."""
    for name, word in words.items():
        text = text.replace("{{" + name + "}}", word)
    return text


def shared_template(name: str) -> str:
    """Give the text of a template that is of no kind."""
    return (files(__package__) / "templates" / "shared" / name).read_text(encoding="utf-8")


def _python() -> str:
    """Name what starts Python here, with or without a virtual environment: the program needs no library."""
    found = shutil.which("python3")
    return "python3" if found and "WindowsApps" not in found else "python"  # there it only leads to a shop

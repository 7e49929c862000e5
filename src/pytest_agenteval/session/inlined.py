"""Settings that name a file, such as a rubric: the grader is given the file's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_agenteval.errors import Problem, ProblemsFound
from pytest_agenteval.session.checking import Checker
from pytest_agenteval.tasks.documents import read_bytes, shown
from pytest_agenteval.tasks.layers import grader_files
from pytest_agenteval.tasks.load import LoadedTask


def inlined(loaded: LoadedTask, checker: Checker, suite_dir: Path | None, root: Path) -> LoadedTask:
    """Put the texts of files in the place of their names; raises ProblemsFound where one cannot be read."""
    texts: dict[int, Mapping[str, str]] = {}
    for index, spec in enumerate(loaded.task.graders):
        endings = checker.files_of(spec.name) if spec.config else None
        if endings:
            files = grader_files(loaded.task, index, endings, suite_dir, loaded.file, root)
            texts[index] = {key: text_of(path) for key, path in files.items()}
    if not any(texts.values()):
        return loaded
    graders = tuple(
        spec.model_copy(update={"config": {**spec.config, **texts.get(index, {})}})
        for index, spec in enumerate(loaded.task.graders)
    )
    return replace(loaded, task=loaded.task.model_copy(update={"graders": graders}))


def text_of(path: Path) -> str:
    """Read a file that has to be text in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as broken:
        found = f"the byte 0x{broken.object[broken.start]:02x}"
        raise ProblemsFound([Problem(shown(path), None, (), "a text in UTF-8", found)]) from None

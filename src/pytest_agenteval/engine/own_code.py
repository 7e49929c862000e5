"""Digests of what a trial depends on without its agent being told: code of tools, of graders, of players."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_agenteval.engine.agent_code import own_files
from pytest_agenteval.records.plan import McpServer, Model, Plan, PlannedTask
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.canonical import digest, digest_text
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.tools.toolsets import files_of_tools

RULES, IDLE = "rules", "nop"
"""Offline models of ours that know nothing of the task; all others may act out what it says."""


def tool_code_digest(task: PlannedTask, specs: Sequence[ToolSpec], registry: Registry) -> str:
    """Give the digest of the files that the tools of a task are written in; empty where there are none.

    They are the suite's files of tools, and those of registered tools among ``specs``. Of a server of tools
    it is what the suite says of it, and the files that its command names. What these files import is left
    out.
    """
    registered = registry.tools
    files = {
        file for spec in specs if spec.name in registered for file in _files(registered[spec.name].function)
    }
    servers = []
    for entry in task.tools:
        if isinstance(entry, McpServer):
            servers.append(_server(entry))
            files.update(entry_file for part in entry.command for entry_file in _file_of_command(entry, part))
        else:
            places = registry.toolsets.get(entry) or (Path(entry),)
            files.update(str(file) for place in places for file in files_of_tools(place))
    return _digest(files, *servers)


def acted_out(plan: Plan) -> tuple[Any, ...]:
    """Give what an offline model acts out of a task: a script, the reference, or both where nobody knows."""
    model, task = plan.model, plan.task
    if not model.offline or model.id in (RULES, IDLE):
        return ()
    whole = {"scripted": (task.script,), "oracle": (task.reference,)}
    return tuple(part for part in whole.get(model.id, (task.script, task.reference)) if part)


def player_code_digest(model: Model, registry: Registry) -> str:
    """Give the digest of the files of an offline model that is somebody's own, or of who plays ``rules``."""
    if model.id == RULES:
        return _digest(file for player in registry.own_players for file in _files(player))
    with suppress(UsageMistake):  # a model that nobody has registered breaks its trial
        return _digest(_files(registry.model_factory(model.id)))
    return ""


def grader_code_digest(grader: object) -> str:
    """Give the digest of the files of a grader's class or function; empty for those of ours."""
    return _digest(_files(grader))


def _files(thing: object) -> set[str]:
    try:
        return own_files(thing)
    except Exception:  # a class that says odd things of itself is still one that can be used
        return set()


def _digest(files: Iterable[str], *more: Any) -> str:
    texts = sorted(set(_texts(files)))
    more = tuple(each for each in more if each)
    return digest([texts, *more])[:16] if texts or more else ""


def _texts(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        with suppress(OSError):
            # Read as text, in which every line ends alike.
            yield digest_text(Path(file).read_text(encoding="utf-8", errors="surrogateescape"))


def _server(server: McpServer) -> Any:
    """Give what a suite says of a server of tools, but not where the project lies."""
    own = server.to_json()
    return KNOWN_SECRETS.value({key: value for key, value in own.items() if key not in ("folder", "schemas")})


def _file_of_command(server: McpServer, part: str) -> Iterator[str]:
    file = Path(server.folder, server.cwd, part)
    with suppress(OSError, ValueError):
        if file.is_file():
            yield str(file)

"""The tools of a suite: those of files and registered sets, and those that servers offer."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.tasks.referenced_files import suite_paths
from pytest_agenteval.tasks.suite_spec import Suite
from pytest_agenteval.tasks.task_spec import ServedTools
from pytest_agenteval.text.errors import (
    AgentEvalError,
    KeyPath,
    Problem,
    ProblemsFound,
    did_you_mean,
    nearest_names,
)
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import compact_json

if TYPE_CHECKING:
    from pytest_agenteval.tools.mcp_client import ServedTool
    from pytest_agenteval.tools.mcp_tools import SchemaSource


MOST_SCHEMA = 80  # characters of a broken schema that are quoted

_WAYS_OUT = "use `only: […]` to take fewer of its tools, or `prefix: …` to rename them"


def replays_below(root: Path) -> SchemaSource:
    """Look up what servers offer in recordings alone."""
    from pytest_agenteval.tools.mcp_tools import SchemaSource

    return SchemaSource(root)


class ToolSources(NamedTuple):
    """Where suites take tools from: registered sets, and what servers offer, recorded or live.

    ``schemas`` gives, for a root folder, where the tools of servers are looked up.
    """

    registry: Registry
    schemas: Callable[[Path], SchemaSource] = replays_below


class ToolEntry(NamedTuple):
    """One entry of a suite's ``tools``: its value in plans, the names of its tools, and its files."""

    planned: str | McpServer
    names: tuple[str, ...]
    files: tuple[Path, ...] = ()

    @property
    def title(self) -> str:
        """Its name in messages."""
        if isinstance(self.planned, McpServer):
            return f"`{self.planned.title}`"
        return short_path(Path(self.planned))


def find_tools(
    suite: Suite, file: Path, recordings: str, root: Path, sources: ToolSources
) -> tuple[ToolEntry, ...]:
    """Find the tools that a suite file names; raises ProblemsFound for one that is missing or unreadable."""
    # ``recordings`` is the path of the suite's own recordings, without an ending.
    entries = _named_entries(suite, file.parent, root, sources)
    for index, entry in enumerate(suite.tools):
        if isinstance(entry, ServedTools):
            entries[index] = _server_entry(entry, index, file, recordings, sources.schemas(root))
    in_order = [entries[index] for index in range(len(suite.tools))]
    problems = list(_clashes(in_order, sources, file))
    if problems:
        raise ProblemsFound(problems)
    return tuple(in_order)


def _named_entries(suite: Suite, folder: Path, root: Path, sources: ToolSources) -> dict[int, ToolEntry]:
    """Find the files and registered sets among the entries, by their index."""
    names = {index: entry for index, entry in enumerate(suite.tools) if isinstance(entry, str)}
    if not names:
        return {}
    from pytest_agenteval.tools.toolsets import files_of_tools, load_tools

    toolsets = sources.registry.toolsets
    files = {index: name for index, name in names.items() if name not in toolsets}
    try:
        paths = suite_paths(folder, "tools", files, root, root, "file")
    except ProblemsFound as missing:
        problems = []
        # The name may be meant as a toolset, so the message lists these too.
        for problem in missing.problems:
            entry = next(names[step] for step in problem.path if isinstance(step, int))
            also = f", or a toolset: {nearest_names(entry, toolsets)}" if toolsets else ""
            # An unknown toolset may belong to a benchmark that cannot be used.
            broken = "; ".join(sources.registry.broken_benchmarks)
            hint = problem.hint or did_you_mean(entry, toolsets) or broken
            problems.append(dataclasses.replace(problem, expected=problem.expected + also, hint=hint))
        raise ProblemsFound(problems) from None
    places = dict(zip(files, paths, strict=True))
    planned = {index: str(places.get(index, name)) for index, name in names.items()}
    return {
        index: ToolEntry(
            entry,
            tuple(load_tools(entry, toolsets=toolsets)),
            files_of_tools(places[index]) if index in places else (),
        )
        for index, entry in planned.items()
    }


def _server_entry(
    entry: ServedTools, at: int, file: Path, recordings: str, schemas: SchemaSource
) -> ToolEntry:
    """Find out which tools the server offers that is the entry ``at`` of a suite; raises ProblemsFound."""
    from pytest_agenteval.tools.mcp_client import is_object_schema
    from pytest_agenteval.tools.mcp_tools import equal_names, know_secrets, server_of, tools_of_server

    def refuse(found: Iterable[tuple[KeyPath, str, str, str]]) -> None:
        if problems := [_problem(file, (at, *below), *rest) for below, *rest in found]:
            raise ProblemsFound(problems)

    refuse(_server_mistakes(entry, file.parent))
    server = server_of(entry, file.parent, recordings)
    know_secrets(server)
    served = _served_tools(server, at, file, schemas)
    names = [tool.name for tool in served]
    refuse(
        (
            ("only", index),
            f"a tool of this server: {nearest_names(name, names)}",
            repr(name),
            did_you_mean(name, names),
        )
        for index, name in enumerate(entry.only)
        if name not in names
    )
    refuse(
        (
            ("mcp",),
            "tools whose `inputSchema` is the schema of an object, {type: object, ...}",
            f"{tool.name!r} of this server, with {one_line(compact_json(tool.parameters), MOST_SCHEMA)}",
            "use `only: […]` to leave it out",
        )
        for tool in served
        if (not server.only or tool.name in server.only) and not is_object_schema(tool.parameters)
    )
    refuse(
        (
            ("mcp",),
            "tools with unique names",
            f"{' and '.join(map(repr, both))} of this server, which a model sees both as {name!r}",
            "use `only: […]` to take one of them",
        )
        for name, *both in equal_names(server, served)
    )
    return ToolEntry(server, tuple(tools_of_server(server, served)))


def _server_mistakes(entry: ServedTools, folder: Path) -> Iterator[tuple[KeyPath, str, str, str]]:
    where = entry.mcp
    if bool(where.command) == bool(where.url):
        expected = "either `command`, a list that starts the server, or `url`"
        yield ("mcp",), expected, "both" if where.url else "neither", ""
        return
    way, others = ("url", ("env", "cwd")) if where.url else ("command", ("headers",))
    for key in others:
        if getattr(where, key):
            yield ("mcp", key), f"no `{key}` beside `{way}`", "one", ""
    if where.url and not where.url.startswith(("http://", "https://", "${")):
        yield ("mcp", "url"), "an address: http://… or https://…", repr(where.url), ""
    if where.command and not (folder / where.cwd).is_dir():
        yield ("mcp", "cwd"), "a folder, from the suite's folder", repr(where.cwd), ""


def _served_tools(server: McpServer, at: int, file: Path, schemas: SchemaSource) -> tuple[ServedTool, ...]:
    from pytest_agenteval.tools.mcp_tools import SchemaNotRecorded

    try:
        return schemas.tools_of(server)
    except SchemaNotRecorded as missing:
        command = f"pytest {shlex.quote(short_path(file.parent))} --agent-record={missing.mode}"
        expected = f"a recording of its tools in {missing.file} (mode is {missing.why}: no server is started)"
        found, hint = f"no recording of what `{server.title}` offers", f"record it:  {command}"
    except ProblemsFound:
        raise
    except AgentEvalError as raised:
        expected, found, hint = "a server that starts and lists its tools", str(raised), ""
    raise ProblemsFound([_problem(file, (at, "mcp"), expected, found, hint)])


def _clashes(entries: Sequence[ToolEntry], sources: ToolSources, file: Path) -> Iterator[Problem]:
    """Give the tools of a server that have the name of another tool."""
    # Among files that is no problem: a later tool has always replaced an earlier one.
    if not any(isinstance(entry.planned, McpServer) for entry in entries):
        return
    owners: dict[str, tuple[int | None, str]] = {
        name: (None, f"of {who}, which registered it")
        for name, who in sources.registry.tool_claimants.items()
    }
    for index, entry in enumerate(entries):
        for name in entry.names:
            first, owner = owners.setdefault(name, (index, f"of {entry.title}"))
            both = [at for at in (index, first) if at is not None]
            places = [at for at in both if isinstance(entries[at].planned, McpServer)]
            if first != index and places:
                found = f"{name!r} {owner} and of {entry.title}"
                yield _problem(file, (places[0], "mcp"), "tools with unique names", found, _WAYS_OUT)


def _problem(file: Path, below: tuple[str | int, ...], expected: str, found: str, hint: str = "") -> Problem:
    path = ("tools", *below)
    # A suite may be written in Python: there, whoever catches the problem adds the line of the call.
    line = None if file.suffix == ".py" else read_document(file).line_of(path)
    return Problem(short_path(file), line, path, expected, found, hint)

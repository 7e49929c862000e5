"""The house has floors: a module imports only from lower ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.source_code import MODULES, SOURCE, imports, lines_with, place, text

PACKAGE = "pytest_agenteval"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("text", "processes"),
    ("records",),
    ("tasks", "cassettes"),
    ("chat", "tools", "store"),
    ("agents", "graders", "compare"),
    ("reports", "calibration"),
    ("registry",),
    ("engine",),
    ("session", "benchmarks"),
    ("loop", "plugin"),
    ("cli",),
)
"""Rooms from the ground up. A room is a module or a folder at the top of the package."""

FREE = ("__init__",)


@cache
def _libraries(path: Path) -> frozenset[str]:
    """Give the first names of everything that a module imports from outside its own folder."""
    return frozenset(name.split(".")[0] for name, _ in imports(text(path)))


def _dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = frozenset(map(_dotted, MODULES))


def _floor(room: str) -> int:
    for number, rooms in enumerate(FLOORS):
        if room in rooms:
            return number
    raise AssertionError(f"the room {room!r} has no floor: put it where it belongs in FLOORS")


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(source: str) -> Iterator[str]:
    """Give every module of ours that is imported, at the top in a function, or for types alone."""
    for module, names in imports(source):
        if module.split(".")[0] == PACKAGE:
            inner = [f"{module}.{name}" for name in names]
            modules = [name for name in inner if name in NAMES]
            yield from modules
            if not inner or (len(modules) < len(inner) and module != PACKAGE):
                yield module


_QUOTED = re.compile(r"""["']([a-z_]\w*(?:\.\w+)+)""")

NAMED_ONLY = {
    ("session/trial_items.py", "plugin"): "pytest's plugins are compared with this name",
    ("registry/registration.py", "plugin"): "pytest's plugins are compared with this name",
    ("registry/installed.py", "benchmarks"): "a group of entry points has this name",
    ("registry/installed.py", "engine.local_executor"): "executors are offered by name, as a benchmark does",
    ("registry/installed.py", "engine.process_executor"): "the same",
    ("registry/installed.py", "engine.cluster.ray_executor"): "the same",
}
"""Modules of ours that stand in a text and are not imported by whoever names them, and why."""


def _named(source: str) -> Iterator[str]:
    """Give every module of ours that a text in quotes names, wholly or by how an f-string begins.

    ``import_module("pytest_agenteval.reports.html_report")`` is an import, and so is a table of such names,
    with the package's name or without. A text that begins with ``{__package__}`` stays in its own room.
    """
    for match in _QUOTED.finditer(source):
        name = match[1] if match[1].startswith(f"{PACKAGE}.") else f"{PACKAGE}.{match[1]}"
        if match[1].startswith(f"{PACKAGE}."):
            while name not in NAMES:
                name = name.rpartition(".")[0]
        if name in NAMES and name != PACKAGE:
            yield name


@cache
def _imported(path: Path) -> frozenset[str]:
    source = text(path)
    named = {
        name for name in _named(source) if (place(path), name.removeprefix(f"{PACKAGE}.")) not in NAMED_ONLY
    }
    return frozenset(_imports(source)) | named - {_dotted(path)}


def test_a_module_that_is_named_in_a_text_counts_as_imported() -> None:
    """Neither ``import_module`` nor a table of names hides an arrow; other texts are no modules."""
    texts = """
        import_module("pytest_agenteval.records.trial")
        import_module(f"pytest_agenteval.cli.{verb}")
        {"local": 'engine.local_executor:LocalExecutor', "other": "json.decoder", "no.module": "trial.py"}
        import_module(f"{__package__}.anthropic")
    """
    found = {name.removeprefix(f"{PACKAGE}.") for name in _named(texts)}
    assert found == {"records.trial", "cli", "engine.local_executor"}


def test_modules_import_only_from_lower_floors() -> None:
    """Imports go down, or stay in the room: a part can be read and moved without what is above it."""
    paths = [path for path in MODULES if path.parent != SOURCE or path.stem not in FREE]
    assert [wrong for path in paths for wrong in _imports_upward(path)] == []


def _imports_upward(path: Path) -> Iterator[str]:
    room = _room(path)
    for name in _imported(path):
        other = name.split(".")[1] if "." in name else ""
        if other and other != room and not other.startswith("__") and _floor(other) >= _floor(room):
            yield f"{path.relative_to(SOURCE)} (floor {_floor(room)}) imports {name}"


def test_core_imports_no_benchmark_and_benchmarks_not_each_other() -> None:
    """Benchmarks are guests: they come through the registry, and any of them may be missing."""
    assert [wrong for path in MODULES for wrong in _guests_imported(path)] == []


def _guests_imported(path: Path) -> Iterator[str]:
    inner = path.relative_to(SOURCE).parts
    own = f"{PACKAGE}.benchmarks.{inner[1]}" if inner[0] == "benchmarks" and len(inner) > 2 else ""
    for name in _imported(path):
        guest = name.startswith(f"{PACKAGE}.benchmarks.")
        if guest and not (own and f"{name}.".startswith(f"{own}.")):
            yield f"{path.relative_to(SOURCE)} imports {name}"


SPELLINGS_OF_A_GUEST = {"tasks/task_spec.py"}
"""Keys of task files that may be spelled as a benchmark does: a documented alias of the file format."""


def test_core_names_no_benchmark() -> None:
    """Whoever reads or extends the core meets no benchmark, in code, texts or templates."""
    names = r"(?i:memex|ko[-_ ]?agent[-_ ]?bench|korean benchmark|benchmarks/(?!\{)\w)"
    files = (file for file in SOURCE.rglob("*") if file.suffix in (".py", ".jinja", ".css", ".yaml", ".json"))
    core = [file for file in files if file.relative_to(SOURCE).parts[0] != "benchmarks"]
    named = lines_with(names, [file for file in core if place(file) not in SPELLINGS_OF_A_GUEST])
    assert len(core) > 200
    assert not named


def test_modules_of_one_folder_do_not_import_each_other_in_a_circle() -> None:
    """A circle inside a room is a circle all the same."""
    graph = {_dotted(path): _imported(path) for path in MODULES}
    done: set[str] = set()
    for start in graph:
        _walk(start, graph, (), done)


def _walk(name: str, graph: dict[str, frozenset[str]], path: tuple[str, ...], done: set[str]) -> None:
    assert name not in path, f"a circle: {' -> '.join((*path, name))}"
    if name in done or name not in graph:
        return
    for other in graph[name]:
        _walk(other, graph, (*path, name), done)
    done.add(name)


def _named_in(library: str) -> set[str]:
    """Give the modules that import a library."""
    return {place(path) for path in MODULES if library in _libraries(path)}


@pytest.mark.parametrize(
    ("library", "places"),
    [
        ("litellm", {"chat/litellm_chat.py"}),
        ("aiohttp", {"chat/direct/http_pool.py", "cassettes/http/patch_aiohttp.py"}),
        ("opentelemetry", {"reports/exports/otel_sdk.py", "engine/otel_processor.py"}),
        ("vcr", {"cassettes/cassette_files.py"}),
        ("jinja2", {"records/prompts.py", "reports/html_report.py", "loop/feedback/content.py"}),
        ("ray", {"engine/cluster/ray_cluster.py"}),
        ("xdist", {"session/xdist.py"}),
        ("jsonschema", {"text/patterns.py", "tools/tool.py", "graders/answers.py"}),
        ("regex", {"text/patterns.py"}),
        ("pandas", {"store/rows.py"}),
        ("pyarrow", {"store/rows.py", "reports/exports/row_files.py"}),
        ("torch", {"chat/local/transformers_model.py"}),
        ("transformers", {"chat/local/transformers_model.py"}),
        ("duckdb", {"reports/exports/row_files.py"}),
    ],
)
def test_a_heavy_library_is_named_in_one_place(library: str, places: set[str]) -> None:
    """A library that is named in one file can be replaced in one file."""
    assert _named_in(library) <= places


def test_no_module_has_a_name_that_says_nothing() -> None:
    """utils, helpers, common, base, core, manager and misc are not names."""
    banned = {"util", "utils", "helper", "helpers", "common", "base", "core", "manager", "misc"}
    assert not [path for path in MODULES if path.stem in banned or path.parent.name in banned]

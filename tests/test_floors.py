"""The house has floors: a module imports only from lower ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "pytest_agenteval"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE

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


MODULES = sorted(SOURCE.rglob("*.py"))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Give the statements below a node; an expression holds no import, and most nodes are expressions."""
    children = (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    return (child for child in children if not isinstance(child, ast.expr_context))


@cache
def _libraries(path: Path) -> frozenset[str]:
    """Give the first names of everything that a module imports from outside its own folder."""
    found: set[str] = set()
    left = [*_statements(_parsed(path))]
    while left:
        node = left.pop()
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        found |= {name.split(".")[0] for name in names}
        left += _statements(node)
    return frozenset(found)


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


def _imports(tree: ast.AST) -> Iterator[str]:
    """Give every module of ours that is imported, at the top in a function, or for types alone."""
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if name in NAMES]
            yield from modules
            if len(modules) < len(inner) and node.module != PACKAGE:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        yield from _imports(node)


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

    ``import_module("pytest_agenteval.reports.html_index")`` is an import, and so is a table of such names,
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
    source = path.read_text(encoding="utf-8")
    place = path.relative_to(SOURCE).as_posix()
    named = {name for name in _named(source) if (place, name.removeprefix(f"{PACKAGE}.")) not in NAMED_ONLY}
    return frozenset(_imports(_parsed(path))) | named - {_dotted(path)}


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
    names = re.compile(r"memex|ko[-_ ]?agent[-_ ]?bench|korean benchmark|benchmarks/(?!\{)\w", re.IGNORECASE)
    files = (file for file in SOURCE.rglob("*") if file.suffix in (".py", ".jinja", ".css", ".yaml", ".json"))
    core = [file for file in files if file.relative_to(SOURCE).parts[0] != "benchmarks"]
    named = {
        f"{file.relative_to(SOURCE).as_posix()}:{number}: {line.strip()}"
        for file in core
        if file.relative_to(SOURCE).as_posix() not in SPELLINGS_OF_A_GUEST
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if names.search(line)
    }
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
    return {path.relative_to(SOURCE).as_posix() for path in MODULES if library in _libraries(path)}


@pytest.mark.parametrize(
    ("library", "places"),
    [
        ("litellm", {"chat/litellm_chat.py"}),
        ("aiohttp", {"chat/direct/http_pool.py", "cassettes/http/patch_aiohttp.py"}),
        ("opentelemetry", {"reports/exports/otel_sdk.py", "engine/otel_processor.py"}),
        ("vcr", {"cassettes/cassette_files.py"}),
        ("jinja2", {"records/prompts.py", "reports/html_report.py", "loop/feedback/markdown.py"}),
        ("ray", {"engine/cluster/ray_cluster.py"}),
        ("xdist", {"session/xdist.py"}),
        ("jsonschema", {"text/patterns.py", "tools/tool.py", "graders/answers.py"}),
        ("regex", {"text/patterns.py"}),
        ("pandas", {"store/rows.py"}),
        ("polars", {"store/rows.py"}),
        ("pyarrow", {"reports/exports/row_files.py"}),
        ("torch", {"chat/local/transformers_model.py"}),
        ("transformers", {"chat/local/transformers_model.py"}),
        ("duckdb", {"reports/exports/sql.py"}),
    ],
)
def test_a_heavy_library_is_named_in_one_place(library: str, places: set[str]) -> None:
    """A library that is named in one file can be replaced in one file."""
    assert _named_in(library) <= places


def test_no_module_has_a_name_that_says_nothing() -> None:
    """utils, helpers, common, base, core, manager and misc are not names."""
    banned = {"util", "utils", "helper", "helpers", "common", "base", "core", "manager", "misc"}
    assert not [path for path in MODULES if path.stem in banned or path.parent.name in banned]

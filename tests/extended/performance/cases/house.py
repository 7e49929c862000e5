"""How much there is to read, and how much of it runs: figures that are the same on every machine."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tests.extended.performance import suites
from tests.extended.performance.bench import ROOT, SCRIPTED, Bench
from tests.extended.performance.cases.live import asking, served_model
from tests.extended.performance.program import Program
from tests.extended.performance.rows import Row
from tests.source_code import MODULES
from tests.test_floors import FLOORS

FEW, MORE = 100, 300


def house(bench: Bench) -> Iterator[Row]:
    """Count files, lines and calls."""
    yield from _sizes()
    yield from _calls(bench)


def _sizes() -> Iterator[Row]:
    kinds = sum((lines_by_kind(path.read_text(encoding="utf-8")) for path in MODULES), Counter())
    yield Row("files of src", len(MODULES))
    yield Row("lines of src", kinds.total(), goal=65_000)
    for kind in ("code", "docstring", "blank", "import", "comment"):
        yield Row(f"lines of src: {kind}", kinds[kind])
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    yield Row("lines of tests", sum(len(text.splitlines()) for text in tests), goal=55_000)
    yield Row("rooms of src", len([room for floor in FLOORS for room in floor if room != "plugin"]), goal=20)
    yield Row("floors of src", len(FLOORS), goal=11)


def lines_by_kind(source: str) -> Counter[str]:
    """Count the lines of a module by kind; a comment beside code is code."""
    kinds = dict.fromkeys(range(1, len(source.splitlines()) + 1), "code")
    for number, line in enumerate(source.splitlines(), 1):
        if not line.strip():
            kinds[number] = "blank"
        elif line.lstrip().startswith("#"):
            kinds[number] = "comment"
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            kind = "docstring" if is_text else "import"
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), kind)
    return Counter(kinds.values())


def _calls(bench: Bench) -> Iterator[Row]:
    counted = {
        count: _counted(
            bench.ours(suites.write(bench.place / f"counted_{count}", count, MORE), "evals", SCRIPTED)
        )
        for count in (1, FEW, MORE)
    }
    yield Row("functions of ours that one offline trial runs", counted[1]["functions"], goal=700)
    further = (counted[MORE]["calls"] - counted[FEW]["calls"]) / (MORE - FEW)
    yield Row("calls of ours for a further offline trial", round(further))
    for tools, what, goal in ((False, "a reply of text", 40), (True, "a reply with a tool call", None)):
        place = replace(bench, place=bench.place / f"counted_{what.replace(' ', '_')}")
        with served_model(0, tools=tools) as served:
            program = asking(place, served, "direct", 2, tools=tools)
            assert isinstance(program, Program)
            calls = _counted(program)["reply"]
        yield Row(f"calls of ours from the body of {what} to the transcript", calls, goal=goal)


def _counted(program: Program) -> dict[str, int]:
    """Run a program of ours once, with its calls counted."""
    file = program.folder / "counted.json"
    plugin = ("-p", "tests.extended.performance.counted_calls")
    at = program.command.index("pytest") + 1
    path = ":".join(filter(None, (program.environ.get("PYTHONPATH", ""), str(ROOT))))
    replace(
        program,
        command=(*program.command[:at], *plugin, *program.command[at:]),
        environ={**program.environ, "PYTHONPATH": path, "COUNTED_CALLS": str(file)},
    ).run()
    figures: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    return figures

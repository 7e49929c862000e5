"""Tools in a Python file of a suite."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_agenteval.canonical import digest_text
from pytest_agenteval.errors import Problem, ProblemsFound
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tools.functions import UnfitFunction, tool_of
from pytest_agenteval.tools.tool import Tool

_A_TOOL = "a function whose parameters have type hints, and that is called by their names"
_HIDDEN = "a function that is no tool has a name that begins with '_'"


def python_tools(path: Path) -> dict[str, Tool]:
    """Give the tools of a Python file, in its order.

    They are the public functions with type hints that the file defines, and the tools that it makes itself,
    which come before functions of the same name. Each request that a function makes is taped: nobody has to
    say of one that it asks the outside world.
    """
    module = _import_file(path)
    public = [value for name, value in vars(module).items() if not name.startswith("_")]
    functions = [one for one in public if inspect.isfunction(one) and _is_defined_in(one, module)]
    made = {one.spec.name: one for one in public if isinstance(one, Tool)}
    free = [one for one in functions if one.__name__ not in made and inspect.get_annotations(one)]
    if not free and not made:
        found = f"{', '.join(one.__name__ for one in functions)} without any" if functions else "no function"
        raise ProblemsFound([Problem(short_path(path), None, (), "a public function with type hints", found)])
    return {**_tools_of(free, path), **made}


def _tools_of(functions: Iterable[Callable[..., Any]], path: Path) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for function in functions:
        try:
            tools[function.__name__] = tool_of(function, uses_http=True)
        except UnfitFunction as unfit:
            problems.append(Problem(short_path(path), unfit.line, (unfit.name,), _A_TOOL, unfit.why, _HIDDEN))
    if problems:
        raise ProblemsFound(problems)
    return tools


def _is_defined_in(function: object, module: ModuleType) -> bool:
    return getattr(function, "__module__", "") == module.__name__


def _import_file(path: Path) -> ModuleType:
    """Import the file under a name of its own, so that several suites may have a ``tools.py``."""
    name = f"agenteval_tools_{path.stem}_{digest_text(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProblemsFound([Problem(short_path(path), None, (), "a Python file", f"a {path.suffix} file")])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # an author's file may raise anything
        sys.modules.pop(name, None)
        raise ProblemsFound([_import_problem(path, error)]) from None
    return module


def _import_problem(path: Path, error: BaseException) -> Problem:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    found = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return Problem(short_path(path), line, (), "a Python file that can be imported", found)

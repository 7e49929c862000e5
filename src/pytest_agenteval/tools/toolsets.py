"""The sources of tools: registered sets, files of a suite, and Python functions.

A function's type hints become the schema and its docstring the description.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
import typing
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.truncation import truncated
from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import text_digest
from pytest_agenteval.tools.tool import Tool, ToolFailed

if TYPE_CHECKING:
    from pydantic import BaseModel


_FREE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_A_TOOL = "a function whose parameters have type hints, and that is called by their names"
_HIDDEN = "a function that is no tool has a name that begins with '_'"


class UnfitFunction(UsageMistake):
    """A function cannot be described by a schema: where it is, and why."""

    def __init__(self, function: Callable[..., Any], why: str) -> None:
        code = getattr(inspect.unwrap(function), "__code__", None)
        self.line: int | None = code.co_firstlineno if code else None
        self.name, self.why = function.__name__, why
        place = f"{short_path(Path(code.co_filename))}:{self.line}" if code else repr(function)
        super().__init__(f"{place}: {self.name} cannot be a tool: {why}")


def tool_of(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    taped: bool = False,
    uses_http: bool = False,
    matching: Mapping[str, Any] | None = None,
) -> Tool:
    """Make a tool of a function, sync or async, with arguments by name.

    Each parameter needs a type hint, and has the default that the function gives it. A tool that asks the
    outside world is ``taped`` by its calls, or by the requests it makes if it ``uses_http``. Raises
    UnfitFunction, with file and line, for one that no schema describes.
    """
    from pydantic import ConfigDict, Field, PydanticUserError, create_model

    # Its value would be a generator that nobody reads.
    if inspect.isasyncgenfunction(function):
        _refuse(function, "it yields what it finds; return a list")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        _refuse(function, f"a type hint cannot be read: {error}")
    # The model's fields have numbers, since an argument may have a name that pydantic refuses.
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind in _FREE or parameter.kind is parameter.POSITIONAL_ONLY:
            shown = str(parameter).split(":")[0]
            _refuse(function, f"{shown!r} cannot be given by name; name each parameter")
        if parameter.name not in hints:
            _refuse(function, f"the parameter {parameter.name!r} has no type hint")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"f{number}"] = (hints[parameter.name], Field(default, alias=parameter.name))
    try:
        # An argument that the function lacks is the agent's mistake, and is reported to it.
        config = ConfigDict(extra="forbid")
        arguments: type[BaseModel] = create_model(function.__name__, __config__=config, **fields)
    except (PydanticUserError, TypeError) as error:
        _refuse(function, str(error).split("\n")[0])
    spec = ToolSpec(
        name or function.__name__,
        inspect.getdoc(function) or "",
        _schema(function, arguments),
        taped=taped or uses_http,
        blocking=not inspect.iscoroutinefunction(function),
    )
    return Tool(spec, _call(function, arguments), uses_http=uses_http, matching=matching or NOTHING)


def _call(function: Callable[..., Any], arguments: type[BaseModel]) -> Callable[[Mapping[str, Any]], Any]:
    def call(args: Mapping[str, Any]) -> Any:
        from pydantic import ValidationError

        try:
            read = arguments.model_validate(dict(args))
        except ValidationError as error:
            details = error.errors(include_url=False)
            lines = (f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in details)
            raise ToolFailed("; ".join(lines), "bad_arguments") from None
        names = {field: str(info.alias) for field, info in arguments.model_fields.items()}
        value = function(**{names[field]: getattr(read, field) for field in read.model_fields_set})
        return _await_plain(value) if inspect.isawaitable(value) else _plain(value)

    call.__wrapped__ = function  # type: ignore[attr-defined]  # leads to the user's own code
    return call


async def _await_plain(value: Awaitable[Any]) -> Any:
    return _plain(await value)


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(truncated(value), fallback=str)


def _schema(function: Callable[..., Any], arguments: type[BaseModel]) -> dict[str, Any]:
    from pydantic import PydanticUserError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that JSON cannot hold is the function's own affair
            schema = arguments.model_json_schema()
    except PydanticUserError as error:
        _refuse(function, str(error).split("\n")[0])
    schema.pop("description", None)
    plain: dict[str, Any] = _without_titles(schema)
    return plain


def _without_titles(schema: Any) -> Any:
    """Leave out titles, which only repeat the names of keys; a property may be called title."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            plain[key] = {name: _without_titles(inner) for name, inner in value.items()}
        elif key != "title" or not isinstance(value, str):
            plain[key] = _without_titles(value)
    return plain


def _refuse(function: Callable[..., Any], why: str) -> NoReturn:
    raise UnfitFunction(function, why) from None


def python_tools(path: Path) -> dict[str, Tool]:
    """Give the tools of a Python file, in its order.

    They are the public functions with type hints that the file defines, and the tools that it makes itself,
    which come before functions of the same name.
    """
    # A name of its own, so that several suites may have a ``tools.py``.
    name = f"agenteval_tools_{path.stem}_{text_digest(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProblemsFound([Problem(short_path(path), None, (), "a Python file", f"a {path.suffix} file")])
    module = importlib.util.module_from_spec(spec)
    # Before the file runs: dataclasses and pydantic look up the hints of its classes there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # an author's file may raise anything
        sys.modules.pop(name, None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        found = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        expected = "a Python file that can be imported"
        raise ProblemsFound([Problem(short_path(path), line, (), expected, found)]) from None
    public = [value for name, value in vars(module).items() if not name.startswith("_")]
    functions = [value for value in public if inspect.isfunction(value) and value.__module__ == name]
    made = {tool.spec.name: tool for tool in public if isinstance(tool, Tool)}
    free = [each for each in functions if each.__name__ not in made and inspect.get_annotations(each)]
    if not free and not made:
        found = ", ".join(function.__name__ for function in functions)
        found = f"{found} without any" if functions else "no function"
        raise ProblemsFound([Problem(short_path(path), None, (), "a public function with type hints", found)])
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for function in free:
        try:
            # With uses_http, every request is recorded, so that
            # authors need not declare which tools use the network.
            tools[function.__name__] = tool_of(function, uses_http=True)
        except UnfitFunction as unfit:
            problems.append(Problem(short_path(path), unfit.line, (unfit.name,), _A_TOOL, unfit.why, _HIDDEN))
    if problems:
        raise ProblemsFound(problems)
    return {**tools, **made}


Stamps: TypeAlias = "tuple[tuple[Path, int], ...]"

_KINDS = "the name of a registered set, or a .yaml, .json or .py file"

NO_TOOLSETS: Mapping[str, Sequence[Path]] = MappingProxyType({})


def load_tools(
    entry: str,
    folder: Path | None = None,
    root: Path | None = None,
    *,
    toolsets: Mapping[str, Sequence[Path]] = NO_TOOLSETS,
) -> dict[str, Tool]:
    """Give the tools of an entry of a suite's ``tools``: a registered set, or a file.

    A relative path is looked up in the suite's ``folder``, then in the ``root``. A file holds declarations of
    HTTP tools, or names operations of an OpenAPI document, or is Python. Raises ProblemsFound.
    """
    if entry in toolsets:
        return {name: tool for file in toolsets[entry] for name, tool in tools_of_file(file).items()}
    places = [place for place in (folder, root) if place is not None] or [Path()]
    for place in places:
        if (place / entry).is_file():
            return tools_of_file((place / entry).absolute())
    looked = " and ".join(dict.fromkeys(short_path(place / entry) for place in places))
    hint = did_you_mean(entry, toolsets)
    raise ProblemsFound([Problem(entry, None, (), _KINDS, f"neither; looked for {looked}", hint)])


def tools_of_file(path: Path) -> dict[str, Tool]:
    """Give a file's tools, read again if it or a file that it names has changed; raises ProblemsFound."""
    cached = _loaded.get(path)
    if cached is None or cached[0] != _stamps(file for file, _ in cached[0]):
        tools, files = _read_tools(path)
        cached = _loaded[path] = (_stamps(files), tools)
    return dict(cached[1])


def files_of_tools(path: Path) -> tuple[Path, ...]:
    """Give all files that were read for the tools of a loaded file, such as an OpenAPI document."""
    cached = _loaded.get(path)
    return tuple(file for file, _ in cached[0]) if cached else (path,)


# For the life of the process: a Python file is not run again for each trial, and its tools stay the same
# ones.
_loaded: dict[Path, tuple[Stamps, dict[str, Tool]]] = {}


def _stamps(files: Iterable[Path]) -> Stamps:
    # A file that is gone counts as changed.
    return tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files)


def _read_tools(path: Path) -> tuple[dict[str, Tool], tuple[Path, ...]]:
    """Give the tools of a file, and all files that were read for them."""
    if path.suffix == ".py":
        return python_tools(path), (path,)
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise ProblemsFound(
            [Problem(short_path(path), None, (), _KINDS, f"a {path.suffix or 'nameless'} file")]
        )
    document = read_document(path)
    if isinstance(document.value, dict) and "openapi" in document.value:
        from pytest_agenteval.tools.openapi import openapi_tools

        return openapi_tools(document)
    from pytest_agenteval.tools.http_tool import declared_tools

    return declared_tools(document), (path,)

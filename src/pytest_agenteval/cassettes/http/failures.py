"""Requests that got no response: recorded by what their client raised, and raised again in a replay."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.interaction import Response
from pytest_agenteval.text.errors import exception_text

FAILURE, CAUSE = "failure", "cause"
"""Keys of a recorded response that was none: what the client raised, and what the system had raised."""

FAILED_STATUS = 599
"""What stands as the status of such a response; whoever else plays the cassette sees a server's failure."""

Build: TypeAlias = Callable[[str, str, Exception], Exception]
"""Makes a client's exception of its class (``httpx.ConnectError``), its text and the system's exception."""

_SYSTEM = ("builtins", "socket", "ssl", "http.client")
_ERRNO = re.compile(r"\[Errno (-?\d+)\] (.*)", re.S)
_MOST_CAUSES = 10


def failed_response(raised: BaseException) -> Response:
    """Write down what a client raised in place of a response."""
    cause = _system_error_below(raised)
    extra = {FAILURE: _described(raised), **({} if cause in (None, raised) else {CAUSE: _described(cause)})}
    return Response(FAILED_STATUS, "no response", extra=extra)


def is_failure(response: Response) -> bool:
    """Whether no response came when this was recorded."""
    return FAILURE in response.extra


def failure_text(response: Response) -> str:
    """Give what was raised, as it was written down."""
    return str(response.extra[FAILURE])


def recorded_failure(response: Response, build: Build) -> Exception:
    """Make the exception that was raised in place of a response: one that ``build`` makes for its client."""
    name, _, text = failure_text(response).partition(": ")
    cause = _system_error(str(response.extra.get(CAUSE, failure_text(response))))
    if "timeout" in name.lower() and not isinstance(cause, TimeoutError):
        cause = TimeoutError(text)
    try:
        failed = build(name, text, cause)
        str(failed)
    except (TypeError, AttributeError, ValueError):  # a class that takes something else, edited by hand
        plain = TimeoutError(text) if isinstance(cause, TimeoutError) else ConnectionError(text)
        failed = build("", text, plain)
    return failed


def is_of_system(name: str) -> bool:
    """Whether an exception class of this name is one of the standard library's."""
    return _system_class(name) is not None


def class_of(module: Any, name: str, base: type[Exception]) -> Any:
    """Give the exception class of a client's module by its recorded name, if there is one below ``base``."""
    kind = getattr(module, name.rpartition(".")[2], None)
    return kind if isinstance(kind, type) and issubclass(kind, base) else None


def _described(raised: BaseException) -> str:
    kind = type(raised)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}: {exception_text(raised)}"


def _system_error_below(raised: BaseException) -> BaseException | None:
    """Give the innermost exception of the standard library that led to this one."""
    innermost: BaseException | None = None
    each: BaseException | None = raised
    for _ in range(_MOST_CAUSES):
        if each is None:
            break
        innermost = each if type(each).__module__ in _SYSTEM else innermost
        # urllib and aiohttp hold it in a field.
        inner = getattr(each, "os_error", None) or getattr(each, "reason", None)
        each = inner if isinstance(inner, BaseException) else each.__cause__ or each.__context__
    return innermost


def _system_error(described: str) -> Exception:
    name, _, text = described.partition(": ")
    kind = _system_class(name)
    if kind is None:
        return TimeoutError(text) if "timeout" in name.lower() else ConnectionError(text)
    numbered = _ERRNO.fullmatch(text)
    try:
        return kind(int(numbered[1]), numbered[2]) if numbered else kind(text)
    except TypeError:  # a class that wants more than a text
        return ConnectionError(text)


def _system_class(name: str) -> type[Exception] | None:
    module, _, kind = name.rpartition(".")
    module = module or "builtins"
    exception_class = getattr(import_module(module), kind, None) if module in _SYSTEM else None
    # Here: patches are put on http.client while it is imported, and they need this module.
    from http.client import HTTPException

    return (
        exception_class
        if isinstance(exception_class, type) and issubclass(exception_class, OSError | HTTPException)
        else None
    )

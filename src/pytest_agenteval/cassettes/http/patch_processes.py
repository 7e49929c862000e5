"""Programs that agents start, whose requests nobody sees, and what agents change of the process they share.

Neither is refused: many agents run ``git`` or ``ls``. Both are noted for the trial, which says so; a program
that still runs when its trial is over is ended.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any

from pytest_agenteval.cassettes.http.audit_events import Watchers
from pytest_agenteval.cassettes.http.scope import Scope, current
from pytest_agenteval.processes.process_table import FORK_EVENTS, kill_descendants
from pytest_agenteval.records.transcript import CHANGED_PROCESS, STARTED_PROGRAM
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

_OURS = ("pytest_agenteval.",)
_SEEN_BEFORE = ("multiprocessing.", "subprocess")
"""Modules whose starts are seen where they are asked for."""

_ABOUT_THE_MACHINE = ("platform", "uuid", "ctypes.util", "distro", "distro.distro", "sysconfig")
"""Modules that start ``uname`` and the like, as the first request of OpenAI's client makes them do."""

_POOLS = ("concurrent.", "multiprocessing.", "loky.", "joblib.")
"""Modules whose processes work for whoever asks next, be it another trial."""


def patch_points_of_programs(module: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Say what is patched of programs; asyncio starts them in the same way."""
    yield module.Popen, "__init__", _patch_popen


def patch_points_of_copies(module: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Say what is patched of multiprocessing, which starts Python by a function that no hook tells of."""
    yield module.BaseProcess, "start", _patch_process_start


def _patch_popen(real: Any) -> Any:
    def __init__(process: Any, args: Any, *rest: Any, **named: Any) -> None:
        scope = None if _called_by(_OURS, 2) or _asks_about_the_machine() else current()
        if scope is not None and isinstance(named.get("env"), dict):
            KNOWN_SECRETS.know_environment(_texts(named["env"]))
        real(process, args, *rest, **named)
        if scope is not None:
            _note_program(_first_word(args))
            scope.of_trial.at_close(partial(_end, process))

    return __init__


def _patch_process_start(real: Any) -> Any:
    def start(process: Any) -> None:
        scope, target = current(), getattr(process, "_target", None)
        real(process)
        if scope is None:
            return
        if getattr(process, "_start_method", None) != "fork":  # a fork is a copy, which has our patches
            _note_program("python (multiprocessing)")
        if not str(getattr(target, "__module__", "")).startswith(_POOLS):
            scope.of_trial.at_close(partial(_end, process))

    return start


def _end(process: Any) -> None:
    """End a process, and what it started, if it still runs."""
    running = process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()
    if running:
        with suppress(OSError, ValueError):
            kill_descendants(process.pid)
            process.kill()


def _note_program(program: str) -> None:
    if (scope := current()) is not None:
        scope.note(STARTED_PROGRAM, PurePath(program).name or program)


def _note_system(command: Any) -> None:
    _note_program(_first_word(command))


def _note_spawn(path: Any, *_: Any) -> None:
    if not _called_by(_SEEN_BEFORE, 3):
        _note_program(_text(path))


def _note_fork() -> None:
    if not _called_by(_SEEN_BEFORE, 3):
        _note_program("fork")


def _note_variable(name: Any, value: Any = None) -> None:
    key, new = _text(name), None if value is None else _text(value)
    if new is not None:
        KNOWN_SECRETS.know_environment({key: new})  # it may be gone before anything is written
    if os.environ.get(key) != new:
        _note_change(f"os.environ[{key!r}]")


def _note_folder(path: Any) -> None:
    with suppress(OSError):
        if not isinstance(path, int) and not os.path.samefile(path, os.getcwd()):
            _note_change("os.chdir")


_changes: Counter[str] = Counter()


def _note_change(what: str) -> None:
    """Note a change that other trials see, from the second on: what is set once alike for all harms none."""
    scope: Scope | None = current()
    if scope is None or _is_importing():
        return
    _changes[what] += 1
    if _changes[what] > 1 and scope.of_trial.accompanied:
        scope.note(CHANGED_PROCESS, what)


WATCHERS: Watchers = {
    "os.system": _note_system,
    "os.posix_spawn": _note_spawn,
    "os.spawn": lambda mode, path, *_: _note_program(_text(path)),
    "os.startfile": _note_system,
    **dict.fromkeys(FORK_EVENTS, _note_fork),
    "os.putenv": _note_variable,
    "os.unsetenv": _note_variable,
    "os.chdir": _note_folder,
}
"""Events of this process that are looked at."""


def _called_by(modules: tuple[str, ...], depth: int) -> bool:
    """Whether the function so many frames up is one of these modules'."""
    return str(sys._getframe(depth).f_globals.get("__name__", "")).startswith(modules)


def _asks_about_the_machine() -> bool:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in ("subprocess", "os"):
        frame = frame.f_back
    return frame.f_globals.get("__name__") in _ABOUT_THE_MACHINE


def _is_importing() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def _first_word(command: Any) -> str:
    """Give the program of a command, which is a list, or one line as a shell reads it."""
    if isinstance(command, list | tuple):
        return _text(command[0]) if command else ""
    line = _text(command)
    with suppress(ValueError):
        return next((word for word in shlex.split(line) if "=" not in word), line)
    return line.partition(" ")[0]


def _texts(environ: dict[Any, Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in environ.items()}


def _text(value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        return str(value)

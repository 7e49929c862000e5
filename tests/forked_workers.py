"""Workers of inner runs are forked from one process that has imported pytest, xdist and our modules.

To start Python and to import is most of what a worker costs, and most of what a pytest in a process of its
own costs: ``ForkedPython`` is a ``Popen`` of such a one. Programs that ``subprocess`` itself starts have
workers in xdist's way, and so does every run on a system without ``pidfd_open``. Texts hash alike in all that
is forked: an order that hangs on that is seen by those other runs alone.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest
from execnet import gateway_io

from tests.forked_watchers import Forked, fork_watchers, forker, watch_from

LIBRARIES = ("asyncio", "execnet.gateway_base", "faulthandler", "unittest", "xdist.plugin", "xdist.remote")
ONE_ORDER = threading.Lock()
"""Answers come in the order of the orders: a second one is sent when the first is answered."""


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the length of a test, fork the workers of xdist, the watchers of runs and the pytests of ours."""
    if can_fork():
        monkeypatch.setattr(gateway_io, "Popen2IOMaster", ForkedIO)
        monkeypatch.setattr("pytest_agenteval.session.inner_pytest.subprocess", FORKING)
        fork_watchers(monkeypatch)


def fork_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the length of a test, let ``runpytest_subprocess`` fork, where the system can."""
    if can_fork():
        monkeypatch.setattr("_pytest.pytester.subprocess", FORKING)


@cache
def can_fork() -> bool:
    """Whether a process can be awaited that is no child of ours: on Linux, where no container forbids it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class ForkedIO(gateway_io.Popen2IOMaster):
    """What execnet has of a worker: its pipes, and how to await its end."""

    def __init__(self, args: Sequence[str], execmodel: Any) -> None:
        self.popen = ForkedProcess(args)
        gateway_io.Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel)


class ForkedProcess(Forked):
    """What execnet has of a worker's process."""

    def __init__(self, args: Sequence[str]) -> None:
        inputs, outputs = os.pipe(), os.pipe()
        super().__init__(
            _forked("_work", [inputs[0], outputs[1], 2], args=args)
        )  # it waits for its first line: it is there
        os.close(inputs[0])
        os.close(outputs[1])
        self.stdin, self.stdout = os.fdopen(inputs[1], "wb"), os.fdopen(outputs[0], "rb")


PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class ForkedPython(subprocess.Popen[Any]):
    """A Python program, ``-m MODULE`` or ``-c PROGRAM``, that is forked and not started.

    It is no child of this process, which reads from a pipe how it ended. What it imports, it has already:
    a test of what a program imports starts it as anybody would.
    """

    def _execute_child(self, *given: Any) -> None:
        """Have it forked, with the handles that the constructor made."""
        named = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        pipes = [named[name] for name in PIPES]
        handles = [own if own != -1 else place for place, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.ending, reports = os.pipe()
        session = "session" if named["start_new_session"] else ""
        self.pid = _forked(
            "_be_python",
            [*handles, reports],
            folder=named["cwd"],
            environ=named["env"],
            args=[os.fspath(each) for each in named["args"]],
            group=session or ("group" if named["process_group"] == 0 else ""),
        )
        self._child_created = True
        os.close(reports)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        ended = select.poll()  # and not select.select, which knows no handle above 1023
        ended.register(self.ending, select.POLLIN)
        if not ended.poll(0 if flags & os.WNOHANG else None):
            return 0, 0
        return self.pid, int(os.read(self.ending, 64))

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode

    def __del__(self, *_: Any, **__: Any) -> None:
        if hasattr(self, "ending"):
            os.close(self.ending)


FORKING = SimpleNamespace(**{**vars(subprocess), "Popen": ForkedPython})
"""What stands for ``subprocess`` where a Python program may be forked."""


def start_python(*args: str, **settings: Any) -> subprocess.Popen[Any]:
    """Start Python, forked where the system can; settings are those of ``Popen``."""
    return (ForkedPython if can_fork() else subprocess.Popen)([sys.executable, *args], **settings)


def run_python(*args: str, timeout: float = 60, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Do what ``subprocess.run`` does with Python, forked where the system can, and give what it printed."""
    with start_python(*args, **{"stdout": -1, "stderr": -1, "text": True, **settings}) as process:
        try:
            printed, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, printed, errors)


def _forked(
    kind: str,
    handles: Sequence[int],
    folder: Any = None,
    environ: Mapping[str, str] | None = None,
    **more: Any,
) -> int:
    """Have a process forked with these handles, and give its number."""
    place = {"folder": os.fspath(folder or os.getcwd()), "environ": dict(environ or os.environ)}
    os.stat(place["folder"])  # where it is missing no answer would come
    order = {"kind": kind, **place, **more}
    with ONE_ORDER:
        socket.send_fds(_orders(), [json.dumps(order).encode()], list(handles))
        return int(_orders().recv(64))


@cache
def _orders() -> socket.socket:
    """Give the line to the process that forks, which ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = f"from tests.forked_workers import obey; obey({theirs.fileno()}, {forker()!r})"
    subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    atexit.register(ours.close)  # else Python warns of it as it ends
    return ours


def obey(handle: int, watchers: bytes) -> None:
    """Fork a process for each order that comes, which answers; its watcher is forked there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    watch_from(watchers)
    reports: dict[int, tuple[int, Sequence[int]]] = {}
    events = select.poll()
    with socket.socket(fileno=handle) as orders:
        events.register(orders, select.POLLIN)
        while True:
            for ready, _ in events.poll():
                if ready != orders.fileno():
                    events.unregister(ready)
                    _report(ready, *reports.pop(ready))
                    continue
                text, handles, *_ = socket.recv_fds(orders, 2**20, 4)
                if not text:
                    return
                order = json.loads(text)
                if not (pid := os.fork()):
                    globals()[order.pop("kind")](orders, handles, **order)
                for each in handles[:3]:
                    os.close(each)
                process = os.pidfd_open(pid)
                reports[process] = pid, handles[3:]
                events.register(process, select.POLLIN)


def _report(process: int, pid: int, handles: Sequence[int]) -> None:
    """Write how a process ended to whoever wants to know."""
    _, status = os.waitpid(pid, 0)
    os.close(process)
    for handle in handles:
        with suppress(BrokenPipeError):
            os.write(handle, str(status).encode())
        os.close(handle)


def _import_all() -> None:
    """Import what workers need, plugins as pytest does it for them."""
    from _pytest.assertion import install_importhook
    from _pytest.config import get_config

    config = get_config()
    vars(config).setdefault("inicfg", {})  # which pytest 8 has only once it has read a command line
    install_importhook(config).mark_rewrite("pytest_agenteval", "xdist")
    for name in LIBRARIES:
        import_module(name)
    from tests.installed import import_ours
    from tests.plugins_of_pytest import look_once

    import_ours()
    look_once()
    config._ensure_unconfigure()
    _warm_up()
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    gc.freeze()


def _warm_up() -> None:
    """Collect a trial: what is looked for once, and read once, is then known to all that is forked."""
    with TemporaryDirectory() as folder, (Path(folder) / "printed").open("w") as output:
        (Path(folder) / "suite.yaml").write_text("name: s\ndefaults: {model: rules}\n", encoding="utf-8")
        graders = [{"name": "answer_contains", "config": {"text": "a"}}]
        task = {"id": "t", "input": {"content": "a"}, "graders": graders}
        (Path(folder) / "t.json").write_text(json.dumps(task), encoding="utf-8")
        # The test that forks first may have set them for its own run.
        alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
        before = dict(os.environ)
        os.environ.update(alone)
        with redirect_stdout(output), redirect_stderr(output):
            pytest.main(
                [folder, "--collect-only", "-q", "-pagenteval", "-pxdist.plugin", "-pno:cacheprovider"]
            )
        os.environ.clear()
        os.environ.update(before)


def _begin(
    orders: socket.socket, handles: Sequence[int], folder: str, environ: Mapping[str, str], group: str = ""
) -> None:
    """Take over streams, folder and variables, and answer."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if group:
        os.setsid() if group == "session" else os.setpgid(0, 0)
    for place, handle in enumerate(handles[:3]):
        os.dup2(handle, place)
    for handle in handles:
        os.close(handle)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    orders.send(str(os.getpid()).encode())
    orders.close()


def _end(status: int) -> NoReturn:
    """End; but to take apart what was imported would cost as much as the process."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if status < 0:  # as Python ends where nobody catches KeyboardInterrupt
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _work(orders: socket.socket, handles: Sequence[int], args: Sequence[str], **more: Any) -> NoReturn:
    """Be the worker that execnet wanted to start."""
    _begin(orders, handles, **more)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.dont_write_bytecode = "-B" in args
    exec(args[-1], {"__name__": "__main__"})
    _end(0)


def _be_python(orders: socket.socket, handles: Sequence[int], args: Sequence[str], **more: Any) -> NoReturn:
    """Be a Python with these arguments."""
    _begin(orders, handles, **more)
    for place, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream: Any = os.fdopen(place, mode, encoding="utf-8", closefd=False)
        if place == 2 or (place == 1 and "PYTHONUNBUFFERED" in os.environ):
            stream.reconfigure(write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    how, program, *words = _split_option(args[1:])
    sys.argv = [how, *words]
    roots = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = ["" if how == "-c" else os.getcwd(), *roots, *sys.path[1:]]
    status = 0
    try:
        if how == "-c":
            exec(compile(program, "<string>", "exec"), vars(_new_main()))
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code & 255 if isinstance(end.code, int) else int(bool(end.code))
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)
        status = -signal.SIGINT if isinstance(raised, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    _end(status)


def _split_option(words: Sequence[str]) -> list[str]:
    """Give ``-m`` or ``-c``, what it names, and the rest, also where the first two are one word."""
    first, *rest = words
    return [first[:2], first[2:], *rest] if len(first) > 2 else [first, *rest]


def _new_main() -> ModuleType:
    main = sys.modules["__main__"] = ModuleType("__main__")
    return main

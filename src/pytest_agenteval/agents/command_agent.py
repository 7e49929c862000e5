"""An agent that is a program: its process, what it writes, and one trial of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any

from msgspec.structs import replace

from pytest_agenteval.agents.agent import Agent, AgentContext
from pytest_agenteval.agents.command_form import (
    PROXY_VARIABLES,
    TRIAL_FOLDER,
    WORKSPACE_FOLDER,
    TaskLines,
    command_line,
    container_mounts,
    files_digest,
)
from pytest_agenteval.agents.command_output import CommandOutput
from pytest_agenteval.agents.container import Container, ContainerSpec, Mount, engine, image_id
from pytest_agenteval.agents.model_upstreams import DUMMY, keys_of, model_upstreams, model_variables
from pytest_agenteval.agents.ready_made import final_answer, make_ready, values_of
from pytest_agenteval.cassettes.http.loopback import open_address
from pytest_agenteval.cassettes.http.loopback_address import HOST, TrialAddress, Upstream
from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.processes.captured_output import current_output
from pytest_agenteval.processes.files import NamedFolder
from pytest_agenteval.processes.process_groups import NEEDED_VARIABLES, disown_group, end_group, start_owned
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import (
    NO_ANSWER,
    UNSEEN_USAGE,
    Message,
    Transcript,
)
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.formatting import pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.text.secret_forms import worth_hiding
from pytest_agenteval.tools.offered_tools import OfferedTools

GRACE_S = 5.0
"""Seconds that a program, and whatever it started, has to end once it is requested to."""
MOST_BYTES = 10_000_000
"""What a program may write to its standard output, and to its standard error, until the rest is cut."""
LAST_LINES = 20
"""How many of the last lines of standard error are reported of a program that failed."""
CHUNK = 65536
LEFT_OPEN_S = 2.0
"""Seconds to wait for output once all are ended: a process that left the group may hold it open for ever."""

TakeLine = Callable[[str], object]


class NotStarted(TrialBroken):
    """A command that is no program of this system, or may not be executed."""

    cause = "agent"


class CommandProcess:
    """One run of a program, in a process group of its own.

    Lines of both outputs are given, in threads of their own, to ``take_output`` and ``take_error``; ``cut``
    names the outputs of which not all was read, ``broken`` is what one of the two raised: what follows is
    read all the same, or the program would wait for ever. ``mark`` is ``NAME=value`` of its environment, by
    which what leaves its group is known.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        mark: str,
        take_output: TakeLine,
        take_error: TakeLine,
        container: ContainerSpec | None = None,
    ) -> None:
        self.cut: list[str] = []
        self.broken: Exception | None = None
        self.last_errors: deque[str] = deque(maxlen=LAST_LINES)
        self._mark = mark
        self._process: subprocess.Popen[bytes] | Container
        # ValueError is raised for a zero byte in an argument.
        try:
            if container is None:
                self._process = start_owned(command, cwd=folder, env=dict(environ))
            else:
                self._process = Container(container, command, environ, GRACE_S)
        except (OSError, ValueError) as refused:
            raise NotStarted(f"the command {command[0]!r} cannot be started: {refused}") from None

        def take_and_keep(line: str) -> None:
            self.last_errors.append(line)
            take_error(line)

        self._readers = [
            self._reader("standard output", self._process.stdout, take_output),
            self._reader("standard error", self._process.stderr, take_and_keep),
        ]

    @property
    def status(self) -> int | None:
        """Its exit status, below 0 for a signal; None while it runs."""
        return self._process.returncode

    def wait_for_start(self) -> None:
        if isinstance(self._process, Container):
            self._process.wait_for_start()

    def wait(self) -> int | None:
        return self._process.wait()

    def write_line(self, text: str) -> None:
        """Write a line to its standard input; nothing where it reads no more."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.write(text.encode() + b"\n")
                self._process.stdin.flush()

    def close_input(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    def end(self) -> None:
        """End it and what it started, and read what is left of its output.

        They are first requested to end, and killed if they have not after ``GRACE_S`` seconds.
        """
        if isinstance(self._process, Container):
            self._process.end()
            self.broken = self.broken or self._process.failed
        else:
            try:
                end_group(self._process, GRACE_S, self._mark)
            finally:
                disown_group(self._process)
        # A process that left the group may hold the standard input open and read none of it. A write to it
        # would then never end, and closing waits for that: hence in a thread, which is left after a while.
        closing = threading.Thread(target=self.close_input, name="agenteval-command", daemon=True)
        closing.start()
        for thread in (closing, *self._readers):
            thread.join(LEFT_OPEN_S)

    def _reader(self, name: str, stream: IO[bytes] | None, take: TakeLine) -> threading.Thread:
        thread = threading.Thread(
            target=self._read, args=(name, stream, take), name="agenteval-command", daemon=True
        )
        thread.start()
        return thread

    def _read(self, name: str, stream: Any, take: TakeLine) -> None:
        left = MOST_BYTES
        with stream:
            while left > 0 and (line := stream.readline(left)):
                left -= len(line)
                try:
                    take(line.decode("utf-8", "replace").rstrip("\r\n"))
                # Reading goes on: the program would wait for ever for room in a full pipe.
                except Exception as broken:
                    self.broken = self.broken or broken
            if stream.read(1):
                self.cut.append(name)
                # The rest is thrown away, so that the program is not held up.
                while stream.read1(CHUNK):
                    pass


AROUND, CUT = "around_the_tapes", "output_cut"
"""Kinds of events: requests that were refused as no tape could see them; output of which not all was read."""

PASSED = ("PATH", "LANG", "TMPDIR", *NEEDED_VARIABLES)
"""Variables that every command has from the process that starts it."""

MOST_NAMED = 5
TASK_FILE, OUT_FOLDER, TRAJECTORY = "task.json", "out", "trajectory.json"
PROMPTS_FOLDER = "prompts"


class AgentCrash(TrialBroken):
    """A command that ended with a status other than 0, or by a signal."""

    cause = "agent_crash"


class CommandTrial:
    """One trial of a command: its folders, its addresses, its process; all but ``start`` may take a while."""

    def __init__(self, form: Mapping[str, Any], ctx: AgentContext, tell: Callable[[str], None]) -> None:
        scope = current()
        assert scope is not None, "an agent runs within its trial's scope"
        self._form, self._ctx, self._tell, self._scope = form, ctx, tell, scope
        self._log_of_trial = current_output.get()
        self._folder: Path | None = None
        self._address: TrialAddress | None = None
        self._process: CommandProcess | None = None
        self._trajectory = self._tools_url = ""
        self._stdout = CommandOutput(
            ctx.transcript,
            shape=form.get("output", "events"),
            log=self._log,
            on_answer=partial(tell, "answer"),
        )

    def make_folders(self) -> None:
        """Make the workspace, and beside it what else the program is given: a home, a place for its files."""
        self._workspace = self._ctx.path
        if image := self._form.get("image"):
            image_id(image)  # raises ContainerFailed where no container can be made of it
        name = self._workspace.name.removeprefix("agenteval-")
        self._own_folder = NamedFolder(f"agenteval-command-{name}")
        self._folder = self._own_folder.path
        for name in ("home", OUT_FOLDER, PROMPTS_FOLDER):
            (self._folder / name).mkdir()
        for name, text in self._ctx.prompts.texts.items():
            file = self._folder / PROMPTS_FOLDER / f"{name.replace('/', '_')}.md"
            file.write_text(text, encoding="utf-8", newline="\n")

    def start(self, task: str) -> None:
        """Start the program and give it the task; raises NotStarted."""
        assert self._folder is not None
        task_file = self._folder / TASK_FILE
        task_file.write_text(f"{task}\n", encoding="utf-8", newline="\n")
        proxied = [Upstream(f"proxy.{name}", base) for name, base in self._form.get("proxy", {}).items()]
        upstreams = model_upstreams(os.environ)
        ignored = self._form.get("ignored_hosts", ())
        self._address = open_address(self._scope, [*upstreams, *proxied], ignored)
        self._address.on_broken = partial(self._tell, "broken")
        if self._ctx.tools.specs:
            offered = OfferedTools(self._ctx.tools, self._ctx.transcript, self._address.note_broken)
            self._tools_url = self._address.mount("tools", offered)
        command, environ = command_line(self._form), self._environment(self._address, self._folder)
        if self._form.get("cli"):
            values, home = values_of(task, self._ctx.model), self._folder / "home"
            command, environ = make_ready(self._form, command, environ, home, values)
        self._process = CommandProcess(
            command,
            folder=self._workspace,
            environ=environ,
            container=self._container(self._address, self._folder) if self._form.get("image") else None,
            mark=f"AGENTEVAL_TASK={task_file}",
            take_output=self._stdout.take,
            take_error=self._log,
        )

    def _container(self, address: TrialAddress, folder: Path) -> ContainerSpec:
        form = self._form
        own = [Mount(self._workspace, WORKSPACE_FOLDER, True), Mount(folder, TRIAL_FOLDER, True)]
        limits = {key: form[key] for key in ("memory", "processes", "disk") if key in form}
        # Else its user would have no name, and some programs fail without one.
        passwd = folder / "passwd"
        user = f"agenteval:x:{engine().user or '0:0'}::{TRIAL_FOLDER}/home:/bin/sh"
        passwd.write_text(f"root:x:0:0::/root:/bin/sh\n{user}\n", encoding="utf-8", newline="\n")
        mounts = (*own, Mount(passwd, "/etc/passwd"), *container_mounts(form))
        return ContainerSpec(form["image"], WORKSPACE_FOLDER, mounts, address.port, address.connect, **limits)

    def _environment(self, address: TrialAddress, folder: PurePath) -> dict[str, str]:
        form, environ = self._form, os.environ
        keys = keys_of(self._ctx.model)
        passed = form.get("env_pass", ())
        # An image has a PATH of its own, and the trial's files lie elsewhere in a container.
        if form.get("image"):
            folder = PurePosixPath(TRIAL_FOLDER)
        else:
            passed = (*PASSED, *passed)
        inherited = {name: environ[name] for name in passed if name in environ}
        # Well-behaved programs send requests for any other host to this proxy, which refuses and names them.
        refusing = {
            **dict.fromkeys(PROXY_VARIABLES, address.refusing_proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), f"{HOST}:{address.port}"),
        }
        of_trial = {
            **dict.fromkeys(("HOME", "USERPROFILE") if NEEDED_VARIABLES else ("HOME",), str(folder / "home")),
            **model_variables(address),
            **{name: address.url(f"proxy.{name}") for name in form.get("proxy", {})},
            **({"AGENTEVAL_MCP_URL": self._tools_url} if self._tools_url else {}),
            **({} if self._scope.passing else refusing),
            **({"AGENTEVAL_PROMPTS": str(folder / PROMPTS_FOLDER)} if self._ctx.prompts.texts else {}),
            "AGENTEVAL_TASK": str(folder / TASK_FILE),
            "AGENTEVAL_OUT": str(folder / OUT_FOLDER),
        }
        from_suite = {**inherited, **dict(form.get("env", {}))}
        # A real key reaches no program, whichever variable holds it, and not within another value either.
        # The longest is replaced first, as one key may begin with another.
        secret = sorted({environ[name] for name in keys if environ.get(name)}, key=len, reverse=True)
        without_keys = {
            name: DUMMY if name in keys else _without_keys(value, secret)
            for name, value in from_suite.items()
        }
        return {**without_keys, **of_trial}

    def wait_for_start(self) -> None:
        assert self._process is not None
        self._process.wait_for_start()

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait()
        self._tell("end")

    def write(self, line: str | None, last: bool) -> None:
        """Write a line to the program; after the ``last`` there is no more."""
        assert self._process is not None
        if line is not None:
            self._process.write_line(line)
        if last:
            self._process.close_input()

    def end(self) -> None:
        """End the program and all that it started, then its addresses; nothing of it is left afterwards."""
        try:
            if self._process is not None:
                self._process.end()
        finally:
            if self._address is not None:
                self._address.close()
            if self._folder is not None:
                self._trajectory = _text_of(self._folder / OUT_FOLDER / TRAJECTORY)
                self._own_folder.remove()
        self._stdout.close()
        # No request was seen, which is no proof that none was sent: its usage is unknown, and not 0.
        if not (self._trajectory or self._ctx.transcript.usage.attempts):
            self._ctx.transcript.add_usage(UNSEEN_USAGE)
        record = self._ctx.transcript.event
        if self._process is not None and self._process.cut:
            what = " and ".join(self._process.cut)
            record(CUT, f"{what}: more than {MOST_BYTES // 1_000_000} MB; the rest was not read")
        if self._address is not None and (around := self._address.around):
            hosts = list(dict.fromkeys(around))
            named = ", ".join(hosts[:MOST_NAMED]) + (", …" if len(hosts) > MOST_NAMED else "")
            many = pluralize(len(around), "request")
            record(AROUND, f"{many} bypassed the recording proxy and failed: {named}", {"hosts": hosts})

    def answer(self, user_messages: Sequence[str]) -> Answer:
        """Give the answer to the user's messages; raises what broke the trial, or AgentCrash.

        Where no request to a model was seen, the program's own trajectory is the transcript.
        """
        assert self._process is not None
        assert self._address is not None
        if self._address.broken:
            raise self._address.broken[0]
        if self._process.broken is not None:
            raise self._process.broken
        if status := self._process.status:
            program = " ".join(self._form["command"])
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            raise AgentCrash(KNOWN_SECRETS.text("\n".join([f"{program}: {how}", *self._process.last_errors])))
        if self._stdout.unreadable is not None:
            raise self._stdout.unreadable
        answer, is_seen = self._stdout.answer(), bool(self._ctx.transcript.usage.asks)
        if self._form.get("cli"):
            answer = final_answer(self._form, answer, self._ctx.transcript.transcript())
        if self._trajectory and not is_seen:
            return replace(answer or Answer(), transcript=self._trajectory)
        if answer is None:
            expected = 'expected a line {"type": "answer", "text": …}'
            text = f"the command printed no answer: graded as an empty answer; {expected}"
            self._ctx.transcript.event(NO_ANSWER, text)
            return Answer()
        if is_seen:
            return answer
        # No request to a model was seen. Where there is one question, only the last answer is its answer.
        answers = self._stdout.answers or [answer.text]
        messages: list[Message] = []
        turns = zip_longest(user_messages, answers[-1:] if len(user_messages) == 1 else answers)
        for turn, (question, text) in enumerate(turns):
            if question is not None:
                messages.append(Message("user", question, turn=turn))
            if text is not None:
                messages.append(Message("assistant", text, turn=turn + 1))
        return replace(answer, transcript=Transcript(tuple(messages)))

    def _log(self, line: str) -> None:
        if self._log_of_trial is not None:
            self._log_of_trial.print(f"{line}\n")


def _without_keys(value: str, keys: Sequence[str]) -> str:
    for key in keys:
        if value == key:
            return DUMMY
        # A key such as ``none`` or ``EMPTY`` is an ordinary word, and stays within other values.
        if worth_hiding(key):
            value = value.replace(key, DUMMY)
    return value


def _text_of(path: Path) -> str:
    # What a program leaves in its folder may be a pipe, and reading it would never end. A link that was made
    # in a container would lead to a file that the container could not read.
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class CommandFactory:
    """Makes the agents of a suite's ``agent: {command: …}``; any setting goes to the program.

    Nobody can tell beforehand which of its prompts a program reads.
    """

    reads_any_prompt = True

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form = form

    def __call__(self, **settings: Any) -> Agent:
        return CommandAgent(self._form, **settings)


class CommandAgent:
    """An agent that is a program: each trial starts it anew, in the trial's workspace.

    ``form`` is what suite.yaml says of it, with the suite's ``folder``, ``env``, ``env_pass`` and ``proxy``.
    ``implementation`` is that too: what the user wrote.
    """

    def __init__(self, form: Mapping[str, Any], /, **settings: Any) -> None:
        self.implementation = form
        self._form, self._settings = form, settings

    def files_digest(self) -> str:
        """Give a digest of the files beside suite.yaml that the command names; empty where there is none."""
        return files_digest(self._form)

    @staticmethod
    def handed_prompts(names: Collection[str]) -> Collection[str]:
        """Name the prompts that the program is given as files, whether it reads them or not: all."""
        return names

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Have the program do the task; whatever becomes of it, nothing that it started goes on."""
        news: asyncio.Queue[str] = asyncio.Queue()
        trial = CommandTrial(self._form, ctx, partial(_tell, asyncio.get_running_loop(), news))
        try:
            await in_daemon_thread(trial.make_folders)
            once = self._form.get("output") == "text"
            is_ready_made = bool(self._form.get("cli"))
            lines = TaskLines(task_input, self._settings, ctx, answers_once=once, reads_text=is_ready_made)
            task = await lines.first()
            trial.start(task)
            # An engine may need seconds to start a container, and they are none of the agent's.
            if self._form.get("image"):
                with ctx.limits.time.span("uncharged"):
                    await in_daemon_thread(trial.wait_for_start)
            await _converse(trial, task, lines, news)
        finally:
            # If the trial is cancelled a second time, the thread still ends the program. The seconds that it
            # needs are none of the trial's.
            with ctx.limits.time.span("uncharged"):
                await asyncio.shield(asyncio.ensure_future(in_daemon_thread(trial.end)))
        return trial.answer(lines.user_messages)


def _tell(loop: asyncio.AbstractEventLoop, news: asyncio.Queue[str], what: str) -> None:
    # The loop is closed if the trial is over, and nobody waits for news of its program.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(news.put_nowait, what)


async def _converse(trial: CommandTrial, task: str, lines: TaskLines, news: asyncio.Queue[str]) -> None:
    work = [asyncio.ensure_future(in_daemon_thread(trial.wait))]
    # Not awaited: a program need not read its input, and a write to a full pipe would not end.
    work.append(asyncio.ensure_future(in_daemon_thread(trial.write, task, not lines.goes_on)))
    try:
        while await news.get() == "answer":
            if lines.goes_on:
                line = await lines.next()
                work.append(asyncio.ensure_future(in_daemon_thread(trial.write, line, line is None)))
    finally:
        for each in work:
            each.cancel()

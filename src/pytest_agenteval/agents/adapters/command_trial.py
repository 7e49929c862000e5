"""One trial of a program that is an agent: its folders, its addresses, its environment, its answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.agents.adapters.command_form import PROXY_VARIABLES, command_line
from pytest_agenteval.agents.adapters.command_output import CommandOutput
from pytest_agenteval.agents.adapters.command_process import MOST_BYTES, CommandProcess
from pytest_agenteval.agents.adapters.model_upstreams import DUMMY, keys_of, model_upstreams, model_variables
from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.loopback import open_address
from pytest_agenteval.cassettes.http.loopback_address import HOST, TrialAddress, Upstream
from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.processes.captured_output import current_output
from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.processes.process_groups import NEEDED_VARIABLES
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import NO_ANSWER, Message, Role, Transcript
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.text.secret_forms import worth_hiding
from pytest_agenteval.tools.offered_tools import OfferedTools

AROUND, CUT = "around_the_tapes", "output_cut"
"""Kinds of events: requests that were refused as no tape could see them; output of which not all was read."""

PASSED = ("PATH", "LANG", "TMPDIR", *NEEDED_VARIABLES)
"""Variables that every command has from the process that starts it."""

MOST_NAMED = 5
_ROLES: tuple[Role, ...] = ("user", "assistant")
_NO_ANSWER_TEXT = (
    'the command answered nothing: graded as an empty answer; expected a line {"type": "answer", "text": …}'
)
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
        self._folder = Path(tempfile.mkdtemp(prefix="agenteval-command-"))
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
        upstreams = model_upstreams(self._ctx.model, os.environ)
        ignored = self._form.get("ignored_hosts", ())
        self._address = open_address(self._scope, [*upstreams, *proxied], ignored)
        self._address.on_broken = partial(self._tell, "broken")
        if self._ctx.tools.specs:
            offered = OfferedTools(self._ctx.tools, self._ctx.transcript, self._address.note_broken)
            self._tools_url = self._address.mount("tools", offered)
        self._process = CommandProcess(
            command_line(self._form),
            folder=self._workspace,
            environ=self._environment(self._address, self._folder),
            mark=f"AGENTEVAL_TASK={task_file}",
            take_output=self._stdout.take,
            take_error=self._log,
        )

    def _environment(self, address: TrialAddress, folder: Path) -> dict[str, str]:
        form, environ = self._form, os.environ
        keys = keys_of(self._ctx.model)
        inherited = {name: environ[name] for name in (*PASSED, *form.get("env_pass", ())) if name in environ}
        of_trial = {
            **dict.fromkeys(("HOME", "USERPROFILE") if NEEDED_VARIABLES else ("HOME",), str(folder / "home")),
            **model_variables(address),
            **{name: address.url(f"proxy.{name}") for name in form.get("proxy", {})},
            **({"AGENTEVAL_MCP_URL": self._tools_url} if self._tools_url else {}),
            **({} if self._scope.passing else _no_way_around(address)),
            **({"AGENTEVAL_PROMPTS": str(folder / PROMPTS_FOLDER)} if self._ctx.prompts.texts else {}),
            "AGENTEVAL_TASK": str(folder / TASK_FILE),
            "AGENTEVAL_OUT": str(folder / OUT_FOLDER),
        }
        from_suite = {**inherited, **dict(form.get("env", {}))}
        # A real key reaches no program, by whichever name it is passed on, nor within another value.
        secret = sorted({environ[name] for name in keys if environ.get(name)}, key=len, reverse=True)
        without_keys = {
            name: DUMMY if name in keys else _without_keys(value, secret)
            for name, value in from_suite.items()
        }
        return {**without_keys, **of_trial}

    def wait(self) -> None:
        """Wait until the program has ended, and tell."""
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
                remove_tree(self._folder)
        self._stdout.close()
        if not (self._trajectory or self._ctx.transcript.usage.attempts):
            self._ctx.transcript.add_unseen_usage()
        self._note_oddities()

    def _note_oddities(self) -> None:
        record = self._ctx.transcript.event
        if self._process is not None and self._process.cut:
            what = " and ".join(self._process.cut)
            record(CUT, f"{what}: more than {MOST_BYTES // 1_000_000} MB; the rest was not read")
        if self._address is not None and (around := self._address.around):
            hosts = list(dict.fromkeys(around))
            named = ", ".join(hosts[:MOST_NAMED]) + (", …" if len(hosts) > MOST_NAMED else "")
            many = "1 request" if len(around) == 1 else f"{len(around)} requests"
            line = f"{many} went around the tapes and was refused: {named}"
            record(AROUND, line if len(around) == 1 else line.replace(" was ", " were "), {"hosts": hosts})

    def answer(self, user_messages: Sequence[str]) -> Answer:
        """Give the answer to the user's messages; raises what broke the trial, or AgentCrash.

        Where no request of a model was seen, the program's own trajectory tells what was said and called.
        """
        assert self._process is not None
        assert self._address is not None
        if self._address.broken:
            raise self._address.broken[0]
        if self._process.broken is not None:
            raise self._process.broken
        if status := self._process.status:
            raise AgentCrash(self._crash(status))
        if self._stdout.unreadable is not None:
            raise self._stdout.unreadable
        answer, is_seen = self._stdout.answer(), bool(self._ctx.transcript.usage.asks)
        if self._trajectory and not is_seen:
            return replace(answer or Answer(), transcript=self._trajectory)
        if answer is None:
            self._ctx.transcript.event(NO_ANSWER, _NO_ANSWER_TEXT)
            return Answer()
        return (
            answer
            if is_seen
            else replace(answer, transcript=_exchange(user_messages, self._stdout.answers or [answer.text]))
        )

    def _crash(self, status: int) -> str:
        assert self._process is not None
        program = " ".join(self._form["command"])
        how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
        return KNOWN_SECRETS.text("\n".join([f"{program}: {how}", *self._process.last_errors]))

    def _log(self, line: str) -> None:
        if self._log_of_trial is not None:
            self._log_of_trial.print(f"{line}\n")


def _without_keys(value: str, keys: Sequence[str]) -> str:
    for key in keys:
        if value == key:
            return DUMMY
        if worth_hiding(key):
            value = value.replace(key, DUMMY)
    return value


def _no_way_around(address: TrialAddress) -> dict[str, str]:
    """Give variables by which well-behaved programs show whom they ask without an address of ours."""
    ways = dict.fromkeys(PROXY_VARIABLES, address.refusing_proxy)
    return {**ways, **dict.fromkeys(("NO_PROXY", "no_proxy"), f"{HOST}:{address.port}")}


def _exchange(user_messages: Sequence[str], answers: Sequence[str]) -> Transcript:
    """Give what is known of a conversation that nobody saw: to one question the last answer is that."""
    answers = answers[-1:] if len(user_messages) == 1 else answers
    turns = zip_longest(user_messages, answers)
    messages = [
        Message(role, text, turn=turn + (role == "assistant"))
        for turn, pair in enumerate(turns)
        for role, text in zip(_ROLES, pair, strict=True)
        if text is not None
    ]
    return Transcript(tuple(messages))


def _text_of(path: Path) -> str:
    if not path.is_file():  # a pipe has no end
        return ""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""

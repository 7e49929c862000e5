"""An agent that is a program: what suite.yaml says of it, and the lines of JSON that it reads."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_agenteval.agents.agent import AgentContext, InputProblem
from pytest_agenteval.agents.container import Mount, engines, image_id
from pytest_agenteval.agents.loop import is_user_turn, last_user_turn, turn_text
from pytest_agenteval.agents.model_upstreams import ADDRESSES, DUMMY_KEYS, KEYS, bare_name
from pytest_agenteval.text.errors import TrialBroken, did_you_mean
from pytest_agenteval.text.json_values import json_digest, text_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_ADDRESS_VARIABLES = frozenset(name for names in ADDRESSES.values() for name in names)
OURS = frozenset({"HOME", *_ADDRESS_VARIABLES, *DUMMY_KEYS, *PROXY_VARIABLES})
"""Variables that are set for every command, whatever its suite says."""

OF_CONTAINERS = ("files", "memory", "processes", "disk")
"""The keys that only a command with an image has."""
WORKSPACE_FOLDER, TRIAL_FOLDER, SUITE_FOLDER = "/workspace", "/agenteval", "/suite"
"""Where a container has the workspace, the trial's other files, and files beside suite.yaml."""

SCRIPTS = frozenset(
    (".py", ".mjs", ".cjs", ".js", ".ts", ".mts", ".sh", ".bash", ".rb", ".pl", ".php", ".lua", ".r", ".jar",
     ".dart")
)  # fmt: skip
"""Endings of files that a program is given to carry out: one that is not there is a slip."""


def command_line(form: Mapping[str, Any]) -> list[str]:
    """Give the program and its arguments; what is a file beside suite.yaml is given by its whole path.

    The command runs in the workspace, where such a file is not.
    """
    if form.get("image"):
        return [_in_container(form, place, part) or part for place, part in enumerate(form["command"])]
    line = []
    for place, part in enumerate(form["command"]):
        file = Path(form["folder"]) / part
        found = shutil.which(part) if place == 0 else None
        # A bare name of a program means the one on PATH, even if a file of that name lies beside suite.yaml.
        if _is_file(file) and (place > 0 or _has_folder(part) or found is None):
            line.append(str(file.absolute()))
        else:
            line.append(found or part)
    return line


def _in_container(form: Mapping[str, Any], place: int, part: str) -> str:
    """Give where a file beside suite.yaml lies in the command's container; empty for what is no such file."""
    # An absolute path, and a program without a folder, are those of the image.
    if Path(part).is_absolute() or (place == 0 and not _has_folder(part)):
        return ""
    names = [name for name in Path(part).parts if name != ".."]
    return "/".join((SUITE_FOLDER, *names)) if _is_file(Path(form["folder"]) / part) else ""


def container_mounts(form: Mapping[str, Any]) -> list[Mount]:
    """Give the files and folders beside suite.yaml that the command's container can read."""
    folder = Path(form["folder"])
    places = [(part, _in_container(form, place, part)) for place, part in enumerate(form["command"])]
    places += [(part, f"{SUITE_FOLDER}/{Path(part).as_posix()}") for part in form.get("files", ())]
    return [Mount(folder / part, target) for part, target in dict(places).items() if target]


def project_files(form: Mapping[str, Any]) -> list[Path]:
    """Give the files beside suite.yaml, or below, that the command names, and those that it can import."""
    folder = Path(form["folder"])
    if not form.get("image"):
        return [folder / part for part in form["command"] if _is_file(folder / part)]
    sources = [mount.source for mount in container_mounts(form)]
    return [file for source in sources for file in ([source] if source.is_file() else _files_below(source))]


def _files_below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def files_digest(form: Mapping[str, Any]) -> str:
    """Give a digest of the files that the command names: the same wherever the project lies."""
    texts = [file.read_text(encoding="utf-8", errors="surrogateescape") for file in project_files(form)]
    digests = [text_digest(text) for text in texts]
    if image := form.get("image"):
        # A name such as ``latest`` does not say which image it is. Without it, each trial says why.
        with suppress(TrialBroken):
            digests.append(image_id(image))
    return json_digest(digests) if digests else ""


def command_problems(form: Mapping[str, Any]) -> Sequence[InputProblem]:
    """Say what keeps the command from being started as its suite says; keys are those of suite.yaml."""
    return [*container_problems(form), *_program_problems(form), *variable_problems(form)]


def container_problems(form: Mapping[str, Any]) -> Iterator[InputProblem]:
    if not form.get("image"):
        for key in OF_CONTAINERS:
            if form.get(key):
                yield ("agent", key), "`image` beside it: only a container has it", "none"
        return
    if not engines():
        yield ("agent", "image"), "docker or podman on PATH", "neither", "install one of them"
    folder = Path(form["folder"])
    for place, part in enumerate(form.get("files", ())):
        if Path(part).is_absolute() or ".." in Path(part).parts or not (folder / part).exists():
            expected = "a file or a folder beside suite.yaml, or below"
            yield ("agent", "files", place), expected, f"{part!r}", _near(folder, part)


def _program_problems(form: Mapping[str, Any]) -> Iterator[InputProblem]:
    folder, command, is_boxed = Path(form["folder"]), list(form["command"]), bool(form.get("image"))
    program, script = command[0], command[1] if len(command) > 1 else ""
    is_beside = _is_file(folder / program)
    is_program = is_beside and os.access(folder / program, os.X_OK)
    # A relative path with a folder means a file beside suite.yaml, and is not searched for on PATH.
    if not is_program and (Path(program).is_absolute() or not _has_folder(program)):
        # The programs of an image are known when a container starts.
        is_program = is_boxed or shutil.which(program) is not None
    if not is_program and is_beside:
        hint = f"chmod +x {program}, or put its interpreter before it, such as bash"
        yield ("agent", "command", 0), "a program", f"{program!r}, a file that may not be executed", hint
    elif not is_program:
        elsewhere = "" if _has_folder(program) else ", and not on PATH"
        found = f"{program!r}, which is no file beside suite.yaml{elsewhere}"
        yield ("agent", "command", 0), "a program", found, _near(folder, program)
    is_in_image = is_boxed and Path(script).is_absolute()
    if not is_in_image and Path(script).suffix.lower() in SCRIPTS and not _is_file(folder / script):
        found = f"{script!r}, which is not there"
        yield ("agent", "command", 1), "a file beside suite.yaml", found, _near(folder, script)
    # Nothing is filled into a command: the program would be given these very characters as its question.
    for place, part in enumerate(command):
        if re.fullmatch(r"(-[^={]*=)?\{content\}", part):
            hint = "a command reads the task as a line of JSON from its standard input, or in $AGENTEVAL_TASK"
            expected = "an argument without placeholders: nothing is filled in"
            yield ("agent", "command", place), expected, repr(part), hint


def variable_problems(form: Mapping[str, Any]) -> Iterator[InputProblem]:
    expected = "a variable that agenteval does not set itself"
    for name in form.get("env", ()):
        if is_ours(name):
            yield ("env", name), expected, repr(name), _instead(name)
    for place, name in enumerate(form.get("env_pass", ())):
        if any(name in keys for keys in KEYS.values()):
            found = f"{name!r}: agenteval adds the key when it forwards the command's requests"
            yield ("env_pass", place), "a variable that is not a model provider's key", found, "leave it out"
        elif is_ours(name):
            yield ("env_pass", place), expected, repr(name), ""
    for name, base in form.get("proxy", {}).items():
        if is_ours(name):
            yield ("proxy", name), expected, repr(name), _instead(name)
        if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).hostname:
            yield ("proxy", name), "an address: http://... or https://...", repr(base), ""


def is_ours(name: str) -> bool:
    """Whether a variable is set for every command, whatever its suite says."""
    return name in OURS or name.startswith("AGENTEVAL_")


def _instead(name: str) -> str:
    if name in _ADDRESS_VARIABLES:
        return f"set {name} where pytest runs, or `api_base` of the model: requests are sent on to it"
    return ""


def _has_folder(program: str) -> bool:
    return os.path.dirname(program) != ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    # An argument may be any text: too long for a path (OSError), or with a zero byte (ValueError).
    except (OSError, ValueError):
        return False


def _near(folder: Path, name: str) -> str:
    place = (folder / name).parent
    names: Collection[str] = [path.name for path in place.iterdir()] if place.is_dir() else []
    return did_you_mean(Path(name).name, names)


VERSION = 1
"""The form of the lines."""


ANSWERS_ONCE = (
    "a command with `output: text` answers once; with `output: events` it answers each by a line of JSON"
)


class OneAnswerOnly(TrialBroken):
    """A conversation that is to be had with a program whose whole output is its answer."""

    cause = "agent"


class TaskLines:
    """What a program reads: the task as a line of JSON and, in a conversation, a line for each user turn.

    The conversation before the first turn that is to be answered stands in that line as ``turns``. A program
    that ``answers_once`` has no events by which its answers could be distinguished. A ready-made one
    (``reads_text``) is given the text of its only turn.
    """

    def __init__(
        self,
        task_input: Mapping[str, Any],
        settings: Mapping[str, Any],
        ctx: AgentContext,
        *,
        answers_once: bool = False,
        reads_text: bool = False,
    ) -> None:
        self._input, self._settings, self._ctx = task_input, settings, ctx
        self._answers_once, self._reads_text = answers_once, reads_text
        self.goes_on = bool(task_input.get("turns")) or getattr(ctx.turns, "several", False)
        self.user_messages: list[str] = []

    async def first(self) -> str:
        """Give the line with the whole task; raises OneAnswerOnly where a program cannot answer it."""
        ctx, task_input = self._ctx, self._input
        if self.goes_on:
            history = list((task_input.get("turns") or ())[: last_user_turn(task_input)])
            if history and self._reads_text:
                raise OneAnswerOnly("the task has earlier turns, and a ready-made agent is given one text")
            # These turns are past: they are taken, so that the next one is the one to be answered.
            for _ in filter(is_user_turn, history):
                await ctx.turns()
            rest = {key: value for key, value in task_input.items() if key != "turns"}
            task_input = {**rest, **({"turns": history} if history else {}), "content": await ctx.turns()}
            if self._answers_once:
                # Whether a model that plays the user has another turn is known only by a request to it,
                # which would be paid for. So its conversation is refused before the program is started.
                is_played = not self._input.get("turns")
                if is_played or await self._ctx.turns() is not None:
                    who = "a ready-made agent answers once" if self._reads_text else ANSWERS_ONCE
                    raise OneAnswerOnly(f"the task has several user turns, and {who}")
                self.goes_on = False
        self.user_messages.append(turn_text(task_input))
        if self._reads_text:
            return KNOWN_SECRETS.text(self.user_messages[0])
        return _line(
            {
                "v": VERSION,
                "task": ctx.trial.task,
                "repetition": ctx.trial.repetition,
                **({"turn": 1} if self.goes_on else {}),
                "input": task_input,
                "model": bare_name(ctx.model),
                "settings": self._settings,
                "now": ctx.clock.now().isoformat(),
            }
        )

    async def next(self) -> str | None:
        """Give the line of the next user turn; None where there is no more."""
        text = await self._ctx.turns()
        if text is None:
            self.goes_on = False
            return None
        self.user_messages.append(text)
        return _line({"v": VERSION, "turn": len(self.user_messages), "input": {"content": text}})


def _line(value: Mapping[str, Any]) -> str:
    # Programs print what they are given: no real key may stand in it, whatever the task says.
    return json.dumps(KNOWN_SECRETS.value(value), ensure_ascii=False)

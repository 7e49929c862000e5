"""A round of the user's coding agent: feedback goes in, and its changes are checked before they count.

The coding agent is any command. It works in a tree of its own, and is ended when it hangs.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import uuid4

from msgspec.structs import replace

from pytest_agenteval.loop.contamination import Leak, prompt_leaks
from pytest_agenteval.loop.feedback.content import (
    MARKDOWN_FILE,
    EarlierRound,
    FeedbackOptions,
    write_feedback,
)
from pytest_agenteval.loop.feedback.feedback import make_feedback
from pytest_agenteval.loop.improve.attempts import TreeSuite, held_out_files
from pytest_agenteval.loop.improve.progress import Improvement, Round
from pytest_agenteval.loop.improve.repository import (
    NO_FILE,
    REGULAR,
    ChangedFile,
    Repository,
    git_environment,
)
from pytest_agenteval.loop.todays_tasks import suite_with_tasks
from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.process_groups import GROUP, end_group
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.record_files import replace_text
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import first_few, format_duration, one_line, pluralize
from pytest_agenteval.text.redaction import KNOWN_SECRETS

# Seconds that the command has to end after the request to end.
AGENT_GRACE_S = 5.0
POLL_S = 0.1
# How much a command may print. One that prints without end would fill the disk before its time is over.
MOST_OUTPUT_BYTES = 50_000_000
LAST_CHARACTERS = 8_000
AGENT_MARK = "AGENTEVAL_CODING_AGENT"
_ASSIGNMENT, _PLAIN = re.compile(r"\w+="), re.compile(r"[\w./+-]+")

MOST_PATHS = 4
MOST_PATH = 200
# A larger file is no prompt.
MOST_PROMPT_BYTES = 1_000_000

MOST_LINE = 300
MOST_LEAKS = 3


class CodingAgentEnding(FrozenValue, frozen=True):
    """How the command ended: by itself with a status, or ended by us for its time or for all that it printed.

    ``last_line`` is the last line that it printed, empty where it printed none.
    """

    how: Literal["ended", "timeout", "too much output"]
    status: int
    seconds: float
    last_line: str


def missing_command(command: str) -> str:
    """Give the command that a shell line starts with, where there is no such command; else nothing."""
    try:
        words = shlex.split(command)
    except ValueError:
        # The shell itself reports quotes that do not close.
        return ""
    name = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    # A name with a variable or a substitution in it is known only when the shell runs the line.
    if not POSIX or not _PLAIN.fullmatch(name):
        return ""
    # Builtins of the shell are commands too, and only a shell knows them.
    look_up = ("/bin/sh", "-c", 'command -v -- "$1"', "sh", name)
    known = subprocess.run(look_up, capture_output=True, check=False).returncode == 0
    return "" if known else name


def run_coding_agent(
    command: str, *, folder: Path, feedback: Path, output: Path, variables: Mapping[str, str], timeout: float
) -> CodingAgentEnding:
    """Have a shell run the command in a folder, with a file as its input and its output in another file.

    The command has the user's environment. Whatever it started is ended with it: when it has ended, when its
    time is over, and on Ctrl-C.
    """
    began = time.monotonic()
    # The folder in which the user stands may be unknown to git, and then no tree has it.
    folder.mkdir(parents=True, exist_ok=True)
    # A child in a session of its own, without a parent, is found by this variable in its environment.
    mark = str(uuid4())
    with feedback.open("rb") as given, output.open("w+b") as printed:
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env={**git_environment(), **variables, AGENT_MARK: mark},
            stdin=given,
            stdout=printed,
            stderr=subprocess.STDOUT,
            **GROUP,
        )
        try:
            how = _wait_for_end(process, printed, began + timeout)
        finally:
            end_group(process, AGENT_GRACE_S, f"{AGENT_MARK}={mark}")
        # Read where it was printed to: the agent may have put another thing in the file's place.
        printed.seek(0)
        text = KNOWN_SECRETS.text(printed.read(MOST_OUTPUT_BYTES).decode("utf-8", "replace"))
    replace_text(output, text)
    # The last line that says anything is quoted in the log and in the next feedback.
    lines = text[-LAST_CHARACTERS:].splitlines()
    return CodingAgentEnding(
        how,
        process.returncode,
        time.monotonic() - began,
        next((line.strip() for line in reversed(lines) if line.strip()), ""),
    )


def _wait_for_end(
    process: subprocess.Popen[bytes], printed: BinaryIO, end: float
) -> Literal["ended", "timeout", "too much output"]:
    while True:
        try:
            # The size of the output has to be looked at while the command runs: it could fill the disk.
            process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                return "timeout"
            if os.fstat(printed.fileno()).st_size > MOST_OUTPUT_BYTES:
                return "too much output"
        else:
            return "ended"


class Edit(FrozenValue, frozen=True):
    """The prompt files that were changed; ``refusal`` says why the change counts for nothing, if it does."""

    files: tuple[str, ...]
    refusal: str = ""


def pathspecs_of(globs: Sequence[str], folder: str) -> list[str]:
    """Turn globs that are meant from a folder below the top into pathspecs of git; ``**`` is any depth."""
    # Brackets in the name of a folder are no pattern.
    place = re.sub(r"([*?\[\\])", r"\\\1", folder)
    paths = [posixpath.join(place, glob.replace(os.sep, "/")) for glob in globs]
    return [f":(top,glob){posixpath.normpath(path)}" for path in paths]


def check_edit(repository: Repository, start: str, tree: Path, pathspecs: Sequence[str]) -> Edit:
    """Say which prompt files were changed in a tree that was at ``start``, or why the round is refused."""
    if not tree.is_dir():
        return Edit((), "its checkout is gone")
    changes = repository.changes(start, tree, pathspecs)
    if outside := [change.path for change in changes if not change.matching]:
        count = pluralize(len(outside), "file")
        return Edit((), f"{count} outside the prompts changed: {listed_paths(outside)}")
    if refused := [reason for change in changes if (reason := _refused_change(change, tree))]:
        return Edit((), listed_paths(refused))
    return Edit(tuple(change.path for change in changes))


def _refused_change(change: ChangedFile, tree: Path) -> str:
    """Give the reason why a changed prompt file is refused; empty where it is accepted."""
    name = one_line(change.path, MOST_PATH)
    # A prompt may be deleted.
    if change.new_mode == NO_FILE:
        return ""
    path = tree / change.path
    # git takes a pipe for a file, and reading it would wait.
    if change.new_mode not in (change.old_mode, REGULAR) or not stat.S_ISREG(path.lstat().st_mode):
        return f"{name} became a link, a folder, a program or a pipe"
    if path.stat().st_size > MOST_PROMPT_BYTES:
        return f"{name} is larger than {MOST_PROMPT_BYTES:,} bytes"
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"{name} is not UTF-8 text"
    return ""


def listed_paths(paths: Sequence[str], most: int = MOST_PATHS) -> str:
    """Join the first paths with commas, and say how many more there are."""
    return ", ".join(first_few([one_line(path, MOST_PATH) for path in paths], most))


class RoundChange:
    """Makes the change of one round: ``old_tree`` is at its base, ``place`` is the round's own folder."""

    def __init__(
        self, repository: Repository, improvement: Improvement, old_tree: Path, place: Path, tasks: TreeSuite
    ) -> None:
        self._repository, self._of, self._old_tree = repository, improvement, old_tree
        self._place, self._tasks = place, tasks
        self._pathspecs = pathspecs_of(improvement.globs, improvement.folder)

    def make(self, current: Round, run: Run) -> Round:
        """Give the round with its change; it is already decided where nothing changed, or it is refused."""
        tree = self._place / "tree"
        # Files of the user's own checkout that change while the agent works are named in the log.
        before = set(self._repository.uncommitted())
        edit, ending = self._edit(current, run, tree)
        after = self._repository.uncommitted()
        done = replace(
            current,
            last_line=ending.last_line,
            coding_seconds=ending.seconds,
            meanwhile=tuple(path for path in after if path not in before),
        )
        if reason := _failed_ending(ending, self._of.limits.coding_timeout) or edit.refusal:
            return replace(done, step="decided", decision="refused", reason=reason)
        if not edit.files:
            return replace(done, step="decided", decision="nothing changed")
        message = f"Round {current.number} of {self._of.name}\n"
        commit = self._repository.commit_files(current.base, tree, edit.files, message)
        diff = self._repository.diff(current.base, commit)
        return self._searched(replace(done, step="changed", commit=commit, files=edit.files, diff=diff))

    def _edit(self, current: Round, run: Run, tree: Path) -> tuple[Edit, CodingAgentEnding]:
        """Let the coding agent work in a tree without held-out tasks and without history."""
        repository, feedback = self._repository, self._place / "feedback"
        files = self._repository.files(self._of.kept, self._pathspecs)
        models = [entry.key.model for entry in run.entries if entry.key.suite == self._of.suite]
        place = self._old_tree / self._of.folder
        file = next((entry.file for entry in run.entries if entry.file), "")
        # The run names its files from pytest's rootdir, which is the folder of the user or one above it.
        above = (place, *(each for each in place.parents if each.is_relative_to(self._old_tree)))
        options = FeedbackOptions(
            suite=self._of.suite,
            buckets=self._of.focus,
            model=next(iter(models), None),
            variant=self._of.feedback_variant,
            prompts=self._repository.texts(self._of.kept, files),
            root=next((each for each in above if (each / file).is_file()), place),
        )
        rounds = [earlier_round(each) for each in self._of.rounds[:-1]]
        write_feedback(make_feedback(run, options, rounds), feedback)
        # The tree starts from a commit without history and without these files, so that git cannot show them.
        hidden = held_out_files(self._tasks.tasks, repository.files(current.base))
        start = repository.without(current.base, hidden)
        repository.add_tree(tree, start)
        ending = run_coding_agent(
            self._of.command,
            folder=tree / self._of.folder,
            feedback=feedback / MARKDOWN_FILE,
            output=self._place / "coding-agent.txt",
            variables={
                "AGENTEVAL_FEEDBACK": str(feedback),
                "AGENTEVAL_ROUND": str(current.number),
                "AGENTEVAL_PROMPTS": "\n".join(self._of.globs),
                # Outside of its tree git must not find the user's checkout further up.
                "GIT_CEILING_DIRECTORIES": str(tree.parent),
            },
            timeout=self._of.limits.coding_timeout,
        )
        # The agent may have changed the other tree too, from which old and new are tried.
        repository.add_tree(self._old_tree, current.base)
        return check_edit(repository, start, tree, self._pathspecs), ending

    def _searched(self, current: Round) -> Round:
        suites = [suite_with_tasks(self._old_tree / self._of.suite_file)]
        # Only what this round added: an earlier leak is no fault of the agent.
        every = prompt_leaks(self._texts(current.base), self._texts(current.commit), suites)
        leaks = [leak for leak in every if leak.added]
        if not leaks:
            return current
        texts = tuple(map(_leak_text, leaks))
        held_out = any(leak.split == "held_out" for leak in leaks)
        more = f", and {len(texts) - MOST_LEAKS} more" if len(texts) > MOST_LEAKS else ""
        return replace(
            current,
            step="decided",
            decision="refused",
            reason=f"the prompt contains texts of tasks: {'; '.join(texts[:MOST_LEAKS])}{more}",
            leaks=texts,
            leaks_held_out=held_out,
        )

    def _texts(self, commit: str) -> dict[str, str]:
        return self._repository.texts(commit, self._repository.files(commit, self._pathspecs))


def _failed_ending(ending: CodingAgentEnding, timeout: float) -> str:
    last = one_line(ending.last_line, MOST_LINE)
    if ending.how == "timeout":
        return f"the coding agent was stopped after {format_duration(timeout)}"
    if ending.how == "too much output":
        return "the coding agent was stopped: too much output"
    if ending.status:
        return f"the coding agent ended with exit status {ending.status}" + (f": {last}" if last else "")
    return ""


def _leak_text(leak: Leak) -> str:
    place = f"{one_line(leak.file, MOST_LINE)}:{leak.line}"
    # The reason goes into the next feedback, where no word of a held-out task may stand.
    if leak.split == "held_out":
        return f"{place}: a text of a held-out task"
    kind = leak.kind.replace("_", " ")
    return f"{place}: {kind} of {one_line(leak.task, MOST_LINE)}: {one_line(leak.text, MOST_LINE)}"


def earlier_round(each: Round) -> EarlierRound:
    """Give a round as feedback for the next one, without anything of held-out tasks."""
    tried = each.dev or each.screen
    return EarlierRound(
        number=each.number,
        summary=one_line(each.last_line, MOST_LINE),
        decision=f"{each.decision}: {each.reason}" if each.reason else each.decision,
        # A diff that copies a held-out task would show it to the next round.
        diff="" if each.leaks_held_out else each.diff,
        sentence=tried.sentence if tried else "",
    )

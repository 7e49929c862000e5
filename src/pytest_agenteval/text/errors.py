"""Errors, by who caused them: the author of a file, the caller, a provider, or we."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import TracebackException
from typing import TypeVar

KeyPath = tuple[str | int, ...]
MOST_LISTED = 12  # names beyond which a list is shortened


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a file: where it is, what was expected and found, and what to do."""

    file: str
    line: int | None
    path: KeyPath
    expected: str
    found: str
    hint: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        rows = [
            f"{place}: {key_path_text(self.path)}" if self.path else place,
            f"  expected: {self.expected}",
            f"  found:    {self.found}",
        ]
        return "\n".join([*rows, f"  hint:     {self.hint}"] if self.hint else rows)


def key_path_text(path: KeyPath) -> str:
    """Write a key path as authors write it: ``graders[1].weight``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Give the hint ``did you mean …?``; empty when no known name is near."""
    import difflib

    names = list(options)
    alike = [other for other in names if other.casefold() == name.casefold()]
    near = alike or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def exception_text(raised: BaseException) -> str:
    """Give an exception's own text, or a replacement where a user's exception fails to give it."""
    try:
        return str(raised)
    except KeyboardInterrupt:
        raise
    # Also SystemExit: else nobody would learn what was raised.
    except BaseException as worse:
        return f"(its text cannot be had: {type(worse).__name__})"


RaisedT = TypeVar("RaisedT", BaseException, TracebackException)


def with_causes(raised: RaisedT) -> Iterator[RaisedT]:
    """Yield an exception or a traceback, with its causes and contexts and the members of groups."""
    waiting: list[RaisedT] = [raised]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        # Causes may lead in a circle.
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, BaseExceptionGroup | TracebackException):
            waiting += part.exceptions or ()
        if (cause := part.__cause__ or part.__context__) is not None:
            waiting.append(cause)


def nearest_names(name: str, names: Collection[str]) -> str:
    """List names in alphabetical order or, where there are many, the five that are most like ``name``."""
    if len(names) <= MOST_LISTED:
        return ", ".join(sorted(names))
    import difflib

    near = difflib.get_close_matches(name, sorted(names), n=5, cutoff=0.0)
    return f"{', '.join(near)}, ... ({len(names)} in all)"


CAUSES: Mapping[str, str] = {
    "cassette_miss": "no recording answers a tool call or a model request",
    "no_key": "a tool needs a provider's key",
    "simulated_user": "the model that plays the user failed or gave no usable turn",
    "no_model": "the agent used `ctx.chat`, and the model is `own`",
    "not_allowed": "the agent's own code sent a request that is not recorded or allowed (--agent-live)",
    "bridge": "a request of the agent's holds something that cannot be passed to another model",
    "provider": "a model or endpoint failed after every retry, has no key, or is unknown",
    "mcp_server": "an MCP server did not start, died, or did not answer in time",
    "not_installed": "a library is missing, or its version is not supported",
    "grader_crash": "a grader raised an error or returned no grade",
    "grader_hangs": "a grader did not return in time",
    "pattern_too_slow": "a regular expression took too long",
    "ungraded": "no grade is decided, or one with `require: true` is not",
    "answer": "the agent returned neither a text nor an `Answer`, or its output cannot be read",
    "agent": "the registered agent has no usable `run`",
    "crash": "the agent's code raised an error, or this plugin did",
    "agent_crash": "a command agent ended with an exit status other than 0",
    "nothing_to_act_out": "`oracle` without `reference_solution.turns`, `scripted` without `script`",
    "script_ended": "`scripted` got more requests than its script has entries",
    "fixture": "the starting workspace could not be built or read",
    "executor": "a process of the executor died or could not start",
    "file_problem": "a cassette, a prompt or the agent's settings have problems",
    "prompt": "a prompt file could not be rendered",
    "input_changed": "while regrading: the task's input is different today",
    "transcript_lost": "while regrading: the stored transcript is damaged",
    "unwritable": "the trial could not be written to disk",
    "broken": "something else failed that is not the agent's fault",
}
"""Every cause of an errored trial, with its meaning."""


class AgentEvalError(Exception):
    """Base of all errors that the package raises on purpose; shown without a traceback."""


class RequestRefused(BaseException):
    """A request that no tape answers, and that may not be sent.

    It is no Exception: clients wrap every Exception in an error of their own, wait, and retry.
    """


class ProblemsFound(AgentEvalError):
    """A file or setting has problems; holds all of them.

    ``cause`` is the cause of a trial that met the problem only while it ran.
    """

    cause = "file_problem"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class UsageMistake(AgentEvalError):
    """An option or setting is wrong; pytest ends with exit status 4."""


class TrialBroken(AgentEvalError):
    """A trial could not run, through no fault of the agent.

    ``cause`` is one of ``CAUSES``, by which reports count; a class with any other cannot be made.
    """

    cause = "broken"

    def __init_subclass__(cls) -> None:
        if cls.cause not in CAUSES:
            raise TypeError(f"{cls.__name__} has the cause {cls.cause!r}: one of {', '.join(CAUSES)}")


class FixtureBroken(TrialBroken):
    """The starting workspace could not be built."""

    cause = "fixture"


class CassetteMiss(TrialBroken):
    """A call was not recorded and may not be sent; ``problem`` says what to do."""

    cause = "cassette_miss"

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ProviderDown(TrialBroken):
    """A model or tool provider did not answer after all retries."""

    cause = "provider"


class McpServerDown(TrialBroken):
    """A server whose tools are offered did not start, died, or did not answer; says its last words."""

    cause = "mcp_server"


class NotInstalled(TrialBroken):
    """A library that is needed is missing, or one of another version than was tried."""

    cause = "not_installed"


class NoKey(TrialBroken):
    """A tool was to ask its provider, and the environment holds no key for it."""

    cause = "no_key"


class NothingToActOut(TrialBroken):
    """An offline model has to play a task that gives it no part."""

    cause = "nothing_to_act_out"


class ScriptEnded(TrialBroken):
    """A scripted model received more requests than its script has entries."""

    cause = "script_ended"


class TranscriptLost(TrialBroken, UsageMistake):
    """A stored trial's transcript cannot be read; its ending is in the journal."""

    cause = "transcript_lost"


# The factor from which on the text of a limit of seconds names the seconds that passed, too.
ELAPSED_MORE = 1.1


class LimitReached(AgentEvalError):
    """A trial used up a limit; it is graded all the same.

    ``elapsed`` are the seconds that passed, of which a limit of seconds counts only ``used``.
    """

    def __init__(self, limit: str, allowed: float, used: float, elapsed: float = 0.0) -> None:
        passed = f"; {elapsed:.1f} s passed" if elapsed > used * ELAPSED_MORE else ""
        super().__init__(f"limit reached: {limit} (allowed {allowed:g}, used {used:g}{passed})")
        self.limit, self.allowed, self.used = limit, allowed, used


class LimitIgnored(BaseException):
    """Ends an agent that catches LimitReached and goes on: else its loop would never end, nor let others run.

    It is no Exception, so that ``except Exception`` does not catch it as well.
    """


class UndefinedStatistic(AgentEvalError):
    """A statistic that these data do not define; its text says why."""


_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_API_KEY\b")
_KEY_IN_WORDS = re.compile(r"api[_ ]?key|auth_token|credentials", re.IGNORECASE)


def key_hint(text: str) -> str:
    """Say what to do where a client raised because it found no key; empty for other errors."""
    # Where requests are replayed, or answered by another model, clients look for their keys all the same.
    named = _KEY.search(text)
    if named is None and not _KEY_IN_WORDS.search(text):
        return ""
    variable = named[0] if named else "OPENAI_API_KEY"
    return f"this key is not sent, so any text will do: {variable}=none"


@contextmanager
def writing(name: object) -> Iterator[None]:
    """Raise UsageMistake, with the name of the file or folder, where the disk refuses what is written."""
    try:
        yield
    except OSError as refused:
        raise UsageMistake(f"{name}: cannot be written ({refused.strerror or refused})") from None

"""A metric as a grader, and the trace that it reads: steps, calls, and what tools answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar

from pytest_agenteval import Evidence, Grade, ToolCall
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import (
    Combine,
    KoTask,
    Mode,
    check_task_keys,
    normalize_task_keys,
)
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import json_equal

# The key of the agent's state where a trial imported from the benchmark's logs holds what they say.
LOG_STATE = "ko_agentbench"
# Keys of a grade's details: what the benchmark would report beside the score, and the exception that its code
# would have raised.
DETAILS, UPSTREAM_ERROR = "upstream", "upstream_error"


class KoCall(FrozenValue, frozen=True):
    """One tool call; ``step`` counts the model's replies, and ``seeded`` calls were given, not made.

    ``step`` is None where the reply that made the call was not seen: each such call is one by itself. One
    that is not ``readable`` came with arguments that are no JSON object; its ``args`` are empty.
    """

    step: Any
    tool: str
    args: Mapping[str, Any] = {}
    success: bool = True
    error: str | None = None
    result: Any = None
    seeded: bool = False
    readable: bool = True

    @property
    def worked(self) -> bool:
        return bool(self.success) and not self.error


class KoMessage(FrozenValue, frozen=True):
    """One message of the conversation; ``seeded`` ones come from the task."""

    role: str
    content: str | None
    seeded: bool = False


class KoTrace(FrozenValue, frozen=True):
    """One trial: its calls in order, its answer, and what the benchmark's log would say of it.

    ``success`` is the benchmark's technical flag: there was a reply. ``messages`` is None where the log holds
    no conversation. ``level`` and ``instruction`` are those of the log, or of the task's input; a task's own
    words come first. ``offered`` names the tools that the log says were offered.
    """

    calls: tuple[KoCall, ...] = ()
    final_response: Any = None
    success: bool = True
    repetition_results: tuple[bool, ...] = ()
    repetitions: int | None = None
    messages: tuple[KoMessage, ...] | None = None
    level: Any = None
    instruction: str = ""
    offered: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[KoCall, ...]:
        """The calls that the agent made."""
        return tuple(call for call in self.calls if not call.seeded)

    @property
    def answer(self) -> str:
        """The agent's final answer; a run that broke off has none, whatever its log repeats."""
        # Where the evaluated turn broke, the log repeats the task's own last text: mostly the reference.
        if not self.success or self.final_response is None:
            return ""
        return str(self.final_response).strip()

    @property
    def response_text(self) -> str:
        """The final response as text, whatever became of the run."""
        return "" if self.final_response is None else str(self.final_response)

    @property
    def question(self) -> str:
        """The user's last message, else the task's instruction."""
        questions = [message.content or "" for message in self.messages or () if message.role == "user"]
        return questions[-1] if questions else self.instruction


def trace_of(evidence: Evidence) -> KoTrace:
    log = evidence.state.get(LOG_STATE)
    imported: Mapping[str, Any] = log if isinstance(log, Mapping) else {}
    # An agent with a model of its own leaves nothing but its answer: without any reply, that answer decides.
    replies = (message.role == "assistant" and not message.seeded for message in evidence.messages)
    success = bool(imported.get("success", evidence.answer or any(replies)))
    flags = imported.get("repetition_results")
    task_turns = _task_turns(evidence)
    spoken = [message for message in evidence.messages if message.role != "system"]
    messages = tuple(KoMessage(message.role, message.content, message.seeded) for message in spoken)
    return KoTrace(
        calls=tuple(map(_call, evidence.calls)),
        # A log writes null for an empty answer, too.
        final_response=evidence.answer or None,
        success=success,
        repetition_results=tuple(flags) if isinstance(flags, list | tuple) and flags else (success,),
        repetitions=imported.get("repetitions"),
        # Where no messages were recorded, the conversation is what the task gave.
        messages=(messages or task_turns) if imported.get("conversation", True) else None,
        level=imported.get("task_level"),
        instruction=next((turn.content or "" for turn in task_turns if turn.role == "user"), ""),
        offered=tuple(imported.get("expected_tools") or ()),
    )


def _call(call: ToolCall) -> KoCall:
    error = None if call.error is None else call.error.message or call.error.type
    seeded = call.by == "seed"
    # Turn 0 of a call that the agent made means that its reply was not seen: it is a step of its own.
    step = call.turn if call.turn or seeded else None
    fine, readable = call.error is None, call.raw_args is None
    return KoCall(step, call.tool, dict(call.args), fine, error, call.result, seeded, readable)


def _task_turns(evidence: Evidence) -> tuple[KoMessage, ...]:
    """Give the turns of a task; its text counts as one turn of the user, and so does a turn of plain text."""
    turns = evidence.task_input.get("turns")
    if not isinstance(turns, Sequence) or isinstance(turns, str):
        turns = [evidence.task_input.get("content")]
    maps = (turn if isinstance(turn, Mapping) else {"content": turn} for turn in turns)
    texts = ((turn.get("role", "user"), turn.get("content")) for turn in maps)
    return tuple(KoMessage(role, text, seeded=True) for role, text in texts if isinstance(text, str))


class MetricResult(FrozenValue, frozen=True):
    """What a metric found; ``details`` is what the benchmark's report holds beside the score."""

    score: float | None
    reason: str
    details: Mapping[str, Any] | None = None
    more: Mapping[str, Any] = {}
    undecided: str = ""

    def grade(self, name: str) -> Grade:
        details: dict[str, Any] = {} if self.details is None else {DETAILS: dict(self.details)}
        # A grade has no score below 0, and upstream has: there it stands beside the 0.
        below = self.score if self.score is not None and self.score < 0 else None
        score = self.score if below is None else 0.0
        details |= self.more
        return Grade(name, score, self.reason, details=details, unclamped=below, undecided=self.undecided)


def not_applicable(reason: str) -> MetricResult:
    return MetricResult(None, f"not applicable: {reason}", undecided="not_applicable")


class UpstreamError(Exception):
    """Where the benchmark's own code throws."""

    def result(self) -> MetricResult:
        """Give what the benchmark's evaluator makes of its own exceptions: a score of 0."""
        reason = f"the benchmark's code throws here: {self}"
        return MetricResult(0.0, reason, more={UPSTREAM_ERROR: str(self)})


@dataclass(frozen=True)
class KoGrader(KoTask):
    """A metric as a grader: a task's keys, and how to count.

    ``default`` counts what the benchmark documents. ``upstream`` counts as its code does, faults included,
    so that figures can be laid beside its own. ``combine`` says how ``default`` makes one score of several
    judges'.
    """

    mode: Mode = "default"
    combine: Combine = "mean"

    version: ClassVar[str] = "3"
    # Most metrics only measure: those that may fail a trial say so themselves.
    threshold: ClassVar[float] = 0.0
    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_task_keys(self, self.mode, self.combine)
        if self.mode == "default":
            normalize_task_keys(self)


@dataclass(frozen=True)
class ComputedGrader(KoGrader):
    """A grader of a metric that needs no judge: a method for each mode works it out."""

    quick: ClassVar[bool] = True

    def default(self, trace: KoTrace) -> MetricResult:
        raise NotImplementedError

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Say that the benchmark documents this metric, and no longer has it in its code."""
        return MetricResult(None, "not in the benchmark's code", undecided="not_defined")

    def result(self, trace: KoTrace) -> MetricResult:
        """Work the metric out in the grader's mode."""
        try:
            return self.default(trace) if self.mode == "default" else self.upstream(trace)
        except UpstreamError as raised:
            return raised.result()

    def grade(self, evidence: Evidence) -> Grade:
        # The benchmark's own code compares texts as they are spelt, and so does mode upstream.
        normal = evidence.in_normal_form() if self.mode == "default" else evidence
        return self.result(trace_of(normal)).grade(self.name)


def share(part: float, whole: float) -> float:
    """Give a part of a whole, bounded to 0 and 1."""
    return min(1.0, max(0.0, part / whole))


def naive_sum(numbers: Iterable[float]) -> float:
    """Give the sum as repeated addition gives it, to the last digit.

    From Python 3.12 on ``sum`` makes up for what rounding loses, and so differs from published figures.
    """
    return reduce(add, numbers, 0)


_ERROR_KEYS = ("error", "errors", "error_code", "error_message", "errorCode", "errorMessage")
# Values of `code` that come with success.
_FINE = (0, 200)

# Keys under which a search reports how many results it found. A ``total`` counts as one only beside a list.
_TOTALS = frozenset(["totalcount", "totalresults", "totalhits", "totalitems", "totalelements", "numfound"])

# Keys beside a list that describe the search, or say that it worked. They say nothing about what was found.
_DESCRIPTIONS = """
    total count pageablecount start startindex display page size limit offset numofrows pageno itemsperpage
    perpage isend hasmore version lastbuilddate pubdate currentdatetime
    success ok status code message rspcd rspmsg rtcd msgcd msg1 query keyword
"""
_SEARCH_KEYS = _TOTALS.union(_DESCRIPTIONS.split())


def has_data(call: KoCall) -> bool:
    """Whether a call worked and its result has content."""
    return is_valid(call) and has_content(call.result, call.args)


def is_valid(call: KoCall) -> bool:
    """Whether a call worked and its result is no error in disguise."""
    return call.worked and not is_error_result(call.result)


def is_error_result(result: Any) -> bool:
    """Whether a result is an error that a provider wrote in the place of one.

    So do TMAP and Bithumb (a map with an error), Aladin (its code), LS and KIS (a return code other than
    zeros) and Naver's directions (a code other than 0). A list of nothing but errors is one, too.
    """
    if isinstance(result, list | tuple):
        return bool(result) and all(map(is_error_result, result))
    if not isinstance(result, Mapping):
        return False
    if result.get("success") is False or any(result.get(key) for key in _ERROR_KEYS):
        return True
    # The return codes of LS and KIS: any number of zeros is success.
    if any(str(result.get(key) or "0").strip("0") for key in ("rsp_cd", "rt_cd")):
        return True
    code = result.get("code")
    return isinstance(code, int) and not isinstance(code, bool) and "message" in result and code not in _FINE


def has_content(result: Any, args: Mapping[str, Any] | None = None) -> bool:
    """Whether there is anything in a result: it is empty only where everything in it is.

    So are errors in a list, a search that says that it found 0, and, beside empty lists, what only says how
    was searched: a page, a date, an argument of the call.
    """
    if not isinstance(result, Mapping):
        return _has_value(result)
    lists = list(_lists(result))
    if any(map(_has_value, lists)):
        return True
    values = [(key, leaf) for key, leaf in _leaves(result) if _has_value(leaf)]
    noughts = {key for key, leaf in values if _is_zero(leaf)}
    if noughts & _TOTALS or (lists and "total" in noughts):
        return False
    new_keys = (key for key, leaf in values if not _echoes(key, leaf, args or {}))
    return any(not lists or key not in _SEARCH_KEYS for key in new_keys)


def _echoes(key: str, leaf: Any, args: Mapping[str, Any]) -> bool:
    """Whether a value only repeats the request: a text or, under a similar name, any value."""
    for name, arg in args.items():
        arg_key = _normalize_key(name)
        # Small numbers and truth values are equal by chance: a temperature of 5 is no answer to `days: 5`. So
        # they count as an echo only under a similar name.
        if json_equal(leaf, arg) and (isinstance(leaf, str) or arg_key in key or key in arg_key):
            return True
        if key.endswith(arg_key) and arg not in (None, "") and str(arg) in str(leaf):
            return True
    return False


def _normalize_key(key: Any) -> str:
    """Write a key in one spelling: folded, without ``_`` and ``-``."""
    return str(key).casefold().replace("_", "").replace("-", "")


def _has_value(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return bool(leaf.strip())
    if isinstance(leaf, Mapping):
        return not is_error_result(leaf) and any(map(_has_value, leaf.values()))
    return any(map(_has_value, leaf)) if isinstance(leaf, list | tuple) else leaf is not None


def _is_zero(leaf: Any) -> bool:
    return str(leaf).strip() in ("0", "0.0") and not isinstance(leaf, bool)


def _lists(value: Any) -> Iterator[list[Any] | tuple[Any, ...]]:
    """Give the outermost lists in a map."""
    for inner in value.values():
        if isinstance(inner, list | tuple):
            yield inner
        elif isinstance(inner, Mapping):
            yield from _lists(inner)


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Give each value that is neither map nor list with its normalized key; those of errors are left out."""
    for key, inner in value.items():
        if not isinstance(inner, Mapping | list | tuple):
            yield _normalize_key(key), inner
        elif isinstance(inner, Mapping) and not is_error_result(inner):
            blank = [isinstance(leaf, str) and not leaf.strip() for leaf in inner.values()]
            unfilled = (none or _is_zero(leaf) for none, leaf in zip(blank, inner.values(), strict=True))
            # A record of several fields, each 0 or no text, and some of them no text, was never filled in.
            if not (len(inner) > 2 and any(blank) and all(unfilled)):
                yield from _leaves(inner)


def is_meaningful_upstream(result: Any) -> bool:
    """Whether the benchmark's code takes a result for a useful one."""
    if not isinstance(result, Mapping):
        return bool(result)
    # It knows these two keys and total_count: results of Daum, LS, KIS, Upbit, Aladin and TMAP never count.
    if result.get("items") or result.get("places"):
        return True
    count = result.get("total_count", 0)
    try:
        return bool(count > 0)
    except TypeError:
        raise UpstreamError(f"total_count is {type(count).__name__}, which it compares with 0") from None

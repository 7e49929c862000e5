"""Why a request to a provider failed, whether another may succeed, and which settings it was refused for."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from importlib.metadata import requires
from typing import Any

from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import NO_USAGE
from pytest_agenteval.text.errors import AgentEvalError, NotInstalled, with_causes
from pytest_agenteval.text.redaction import KNOWN_SECRETS

LONGEST_MESSAGE = 300

_CAUSES: Mapping[str, str] = {
    "ContextWindowExceededError": "context_length",
    "ContentPolicyViolationError": "content_policy",
    "BadRequestError": "bad_request",
    "UnsupportedParamsError": "bad_request",
    "UnprocessableEntityError": "bad_request",
    "Timeout": "timeout",
    "TimeoutError": "timeout",
}
_STATUSES: Mapping[int, str] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    429: "rate_limit",
    504: "timeout",
}
# The same request would fail again.
_LASTING = frozenset({"auth", "unknown_model", "context_length", "content_policy", "bad_request", "quota"})
# Parts of messages, in lower case. Providers and servers report a conversation that is too long, or refused
# by a policy, with the status of any bad request.
_TOO_LONG = (
    "context_length_exceeded", "context limit", "context size", "current length is",
    "input tokens exceed the configured limit", "longer than the model's context length",
    "maximum context length", "maximum input length", "maximum number of tokens allowed",
    "prompt is too long", "prompt: length", "string too long. expected a string with maximum length",
)  # fmt: skip
_POLICY = (
    "content_filter", "content_policy_violation", "content filtering policy",
    "responsibleaipolicyviolation", "safety system", "violating our usage policy",
)  # fmt: skip
UNUSABLE = "no usable reply"
# OpenAI reports an empty account with the status 429, Anthropic with 400; waiting helps with neither.
_NO_CREDIT = ("insufficient_quota", "exceeded your current quota", "credit balance is too low")


class AttemptFailed(AgentEvalError):
    """One request that got no usable reply.

    ``cause`` is one word: auth, bad_request, unknown_model, context_length, content_policy, quota,
    rate_limit, timeout, connection or provider. ``status`` is None when no HTTP reply came. ``puts_off``
    means that the provider wants the request later: it gets too many, or is overloaded. ``usage`` holds the
    tokens that the provider counted although the reply cannot be used.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: str = "provider",
        retryable: bool = True,
        retry_after_s: float | None = None,
        status: int | None = None,
        puts_off: bool = False,
    ) -> None:
        super().__init__(message)
        self.puts_off = puts_off
        self.message, self.cause, self.status = message, cause, status
        self.usage = NO_USAGE
        self.retryable, self.retry_after_s = retryable, retry_after_s


def litellm_failure(raised: Exception, timeout_s: float) -> AttemptFailed:
    """Read an exception of litellm's; secrets are replaced before the text is cut."""
    text = KNOWN_SECRETS.text(str(raised))
    # litellm puts names of exceptions before the provider's message, and advice or a traceback behind it.
    wrapping = re.match(r"(?:(?:litellm\.)?\w*(?:Error|Timeout): |\w+(?:Exception|Error) - )+", text)
    unwrapped = text[wrapping.end() if wrapping else 0 :]
    message = re.split(r"\. Handle with `litellm\.|Traceback \(most recent call last\)", unwrapped)[0]
    with suppress(ValueError, KeyError, TypeError):  # Anthropic's errors come as JSON
        error = json.loads(message)["error"]
        message = f"{error['message']} ({error['type']})"
    words = one_line(message) or type(raised).__name__
    headers = getattr(raised, "litellm_response_headers", None)
    cause = _litellm_cause(raised, words, answered=headers is not None)
    unusable = cause == "provider" and headers is None
    made_up = unusable or cause in ("connection", "timeout")
    # litellm makes up a status for a failure without a response; none is reported then.
    status = None if made_up else getattr(raised, "status_code", None)
    if cause == "timeout":
        words = no_reply_message(timeout_s)
    elif unusable:
        words = f"{UNUSABLE}: {words}"
    return failed_attempt(cause, words, status, headers or NOTHING)


def no_reply_message(timeout_s: float) -> str:
    return f"no reply within {timeout_s:g} s"


def check_key(key: str, names: Sequence[str]) -> None:
    """Raise AttemptFailed if none of these variables holds a key, or if no header can hold it."""
    if not key:
        raise failed_attempt("auth", f"{' or '.join(names)} is not set")
    if not key.isprintable():
        raise failed_attempt("auth", f"{' or '.join(names)} holds a line break within it")


def failed_attempt(
    cause: str, words: str, status: int | None = None, headers: Mapping[str, Any] = NOTHING
) -> AttemptFailed:
    """Make the failure of one request from its cause and the provider's message, in one line."""
    wait_s, overloaded = retry_after_s(headers), False
    if status is not None:
        # litellm makes a 500 of Anthropic's 529.
        says_so = any(word in words.lower() for word in ("overload", "slow down", "at capacity"))
        # A plain 503 may be any outage; one with Retry-After asks for a later request.
        overloaded = status == 529 or (status >= 500 and says_so) or (status == 503 and wait_s is not None)
    return AttemptFailed(
        f"{status} {cause}: {words}" if status else f"{cause}: {words}",
        cause=cause,
        retryable=cause not in _LASTING,
        retry_after_s=wait_s,
        status=status,
        puts_off=cause == "rate_limit" or overloaded,
    )


def cause_of_refusal(status: int, answer: str) -> str:
    """Give the cause of a provider's refusal by its status and its ``answer``."""
    lowered = answer.lower()
    # Below 500, the same request may succeed after these; 200 is that of an error within a stream.
    passes = status >= 500 or status in (200, 409, 425)
    cause = _STATUSES.get(status, "provider" if passes else "bad_request")
    if cause in ("rate_limit", "bad_request", "provider") and any(it in lowered for it in _NO_CREDIT):
        return "quota"
    if cause == "bad_request":
        if any(phrase in lowered for phrase in _TOO_LONG):
            return "context_length"
        if any(phrase in lowered for phrase in _POLICY):
            return "content_policy"
    return cause


def retry_after_s(headers: Mapping[str, Any]) -> float | None:
    """Give the seconds after which the provider wants another request; None if it names no time."""
    fields = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    if "retry-after-ms" in fields:
        return _seconds(fields["retry-after-ms"], 0.001)
    return _seconds(fields["retry-after"], 1.0) if "retry-after" in fields else None


def _seconds(text: str, unit: float) -> float | None:
    try:
        return max(0.0, float(text) * unit)
    except ValueError:
        pass
    try:
        # HTTP allows a date in Retry-After as well as seconds.
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or one that no calendar has
        return None


def _litellm_cause(raised: Exception, words: str, *, answered: bool) -> str:
    status: int = getattr(raised, "status_code", None) or 0
    named = _CAUSES.get(type(raised).__name__, "provider")
    cause = _STATUSES.get(status, named) if named != "timeout" else named
    lowered = words.lower()
    if cause in ("rate_limit", "bad_request") and any(phrase in lowered for phrase in _NO_CREDIT):
        return "quota"
    # litellm gives the status 500 to a missing key and to a broken connection, too.
    if cause == "provider" and not answered:
        if "missing credentials" in lowered or "api_key" in lowered:
            return "auth"
        from httpx import TransportError

        lost = any(isinstance(each, OSError | TransportError) for each in with_causes(raised))
        return "connection" if lost else "provider"
    return cause


def one_line(text: str) -> str:
    """Give a text in one line of at most LONGEST_MESSAGE characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"


# Packages that requests to real models need, together with their own requirements.
NEEDED = ("litellm", "mcp")


def import_failure(raised: BaseException) -> NotInstalled | None:
    """Give the advice for an import that failed on the way to this exception; None if none failed."""
    # litellm wraps whatever is raised while it sends, so the failed import may be a cause several steps back.
    failed = next((error for error in with_causes(raised) if isinstance(error, ImportError)), None)
    if failed is None:
        return None
    # As this package's metadata has them.
    needs = [need for need in requires("pytest-agenteval") or () if "extra ==" not in need]
    needed = " ".join(f"'{need.partition(';')[0].strip()}'" for need in needs if need.startswith(NEEDED))
    return NotInstalled(
        f"{failed}; a real model needs other versions than are installed: pip install {needed}"
    )


OPTIONAL_SETTINGS = ("temperature", "top_p", "seed", "tool_choice", "response_format", "stream_options")
# The names under which some providers get a setting, and refuse it.
_PROVIDER_NAMES = {"response_format": ("output_format", "output_config", "json_schema", "tool_choice")}


class OptionalSettings:
    """The optional settings of one chat, and which of them its provider has refused so far."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def without_refused(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name not in self.refused}

    def without_what_it_names(
        self, failed: AttemptFailed, answer: str, sent: Collection[str]
    ) -> AttemptFailed:
        """Make a failure retryable at once if the provider's ``answer`` names a setting that was ``sent``.

        Any other failure comes back as it is.
        """
        if failed.cause != "bad_request":
            return failed
        lowered = answer.lower()
        named = {name: (name, *_PROVIDER_NAMES.get(name, ())) for name in OPTIONAL_SETTINGS if name in sent}
        refused = [name for name, words in named.items() if any(word in lowered for word in words)]
        if not refused:
            return failed
        self.refused.update(refused)
        message = f"{failed.message}; sent again without {', '.join(refused)}"
        return AttemptFailed(message, cause="bad_request", retry_after_s=0.0, status=failed.status)


_importing: dict[Callable[[], None], asyncio.Task[None]] = {}


async def import_off_loop(work: Callable[[], None]) -> None:
    """Wait until ``work`` has imported its libraries in a thread; concurrent callers share one import.

    Raises NotInstalled if an import fails.
    """
    loop, task = asyncio.get_running_loop(), _importing.get(work)
    # A task can only be awaited on its own loop.
    if task is None or task.get_loop() is not loop:
        task = _importing[work] = loop.create_task(in_daemon_thread(work))
    try:
        # If one caller is cancelled, the import goes on for the others.
        await asyncio.shield(task)
    except ImportError as broken:
        raise import_failure(broken) or broken from None

"""Why a direct request got no usable reply: a status, an error within a stream, a line that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_agenteval.cassettes.wire.traffic import ModelRefused, UnreadableTraffic
from pytest_agenteval.chat.direct.http_pool import NoConnection
from pytest_agenteval.chat.failures import (
    UNUSABLE,
    AttemptFailed,
    cause_of_refusal,
    failed_attempt,
    one_line,
    silence,
)
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

_BY_WORD: Mapping[str, str] = {
    "authentication_error": "auth",
    "insufficient_quota": "quota",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
}
"""Causes that the words of an error within a stream tell, whose status says that all is well."""
_OVERLOADED = "overloaded_error"


class Redirected(UnreadableTraffic):
    """A server is elsewhere, at a host that nobody has named: to ask again would change nothing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def failure_of(raised: Exception, timeout_s: float, headers: Mapping[str, Any]) -> AttemptFailed:
    """Give what was raised as a failed attempt; ``headers`` are those of the response, if one came."""
    if isinstance(raised, TimeoutError):
        return failed_attempt("timeout", silence(timeout_s))
    if isinstance(raised, ModelRefused):
        return _refusal(raised, headers)
    words = one_line(KNOWN_SECRETS.text(str(raised))) or type(raised).__name__
    if isinstance(raised, Redirected):
        return failed_attempt("bad_request", words, raised.status)
    if isinstance(raised, NoConnection):
        return failed_attempt("connection", words)
    return failed_attempt("provider", f"{UNUSABLE}: {words}")


def _refusal(refused: ModelRefused, headers: Mapping[str, Any]) -> AttemptFailed:
    words = one_line(KNOWN_SECRETS.text(refused.message)) or refused.kind or "no word of why"
    if refused.status >= 300:
        cause = cause_of_refusal(refused.status, " ".join((*refused.words, refused.message)))
        return failed_attempt(cause, words, refused.status, headers)
    cause = next((_BY_WORD[word] for word in refused.words if word in _BY_WORD), "provider")
    failed = failed_attempt(cause, words if cause != "provider" else f"{UNUSABLE}: {words}")
    failed.puts_off = failed.puts_off or _OVERLOADED in refused.words
    return failed

"""What a provider's refusal means: its cause, whether another attempt may help, and when."""

from __future__ import annotations

import pytest

from pytest_agenteval.chat.provider_failures import (
    AttemptFailed,
    OptionalSettings,
    cause_of_refusal,
    failed_attempt,
)


@pytest.mark.parametrize(
    ("status", "words", "cause", "retryable"),
    [
        (400, "no such field", "bad_request", False),
        (413, "too large", "bad_request", False),
        (422, "", "bad_request", False),
        (400, "This model's maximum context length is 8192 tokens", "context_length", False),
        (400, "Prompt is too long", "context_length", False),
        (400, "content_filter", "content_policy", False),
        (400, "Your credit balance is too low", "quota", False),
        (429, "insufficient_quota", "quota", False),
        (429, "slow down", "rate_limit", True),
        (401, "", "auth", False),
        (402, "", "quota", False),
        (403, "", "auth", False),
        (404, "", "unknown_model", False),
        (408, "", "timeout", True),
        (504, "", "timeout", True),
        (409, "", "provider", True),
        (425, "", "provider", True),
        (500, "maximum context length", "provider", True),
        (200, "within a stream", "provider", True),
    ],
)
def test_a_status_and_its_words_are_one_cause(status: int, words: str, cause: str, retryable: bool) -> None:
    """Providers report a long conversation, a policy and an empty account by the status of any mistake."""
    assert cause_of_refusal(status, words) == cause
    failed = failed_attempt(cause, words, status)
    assert failed.retryable is retryable
    assert str(failed) == f"{status} {cause}: {words}"


@pytest.mark.parametrize(
    ("status", "words", "headers", "puts_off"),
    [
        (429, "", {}, True),
        (529, "", {}, True),
        (503, "", {}, False),
        (503, "", {"Retry-After": "2"}, True),
        (500, "Overloaded", {}, True),
        (500, "the model is at capacity", {}, True),
        (500, "broken", {"retry-after-ms": "100"}, False),
        (None, "overloaded", {}, False),
    ],
)
def test_a_provider_that_has_no_room_wants_the_request_later(
    status: int | None, words: str, headers: dict[str, str], puts_off: bool
) -> None:
    """A plain 503 may be any outage, one that names a time is not."""
    failed = failed_attempt("rate_limit" if status == 429 else "provider", words, status, headers)
    assert failed.puts_off == puts_off


def test_a_refused_setting_is_left_out_from_then_on() -> None:
    """Only one that was sent and that the answer names; another attempt follows at once."""
    settings = OptionalSettings()
    failed = AttemptFailed("400 bad_request: x", cause="bad_request", retryable=False, status=400)
    sent = {"temperature": 0, "tool_choice": "auto", "response_format": {}}

    assert settings.without_what_it_names(failed, "top_p is unknown", sent) is failed
    assert settings.without_what_it_names(AttemptFailed("x"), "temperature", sent).retry_after_s is None
    again = settings.without_what_it_names(failed, "Unsupported: Temperature, output_config", sent)

    assert (again.retryable, again.retry_after_s) == (True, 0.0)
    assert str(again) == "400 bad_request: x; sent again without temperature, response_format"
    assert settings.without_refused(sent) == {"tool_choice": "auto"}

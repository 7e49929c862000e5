"""Looking for secrets ends in time, whatever the text and whoever wrote the pattern."""

from __future__ import annotations

import time

import pytest

from pytest_agenteval.records.evidence import Answer, Outcome
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.text.redaction import Secrets
from pytest_agenteval.text.secret_forms import MARK
from tests.store.samples import trial

HOSTILE = {
    "colons": "@ ://" + ":" * 300_000,
    "tokens": "eyJ" * 100_000,
    "two parts": "eyJ12345678.a." * 25_000,
    "addresses": "@ " + "://a:b" * 50_000,
    "beginnings": "task-" * 60_000 + "sk-a_" * 60_000,
    "parameters": "?a-b_key= " * 30_000 + "?" + "a-" * 30_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_shape_of_a_secret_goes_over_a_text_again_and_again(kind: str) -> None:
    """An answer that is one endless beginning of a key must not hold up the run."""
    began = time.process_time()

    assert Secrets().text(HOSTILE[kind]) == HOSTILE[kind]
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("message", "clean"),
    [
        ("go to https://mina:pa:ss@host/x", f"go to https://{MARK}@host/x"),
        ("go to https://:password@host/x", f"go to https://{MARK}@host/x"),
        ("no secret: https://host:8080/x@y", "no secret: https://host:8080/x@y"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abcdefgh_-", MARK),
        ("eyJhbGciOiJI.short.eyJhbGciOiJI.eyJzdWIiOiIx.abcdefgh", f"eyJhbGciOiJI.short.{MARK}"),
        ("eyJhbGciOiJIeyJhbGciOiJI.and so on", "eyJhbGciOiJIeyJhbGciOiJI.and so on"),
    ],
)
def test_shapes_are_found_as_before(message: str, clean: str) -> None:
    """Credentials of an address and signed tokens are marked, what only begins like them is not."""
    assert Secrets().text(message) == clean


def test_a_users_pattern_that_takes_too_long_hides_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, nothing leaks, and the place says which pattern it was; other texts are as they were."""
    monkeypatch.setattr("pytest_agenteval.text.redaction.SECONDS", 0.02)
    secrets = Secrets(patterns=[r"(a|a)+$"])

    hidden = secrets.text("a" * 60 + "! my name is Mina")

    assert hidden == f"{MARK} (77 characters: the pattern '(a|a)+$' of `redact` took too long)"
    assert secrets.text("hello, Mina!") == "hello, Mina!"
    assert secrets.text("baaa hello aaa") == f"baaa hello {MARK}"


def test_a_users_pattern_for_a_whole_text_is_found_in_a_trial() -> None:
    """``^`` and ``$`` mean those of each text, wherever in a trial it stands."""
    given = trial(outcome=Outcome(Answer("CUST-12")))
    secrets = Secrets(patterns=[r"^CUST-\d+$"])

    assert redact_trial(given, secrets).outcome.answer.text == MARK

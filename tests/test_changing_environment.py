"""The environment is read while others change it: pytest names its current test there, test by test."""

from __future__ import annotations

import os
import threading

import pytest

from pytest_agenteval.redaction import Secrets


def test_a_variable_that_goes_meanwhile_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks for keys is a trial's loop, what sets and unsets variables pytest's own thread."""
    monkeypatch.setenv("MINAS_API_KEY", "a-key-of-minas")
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            os.environ["AGENTEVAL_COMES_AND_GOES"] = "x"
            del os.environ["AGENTEVAL_COMES_AND_GOES"]

    changing = threading.Thread(target=come_and_go)
    changing.start()
    try:
        for _ in range(3000):
            secrets = Secrets()
            secrets.know_environment()
    finally:
        over.set()
        changing.join()
    assert "a-key-of-minas" not in secrets.text("said a-key-of-minas")


def test_what_a_variable_holds_is_known_whenever_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at is what has changed since the last look: a key that an agent sets, another, and the first."""
    secrets = Secrets()
    for key in ("a-key-of-minas", "another-of-minas"):
        monkeypatch.setenv("MINAS_API_KEY", key)
        secrets.know_environment()
        assert key not in secrets.text(f"said {key}")
    secrets.forget()
    secrets.know_environment()
    assert "another-of-minas" not in secrets.text("said another-of-minas")
    monkeypatch.delenv("MINAS_API_KEY")
    secrets.know_environment()
    monkeypatch.setenv("MINAS_API_KEY", "a-key-of-minas")
    secrets.know_environment()
    assert "a-key-of-minas" not in secrets.text("said a-key-of-minas")


def test_an_environment_of_another_kind_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map that somebody puts in the place of ``os.environ`` keeps nothing inside that could be compared."""
    monkeypatch.setattr(os, "environ", {"MINAS_API_KEY": "a-key-of-minas"})
    secrets = Secrets()
    secrets.know_environment()
    assert "a-key-of-minas" not in secrets.text("said a-key-of-minas")

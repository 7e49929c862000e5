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

"""The environment is read while others change it: pytest names its current test there, test by test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import pytest

from pytest_agenteval.text.redaction import Secrets


class Changing(dict[bytes, bytes]):
    """The variables of a process, of which another thread sets and unsets one between any two steps."""

    def __getitem__(self, name: bytes) -> bytes:
        self.pop(b"COMES_AND_GOES", None)
        return super().__getitem__(name)

    def items(self) -> Any:
        """Read them one by one, while the other thread is at work."""
        for pair in super().items():
            self[b"COMES"] = self[b"GOES"] = b"x"
            yield pair


def test_a_variable_that_goes_meanwhile_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks for keys is a trial's loop, what sets and unsets variables pytest's own thread."""
    monkeypatch.setenv("MINAS_API_KEY", "a-key-of-minas")
    monkeypatch.setenv("COMES_AND_GOES", "x")
    monkeypatch.setattr(os.environ, "_data", Changing(os.environ._data))  # type: ignore[attr-defined]
    secrets = Secrets()
    secrets.know_environment()
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
    monkeypatch.setenv("MINAS_API_KEY", "a-key-of-minas")
    secrets.know_environment()
    assert "a-key-of-minas" not in secrets.text("said a-key-of-minas")


def test_who_forgets_while_another_thread_looks_has_everything_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread of the session before may still look at variables when the next one begins."""
    monkeypatch.setenv("MINAS_API_KEY", "a-key-of-minas")
    secrets, learn = Secrets(), Secrets.know

    def forgetting_meanwhile(self: Secrets, values: Iterable[str]) -> None:
        learn(self, values)
        self.forget()

    with monkeypatch.context() as patched:
        patched.setattr(Secrets, "know", forgetting_meanwhile)
        secrets.know_environment()
    secrets.know_environment()
    assert "a-key-of-minas" not in secrets.text("said a-key-of-minas")


class Environment(dict[str, str]):
    """A map with a thing inside that is called as Python's own, and with a name that is gone when read."""

    _data: ClassVar[dict[bytes, bytes]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter([*super().__iter__(), "GONE_API_KEY"])

    def items(self) -> Any:
        """Read them one by one, as Python's own does."""
        return [(name, self[name]) for name in self]


def test_an_environment_of_another_kind_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of ``os.environ`` or given by itself; a variable that goes meanwhile breaks nothing."""
    environ = Environment(MINAS_API_KEY="a-key-of-minas")
    given, standing = Secrets(), Secrets()
    given.know_environment(environ)
    monkeypatch.setattr(os, "environ", environ)
    standing.know_environment()
    assert all("a-key-of-minas" not in secrets.text("said a-key-of-minas") for secrets in (given, standing))

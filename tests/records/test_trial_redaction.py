"""What leaves the engine holds no secret, whatever kind of object carried it there."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any

import pytest
from pydantic import BaseModel, Field

from pytest_agenteval.records.evidence import Answer, Grade
from pytest_agenteval.records.trial_redaction import redact_trial
from pytest_agenteval.store.record_files import encode_line
from pytest_agenteval.text.redaction import Secrets
from tests.store.samples import trial

SECRET = "zQ9vLw3kTr8mNp2xYh5b"
Pair = namedtuple("Pair", "key")  # as somebody's agent makes one


@dataclass
class Account:
    """Somebody's own dataclass."""

    key: str


@dataclass(frozen=True)
class Careful:
    """Somebody's own dataclass that shows nobody its key."""

    key: str = field(repr=False)


class Model(BaseModel):
    """Somebody's own model that shows nobody its key."""

    key: str = Field(SECRET, repr=False)


class Vault:
    """Somebody's own object, which says more of itself than it should."""

    def __repr__(self) -> str:
        return f"Vault({SECRET})"


class Level(IntEnum):
    """A number with a name."""

    LOW = 1


class Share(float):
    """A number of a type of its own, such as numpy's."""


class Pages(int):
    """A whole number of a type of its own."""


class Named(str):
    """A text of a type of its own."""


CARRIERS: dict[str, Callable[[], Any]] = {
    "a set": lambda: {SECRET},
    "a frozen set in a tuple": lambda: (frozenset({SECRET}),),
    "bytes": SECRET.encode,
    "a dataclass": lambda: Account(SECRET),
    "a field that a repr leaves out": lambda: Careful(SECRET),
    "a model's field that a repr leaves out": Model,
    "a key with a field that a repr leaves out": lambda: {Careful(SECRET): SECRET},
    "bytes in a deque": lambda: deque([SECRET.encode()]),
    "a named tuple": lambda: Pair(SECRET),
    "a text of its own type": lambda: Named(SECRET),
    "an object": Vault,
    "an enum": lambda: Enum("Keys", {"OURS": SECRET}).OURS,  # type: ignore[attr-defined]
    "a path": lambda: PurePosixPath("/keys") / SECRET,
    "a deque": lambda: deque([SECRET]),
    "an ordered map": lambda: OrderedDict(key=SECRET),
    "an exception": lambda: ValueError(SECRET),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_kind_of_value_carries_a_secret_out(carrier: str) -> None:
    """Files hold as text what JSON does not know: an agent's state, a grader's details."""
    secrets = Secrets()
    secrets.know([SECRET])
    value = {"found": CARRIERS[carrier]()}
    graded = replace(trial(), grades=(Grade("own", 1.0, "fine", details=value),))
    graded = replace(graded, outcome=replace(graded.outcome, answer=Answer("done", value)))

    clean = redact_trial(graded, secrets)

    line = {"state": clean.outcome.answer.state, "details": clean.grades[0].details}
    for text in (json.dumps(clean.to_json()), encode_line(line).decode()):
        assert SECRET not in text
        assert b64encode(SECRET.encode()).decode() not in text
        assert text.count("<redacted>") == 2


def test_what_holds_no_secret_is_given_as_it_is() -> None:
    """Nothing is copied, and what cannot even be looked at is left for those who write it down."""

    class Unspeakable:
        def __repr__(self) -> str:
            raise ValueError("no words")

    graded = replace(
        trial(),
        grades=(
            Grade(
                "own",
                1.0,
                "fine",
                details={"it": [{Unspeakable()}, Vault(), Level.LOW, Share(0.5), Pages(1)]},
            ),
        ),
    )
    assert redact_trial(graded, Secrets()) is graded

"""What is asked directly is what litellm would ask, and its reply is read as litellm reads it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest

from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.chat.direct.direct_chat import DirectChat
from pytest_agenteval.chat.litellm_chat import LitellmChat
from pytest_agenteval.chat.models import known_key_names

from .comparing import unequal
from .conversation import Conversation, Form, ReplyPlan, Wire
from .conversations import CONVERSATIONS, cases, subject_of
from .differences import DIFFERENCES, known
from .leading import Course, Leader, with_own_ids

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

HELD = (1, 110)
"""The release whose requests ours are: others write some of them otherwise."""
NIGHTLY = "AGENTEVAL_TEST_NEWEST_LITELLM"
"""The variable under which any later release is compared, too."""
INSTALLED = tuple(map(int, version("litellm").split(".")[:2]))
compared_release = pytest.mark.skipif(
    INSTALLED != HELD and not (INSTALLED > HELD and os.environ.get(NIGHTLY)),
    reason=f"compared with litellm {HELD[0]}.{HELD[1]}; set {NIGHTLY}=1 to compare a later one",
)

CASES: dict[tuple[str, Wire, Form], list[Conversation]] = {}
for conversation, wire, form in cases():
    CASES.setdefault((subject_of(conversation), wire, form), []).append(conversation)
QUOTED = 60
OWN_VARIABLES = (
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "OPENAI_ORGANIZATION",
    "ANTHROPIC_API_BASE",
    "ANTHROPIC_BASE_URL",
    "HOSTED_VLLM_API_BASE",
    "HOSTED_VLLM_API_KEY",
)


@pytest.fixture(scope="module")
def leader(loop: asyncio.Runner) -> Iterator[Leader]:
    """One server for all conversations, and one loop for both ways of asking."""
    leader = Leader(loop)
    with leader.provider.server:
        yield leader
        loop.run(http_pool.close())


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """Hosts below api.openai.com are this machine, and nobody's keys are in the environment."""
    found = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **named: Any) -> Any:
        return found("127.0.0.1" if str(host).endswith(".api.openai.com") else host, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        for name in (*known_key_names(), *OWN_VARIABLES):
            patch.delenv(name, raising=False)
        yield


@compared_release
@pytest.mark.parametrize(("subject", "wire", "form"), CASES)
def test_both_ways_are_one(leader: Leader, subject: str, wire: Wire, form: Form) -> None:
    """Text, calls, usage, cost, finish, causes of failures and what is sent are equal through both.

    What differs stands in the table of differences, with its reason, and differs still. What only litellm
    writes is not compared.
    """
    failed = []
    for conversation in CASES[subject, wire, form]:
        try:
            with pytest.MonkeyPatch.context() as environment:
                for name, value in conversation.environment.items():
                    environment.setenv(name, value)
                _compare(leader, conversation, wire, form)
        except (AssertionError, pytest.fail.Exception) as raised:
            failed.append(f"{conversation.name}: {raised}")
    assert failed == []


def _compare(leader: Leader, conversation: Conversation, wire: Wire, form: Form) -> None:
    answers = conversation.answers_on(wire)
    if leader.is_by_litellm(conversation, wire, form):
        return
    direct = with_own_ids(leader.lead(conversation, wire, form, DirectChat), answers)
    assert direct.ends == conversation.ends_on(wire, form), direct.failures
    _check_quotes(conversation, wire, direct)
    litellm = with_own_ids(leader.lead(conversation, wire, form, LitellmChat), answers)
    _check_quotes(conversation, wire, litellm)
    found = unequal(litellm, direct)
    entries = [it for it in DIFFERENCES if it.is_about(conversation.name, wire, form)]
    unknown = [str(it) for it in found if not known(it.place, entries)]
    assert unknown == [], (litellm.failures, direct.failures)
    gone = [it for it in entries if it.is_certain and not any(known(one.place, [it]) for one in found)]
    assert gone == [], "these differ no longer: they are to be taken out of the table"


def _check_quotes(conversation: Conversation, wire: Wire, course: Course) -> None:
    """What a provider said of a failure stands in its message, unless litellm had no answer to read."""
    for answer, outcome in zip(conversation.answers_on(wire), course.outcomes, strict=False):
        if isinstance(answer, ReplyPlan) and answer.text and outcome.get("status", 0) == answer.status:
            assert any(answer.text[:QUOTED].strip() in message for message in course.failures)


def test_conversations_are_told_apart() -> None:
    """Each has a name of its own, and the table of differences speaks of no other."""
    names = [it.name for it in CONVERSATIONS]
    assert len(names) == len(set(names))
    assert [name for it in DIFFERENCES for name in it.names if name != "*" and name not in names] == []

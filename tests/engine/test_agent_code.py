"""The digest of an agent's code moves with the files that it is written in, and with nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_agenteval.agents.loop import ToolCallingAgent
from pytest_agenteval.engine.digests import code_digest
from pytest_agenteval.records.factories import AGENT, factory_of
from pytest_agenteval.text.json_values import json_digest, text_digest

Load = Callable[..., ModuleType]

CLASS = "class Bot:\n    def run(self, task_input, ctx):\n        return 'hello'\n"
FUNCTION = "def act(task_input, ctx):\n    return 'hello'\n"
WRAPS = (
    "from functools import wraps\n"
    "def loud(function):\n"
    "    @wraps(function)\n"
    "    def wrapper(*given):\n        return function(*given)\n"
    "    return wrapper\n"
)
HIDDEN_CLASS = "def make():\n    class Bot:\n        def run(self, task_input, ctx): ...\n    return Bot\n"

OWN = {
    "a class": (CLASS, "Bot"),
    "an object": (CLASS + "bot = Bot()\n", "bot"),
    "a class without a method of its own": (
        "from pytest_agenteval.agents.loop import ToolCallingAgent\n"
        "class Bot(ToolCallingAgent):\n    templates = {}\n",
        "Bot",
    ),
    "a class within a function": (HIDDEN_CLASS + "Bot = make()\n", "Bot"),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\n" + CLASS, "Bot"),
    "a function": (FUNCTION, "act"),
    "an async function": ("async " + FUNCTION, "act"),
    "a decorated function": (WRAPS + "@loud\n" + FUNCTION, "act"),
    "a partial function": (
        "from functools import partial\ndef act(n, task_input, ctx): ...\nact = partial(act, 1)\n",
        "act",
    ),
    "a method of an object": (CLASS + "act = Bot().run\n", "act"),
    "an object that is called": (
        "class Bot:\n    def __call__(self, task_input, ctx): ...\nbot = Bot()\n",
        "bot",
    ),
    "a function that makes it": (
        "from pytest_agenteval.agents.loop import ToolCallingAgent\n"
        "def make(**settings):\n    return ToolCallingAgent(**settings)\n",
        "make",
    ),
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Give what writes a module into a folder of its own, and imports it under its name."""

    def load(text: str, folder: str = "a", name: str = "conftest", ends: str = "\n") -> ModuleType:
        file = tmp_path / folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline=ends)
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return load


def digest_of(claim: Any) -> str:
    """Give the digest of the code of an agent that is registered as this."""
    factory = factory_of(AGENT, claim)
    return code_digest(factory(), factory)


@pytest.mark.parametrize(("text", "name"), OWN.values(), ids=OWN.keys())
def test_the_digest_moves_with_the_agents_own_file(load: Load, text: str, name: str) -> None:
    """However it is registered; where the file lies and how its lines end is the machine's business."""
    one = digest_of(getattr(load(text, "a"), name))
    same = digest_of(getattr(load(text, "b", ends="\r\n"), name))
    other = digest_of(getattr(load(text + "# another word\n", "c"), name))

    assert len(one) == 16
    assert same == one
    assert other != one


def test_a_base_moves_it_too_unless_somebody_else_has_installed_it(load: Load) -> None:
    """What a project's agents have in common is theirs; a new version of a library is not."""
    derived = "from {0} import Bot\nclass Mine(Bot):\n    def run(self, task_input, ctx): ...\n"
    digests = []
    for module, folder in (("bot_base", "src"), ("bot_library", "lib/site-packages")):
        for comment in ("", "# another word\n"):
            load(CLASS + comment, folder, module)
            digests.append(digest_of(load(derived.format(module)).Mine))

    assert digests[0] != digests[1]
    assert digests[2] == digests[3]


def test_an_agent_that_is_installed_has_code_of_its_own(load: Load) -> None:
    """An installed benchmark brings agents: their files are what acts."""
    first = digest_of(load(CLASS, "1/site-packages", "installed_bot").Bot)
    second = digest_of(load(CLASS + "# 2\n", "2/site-packages", "installed_bot").Bot)

    assert "" != first != second


def test_a_shipped_base_is_part_of_it_and_a_protocol_is_not(load: Load) -> None:
    """What only says what an agent may have does nothing: its words may change."""
    derived = (
        "from pytest_agenteval.agents.loop import ToolCallingAgent as Base\nclass Bot(Base):\n    x = 1\n"
    )
    described = (
        "from pytest_agenteval import AgentTraits\nclass Bot(AgentTraits):\n    def run(self, *_): ...\n"
    )
    loop = Path(sys.modules[ToolCallingAgent.__module__].__file__ or "").read_text(encoding="utf-8")

    assert digest_of(ToolCallingAgent) == json_digest([text_digest(loop)])
    assert digest_of(load(derived).Bot) == json_digest(sorted([text_digest(derived), text_digest(loop)]))
    assert digest_of(load(described).Bot) == json_digest([text_digest(described)])


def test_of_two_conftests_each_has_its_own(load: Load) -> None:
    """pytest imports both as ``conftest``: the one that was imported last says nothing of the other."""
    first = load(CLASS, "a").Bot
    before = digest_of(first)
    silent = load("class Bot:\n    x = 1\n", "b").Bot

    load(CLASS + "# the other\n", "c")

    assert digest_of(first) == before
    assert code_digest(silent(), silent) == ""  # none is better than that of another file


def test_code_that_stands_in_no_file_has_no_digest(tmp_path: Path, load: Load) -> None:
    """What was typed in and what is gone; a function that wraps itself is read once."""
    typed: dict[str, Any] = {}
    exec(CLASS, typed)
    gone = load(CLASS).Bot
    (tmp_path / "a" / "conftest.py").unlink()
    endless = load(CLASS, "b").Bot
    endless.run.__wrapped__ = endless.run

    assert [digest_of(claim) for claim in (typed["Bot"], gone)] == ["", ""]
    assert digest_of(endless) == json_digest([text_digest(CLASS)])

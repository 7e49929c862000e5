"""What is looked at before the first trial starts: whether all that the selected trials need is there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.models import DIRECT, missing_key
from pytest_agenteval.engine.executors.executor import checks_argument
from pytest_agenteval.engine.trial_resources import chat_cassette_file, chat_mode
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import Model
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.local_models import check_loading_options, check_local_models
from pytest_agenteval.session.planning.parametrization import PlannedItem
from pytest_agenteval.session.planning.price_check import check_prices
from pytest_agenteval.session.planning.prompt_variants import check_prompts
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake

_INSTEAD = {
    "--agent-model": "choose a model that needs none: --agent-model=rules",
    "--agent-user": "name another model to play the tasks' users",
    "--agent-judge": "leave the option out: what only a judge can tell is then undecided",
}


class CalibrationTest(Protocol):
    """The item of a calibration, as far as a session knows it."""

    session: pytest.Session

    def chat_cassettes(self) -> Iterator[str]:
        """Give the files that the judges' chats are played from."""
        ...


class Preflight:
    """Looks for what would break every trial, so that nobody pays for the first."""

    def __init__(
        self, registry: Registry, settings: Settings, judges: Sequence[Model], user: Model | None = None
    ) -> None:
        self._registry, self._settings, self._judges, self._user = registry, settings, judges, user

    def check(
        self, trials: Sequence[PlannedItem], calibrations: Sequence[CalibrationTest], *, agents_act: bool
    ) -> None:
        """Raise UsageMistake for an executor, a prompt or a key that is not there.

        Where trials are graded again no agent acts: its prompts and its model are not asked for.
        """
        with self._settings.naming_place("executor"):
            executor = self._registry.executor_factory(self._settings.executor_name)
            if checks_argument(executor):
                executor.check_argument(self._settings.executor_argument)
        acting = trials if agents_act else ()
        if self._settings.variants and agents_act:
            check_prompts(self._registry, self._settings.variants, (item.task for item in acting))
        check_loading_options([*(item.case.model for item in acting), *self._judges], self._settings)
        # What an agent that nobody registered asks goes by keys of its own.
        live = (item for item in acting if not item.case.model.offline and not item.task.form)
        chats = [(item.case.model, chat_cassette_file(item.case.plan(item.task))) for item in live]
        self._check_models(chats, "--agent-model")
        if self._user is not None:
            conversations = (item.case.plan(item.task) for item in acting if item.task.user)
            # Of one that is played a reply may be missing: then its trial says so.
            settings = self._settings
            plays = settings.record_chat == "off" and not settings.live
            sent = (plan for plan in conversations if not (plays and chat_mode(plan) == "none"))
            cassettes_of_users = map(chat_cassette_file, sent)
            needed = ((self._user, cassette) for cassette in cassettes_of_users)
            self._check_models(list(needed), "--agent-user")
        cassettes = self._judges_cassettes(trials, calibrations) if self._judges else ()
        self._check_models(
            [(judge, cassette) for cassette in cassettes for judge in self._judges], "--agent-judge"
        )

    def _check_models(self, chats: Sequence[tuple[Model, str]], option: str) -> None:
        """See that models can be asked which may be: that keys are there, or what they run by."""
        record_chat = self._settings.record_chat
        check_keys(chats, record_chat, option)
        check_prices(called_live(chats, record_chat), self._settings)
        local = [chat for chat in chats if provider_of(chat[0].id)]
        check_local_models(called_live(local, record_chat), option)

    def _judges_cassettes(
        self, trials: Sequence[PlannedItem], calibrations: Sequence[CalibrationTest]
    ) -> Iterator[str]:
        """Give the chat cassettes of everything that judges will be asked about."""
        for item in trials:
            factories = (self._registry.grader_factory(grader.name) for grader in item.task.graders)
            if any(map(asks_judges, factories)):
                yield chat_cassette_file(item.case.plan(item.task))
        for calibration in calibrations:
            yield from calibration.chat_cassettes()


def check_keys(needed: Iterable[tuple[Model, str]], record_chat: str, option: str = "--agent-model") -> None:
    """Raise UsageMistake when a model's key or address is missing and one of its trials would call it.

    ``needed`` holds models, named by ``option``, each with the path of a trial's chat cassette. With chats on
    ``none`` nothing is called; with ``once`` only trials without a cassette call; with ``new_episodes`` the
    cassette may hold all: a trial that finds it does not is errored then.
    """
    problems = []
    for model in called_live(needed, record_chat):
        if variable := missing_key(model, os.environ):
            problems.append(_key_problem(option, model.name, variable))
        elif problem := _address_problem(model):
            problems.append(f"{option} {model.name}: {problem}")
    if problems:
        raise UsageMistake("\n".join(problems))


def _address_problem(model: Model) -> str:
    """Say why a model that is asked directly cannot be asked where it is; empty where it can."""
    if model.via != DIRECT or provider_of(model.id):
        return ""
    from pytest_agenteval.chat.direct.model_request import address_problem

    return address_problem(model)


def called_live(needed: Iterable[tuple[Model, str]], record_chat: str) -> Iterator[Model]:
    """Give each model that one of its trials would call, once."""
    called: set[str] = set()
    for model, cassette in needed:
        if model.offline or model.name in called:
            continue
        if record_chat == "none" or (record_chat in ("once", "new_episodes") and Path(cassette).exists()):
            continue
        called.add(model.name)
        yield model


def _key_problem(option: str, name: str, variable: str) -> str:
    return (
        f"{option}={name}: no key: the environment variable {variable} is not set\n"
        f"  set it, or {_INSTEAD[option]}"
    )

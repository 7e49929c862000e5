"""Checks before the first trial: whether the options fit the selected trials and all they need is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_agenteval.agents.agent import templates_of
from pytest_agenteval.chat.local.loading import LOADED_BY, folder_of, loading_of, provider_of
from pytest_agenteval.chat.model_prices import is_priced
from pytest_agenteval.chat.models import DIRECT, missing_key, setting_problem
from pytest_agenteval.engine.executor import checks_argument
from pytest_agenteval.engine.trial_resources import chat_cassette_file, chat_mode
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import Model, PlannedTask, Variant
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import CaseFactory, PlannedItem
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.registration_check import prompt_names, unread_prompts
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings import LOADING_OPTIONS, Settings
from pytest_agenteval.tasks.suite_spec import NO_GATE
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import canonical_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.session.reuse import EarlierTrials
    from pytest_agenteval.store.run_documents import SuiteGate


_CLASS_HINT = "its class names those that it asks for: templates = {name: text}, or prompt_names"


def _check_prompts(registry: Registry, variants: Sequence[Variant], tasks: Iterable[PlannedTask]) -> None:
    """Raise UsageMistake for each file of a variant that no agent of these tasks asks for."""
    by_agent: dict[str, set[str]] = {}
    hints: dict[str, str] = {}
    texts: dict[str, str] = {}
    different = {(task.agent, canonical_json(task.settings), id(task.prompts)): task for task in tasks}
    for task in different.values():
        agent = _agent_with_prompts(registry, task)
        # Only its trials show which prompts are read, so nothing can be refused here.
        if getattr(agent, "reads_any_prompt", False):
            return
        hints[task.agent] = getattr(agent, "prompt_hint", _CLASS_HINT)
        own = {**(templates_of(agent) or {}), **task.prompts}
        texts |= {f"{task.agent}:{name}": text for name, text in own.items()}
        by_agent.setdefault(task.agent, set()).update(prompt_names(agent) or (), task.prompts)
    every = {name for names in by_agent.values() for name in names}
    wrong = [
        f"--agent-prompt {variant.name}: nobody reads its prompt {name!r}"
        + (f"; {hint}" if (hint := did_you_mean(name, every)) else "")
        for variant in variants
        for name in unread_prompts(variant.prompts, every, texts)
    ]
    if not wrong or not different:
        return
    for agent, names in by_agent.items():
        listed = f"prompts of the agent {agent}: {', '.join(sorted(names))}"
        wrong.append(f"  {listed if names else f'the agent {agent} has no prompts; {hints[agent]}'}")
    raise UsageMistake("\n".join(wrong))


def _agent_with_prompts(registry: Registry, task: PlannedTask) -> Any:
    factory: Callable[..., Any] = registry.agent_factory(task.agent)
    if prompt_names(factory) is not None or getattr(factory, "reads_any_prompt", False):
        return factory
    try:
        # Where a function makes the agent, only the agent itself lists its prompts.
        return factory(**task.settings)
    except Exception:  # its trials show what is wrong with it
        return factory


def _check_prices(models: Iterable[Model], settings: Settings) -> None:
    """Raise UsageMistake for models of unknown price, where the run has a budget of money."""
    if settings.max_cost is None:
        return
    priced = ((model.id, is_priced(settings.prices, model.name, model.id)) for model in models)
    if names := dict.fromkeys(name for name, is_known in priced if not is_known):
        place = settings.places.get("max_cost", Settings.max_cost.flag)
        tables = (f'  [tool.agenteval.prices."{name}"]  input = …  output = …' for name in names)
        raise UsageMistake(
            f"{place}: expected models whose price is known; found {', '.join(names)}\n"
            "  say it in pyproject.toml, in US dollars for a million tokens (docs/budgets.md):\n"
            + "\n".join(tables)
        )


_INSTEAD = {
    "--agent-model": "choose a model that needs none: --agent-model=rules",
    "--agent-user": "name another model to play the tasks' users",
    "--agent-judge": "leave the option out: what only a judge can tell is then undecided",
}


class CalibrationTest(Protocol):
    """The item of a calibration: what a session needs of it."""

    session: pytest.Session

    def chat_cassettes(self) -> Iterator[str]: ...


def check_keys(needed: Iterable[tuple[Model, str]], record_chat: str, option: str = "--agent-model") -> None:
    """Raise UsageMistake when a model's key or address is missing and one of its trials would call it."""
    # ``needed`` holds models, named by ``option``, each with the path of a trial's chat cassette. In mode
    # ``none`` nothing is called. In mode ``once`` only trials without a cassette call. In ``new_episodes``
    # the cassette may hold everything; a trial whose cassette does not is errored later.
    problems = []
    for model in called_live(needed, record_chat):
        if variable := missing_key(model, os.environ):
            problems.append(
                f"{option}={model.name}: no key: the environment variable {variable} is not set\n"
                f"  set it, or {_INSTEAD[option]}"
            )
        elif model.via == DIRECT and not provider_of(model.id):
            from pytest_agenteval.chat.direct.model_request import address_problem

            if problem := address_problem(model):
                problems.append(f"{option} {model.name}: {problem}")
    if problems:
        raise UsageMistake("\n".join(problems))


def called_live(needed: Iterable[tuple[Model, str]], record_chat: str) -> Iterator[Model]:
    """Give each model that a trial would call, once."""
    called: set[str] = set()
    for model, cassette in needed:
        if model.offline or model.name in called:
            continue
        if record_chat == "none" or (record_chat in ("once", "new_episodes") and Path(cassette).exists()):
            continue
        called.add(model.name)
        yield model


def check_local_models(models: Iterable[Model], option: str) -> None:
    """Raise UsageMistake for what keeps models from running on this machine; nothing is loaded."""
    problems = [f"{option}={model.name}: {problem}" for model in models for problem in _local_problems(model)]
    if problems:
        raise UsageMistake("\n".join(dict.fromkeys(problems)))


def _local_problems(model: Model) -> Iterator[str]:
    provider = provider_of(model.id)
    if provider is None:
        return
    folder = folder_of(model.id)
    if problem := setting_problem(model):
        yield problem
    elif folder is not None and not (folder / "config.json").is_file():
        yield f"expected the folder of a model, with its config.json; found none at {folder}"
    elif provider == "hf":
        yield from _missing_for_hf(model)
    else:
        from pytest_agenteval.chat.local.vllm_chat import missing_for_vllm

        yield from missing_for_vllm(loading_of(model))


def _missing_for_hf(model: Model) -> Iterator[str]:
    from pytest_agenteval.chat.local import hf_chat, transformers_model

    loading = loading_of(model)
    quantized = bool(loading.quantization)
    if unknown := hf_chat.unknown_params(model):
        yield f"{', '.join(unknown)}: nothing that a model in this process obeys"
    elif missing := transformers_model.missing_packages(loading.quantization):
        yield f"needs {' and '.join(missing)}: {transformers_model.HOW_TO_INSTALL_LOCAL}"
    elif not quantized and loading.device in ("auto", "cpu"):
        return
    elif problem := transformers_model.missing_device(loading.device, loading.quantization):
        way = "leave --agent-quantization out" if quantized else "choose another with --agent-device"
        yield f"{problem}; {way}"


class Preflight:
    """Checks a run's options against what was collected; each check raises UsageMistake.

    ``agents_act`` is False where stored trials are graded again.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        registry: Registry,
        planner: Planner,
        cases: CaseFactory,
        agents_act: bool,
    ) -> None:
        self._config, self._settings, self._registry = config, settings, registry
        self._planner, self._cases, self._agents_act = planner, cases, agents_act

    def check_promoted(self) -> None:
        """Refuse promoted names that no task has, in suites that were to be collected as a whole."""
        problems = self._planner.unknown_promoted(self._collected())
        if problems:
            raise UsageMistake(str(ProblemsFound(problems)))

    def planned_gates(self) -> tuple[SuiteGate, ...]:
        """Work out the gates of suites, where a file or an option sets one."""
        for_all, suites = self._settings.gate or self._settings.baseline, self._planner.suites
        met = {
            name: tasks
            for name, tasks in self._planner.met.items()
            if for_all or ((suite := suites.suite_of_name(name)) is not None and suite.gate != NO_GATE)
        }
        if not met:
            return ()
        from pytest_agenteval.session.suite_gates import planned_gates

        option = self._config.option
        # Under --ignore parts of a suite may be missing, so no suite counts as collected as a whole.
        passed_over = getattr(option, "ignore", None) or getattr(option, "ignore_glob", None)
        covered = () if passed_over else self._collected()
        return planned_gates(self._settings, met, covered, suites, self._config.rootpath)

    def check_resumed(self, earlier: EarlierTrials | None, selected: Sequence[PlannedItem]) -> None:
        """Refuse trials and settings that a resumed run did not start with."""
        if earlier is None or not earlier.is_own:
            return
        from pytest_agenteval.session.resume import check_first_failures, check_plan

        (run,) = earlier.runs
        check_plan(run, self._settings, selected, self._cases.judges, self._cases.user)
        check_first_failures(self._config, self._settings, run, selected)

    def check_repetitions(self, gates: Sequence[SuiteGate]) -> None:
        """Refuse LOW..HIGH repetitions without a baseline, which decides about them."""
        settings = self._settings
        if settings.repetition_range is not None and self._agents_act:
            from pytest_agenteval.session.adaptive_repetitions import check_baseline

            check_baseline(settings, get_run_info(self._config), gates, self._config.rootpath)
        elif settings.places.get("max_trials") == Settings.max_trials.flag and self._agents_act:
            raise UsageMistake("--agent-max-trials: expected --repetitions=LOW..HIGH beside it, as in 2..6")

    def check_needs(self, trials: Sequence[PlannedItem], calibrations: Sequence[CalibrationTest]) -> str:
        """Refuse a missing executor, prompt, model or key, before any trial is paid."""
        # A dry run is not refused: it shows the text that is returned.
        try:
            with self._settings.naming_place("executor"):
                executor = self._registry.executor_factory(self._settings.executor_name)
                if checks_argument(executor):
                    executor.check_argument(self._settings.executor_argument)
            self._check_agents(trials if self._agents_act else ())
            cassettes: list[str] = []
            for item in trials if self._cases.judges else ():
                factories = (self._registry.grader_factory(grader.name) for grader in item.task.graders)
                if any(map(asks_judges, factories)):
                    cassettes.append(chat_cassette_file(item.case.plan(item.task)))
            for calibration in calibrations if self._cases.judges else ():
                cassettes += calibration.chat_cassettes()
            chats = [(judge, cassette) for cassette in cassettes for judge in self._cases.judges]
            self._check_models(chats, "--agent-judge")
        except UsageMistake as mistake:
            if not self._settings.dry_run:
                raise
            return KNOWN_SECRETS.text(str(mistake))
        return ""

    def _check_agents(self, acting: Sequence[PlannedItem]) -> None:
        settings, user = self._settings, self._cases.user
        if settings.variants and self._agents_act:
            _check_prompts(self._registry, settings.variants, (item.task for item in acting))
        models = [*(item.case.model for item in acting), *self._cases.judges]
        # This comes before the check of keys: an option that no model can obey is a slip, whatever else is
        # missing.
        providers = {provider_of(model.id) for model in models}
        for name in LOADING_OPTIONS:
            place = settings.places.get(name, "")
            if place.startswith("--") and not providers & {*LOADED_BY[name]}:
                whose = " or ".join(f"{one}/NAME" for one in LOADED_BY[name])
                raise UsageMistake(f"{place}: expected a model {whose}; found none in this run")
        # An agent that is given as a form calls models with its own keys, so these are not checked.
        live = (item for item in acting if not item.case.model.offline and not item.task.form)
        chats = [(item.case.model, chat_cassette_file(item.case.plan(item.task))) for item in live]
        self._check_models(chats, "--agent-model")
        if user is not None:
            conversations = (item.case.plan(item.task) for item in acting if item.task.user)
            # A replayed chat may lack a reply. The trial itself reports that, so only chats that are sent are
            # checked.
            replays = settings.record_chat == "off" and not settings.live
            sent = [plan for plan in conversations if not (replays and chat_mode(plan) == "none")]
            self._check_models([(user, chat_cassette_file(plan)) for plan in sent], "--agent-user")

    def _check_models(self, chats: Sequence[tuple[Model, str]], option: str) -> None:
        """Check the key, the price and this machine for each model that would be called."""
        if not chats:
            return
        record_chat = self._settings.record_chat
        check_keys(chats, record_chat, option)
        _check_prices(called_live(chats, record_chat), self._settings)
        local = [chat for chat in chats if provider_of(chat[0].id)]
        check_local_models(called_live(local, record_chat), option)

    def _collected(self) -> tuple[Path, ...]:
        """Give the paths of the command line that were to be collected as a whole."""
        start = self._config.invocation_params.dir
        named = (argument for argument in self._config.args if "::" not in argument)
        return tuple(Path(os.path.normpath(start / argument)) for argument in named)

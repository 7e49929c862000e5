"""Checks before the first trial: whether the options fit the selected trials and all they need is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.agents.agent import agent_trait
from pytest_agenteval.agents.forms import is_bridged
from pytest_agenteval.chat.local.loading import folder_of, loading_of, provider_of
from pytest_agenteval.chat.models import DIRECT, missing_key, setting_problem
from pytest_agenteval.engine.executor import checks_argument
from pytest_agenteval.engine.trial_resources import chat_cassette_file, chat_mode
from pytest_agenteval.graders.grader import asks_judges
from pytest_agenteval.records.plan import OWN_MODEL, Model, PlannedTask, Variant
from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.parametrization import CaseFactory, PlannedItem
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.session.planning.registration_check import prompt_names, unread_prompts
from pytest_agenteval.session.run_info import get_run_info
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.tasks.suite_spec import NO_GATE
from pytest_agenteval.text.errors import ProblemsFound, UsageMistake, did_you_mean
from pytest_agenteval.text.json_values import canonical_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.calibration.calibration_file import CalibrationPlan
    from pytest_agenteval.session.reuse import EarlierTrials
    from pytest_agenteval.store.run_documents import SuiteGate


_CLASS_HINT = "list them in its class: templates = {name: text}, or prompt_names"


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
        own = {**(agent_trait(agent, "templates") or {}), **task.prompts}
        texts |= {f"{task.agent}:{name}": text for name, text in own.items()}
        by_agent.setdefault(task.agent, set()).update(prompt_names(agent) or (), task.prompts)
    every = {name for names in by_agent.values() for name in names}
    wrong = [
        f"--agent-prompt {variant.name}: no agent reads its prompt {name!r}"
        + (f"; {hint}" if (hint := did_you_mean(name, every)) else "")
        for variant in variants
        for name in unread_prompts(variant.prompts, every, texts)
    ]
    if not wrong or not different:
        return
    for agent, names in by_agent.items():
        listed = f"prompts of the agent {agent}: {', '.join(sorted(names))}"
        wrong.append(f"  {listed if names else f'the agent {agent} takes no prompt; {hints[agent]}'}")
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
    from pytest_agenteval.chat.model_prices import is_priced

    priced = ((model.id, is_priced(settings.prices, model.name, model.id)) for model in models)
    if names := dict.fromkeys(name for name, is_known in priced if not is_known):
        place = settings.places.get("max_cost", Settings.max_cost.flag)
        tables = (f'  [tool.agenteval.prices."{name}"]  input = …  output = …' for name in names)
        raise UsageMistake(
            f"{place}: expected models whose price is known; found {', '.join(names)}\n"
            "  set it in pyproject.toml, in US dollars per million tokens (docs/guides/budgets.md):\n"
            + "\n".join(tables)
        )


_INSTEAD = {
    "--agent-model": "choose a model without a key: --agent-model=rules",
    "--agent-user": "name another model to play the tasks' users",
    "--agent-judge": "remove the option: grades that need a judge are then undecided",
}


def check_keys(called: Iterable[Model], option: str = "--agent-model") -> None:
    """Raise UsageMistake where the key or the address of a model is missing that ``option`` has named."""
    problems = []
    for model in called:
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
    """Give each model that a trial would call, once; ``needed`` has the path of the trial's chat cassette."""
    # In mode ``none`` nothing is called. In mode ``once`` only trials without a cassette call. In
    # ``new_episodes`` the cassette may hold everything; a trial whose cassette does not is errored later.
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
        yield f"{', '.join(unknown)}: not supported by a model in this process"
    elif missing := transformers_model.missing_packages(loading.quantization):
        yield f"needs {' and '.join(missing)}: {transformers_model.HOW_TO_INSTALL_LOCAL}"
    elif not quantized and loading.device in ("auto", "cpu"):
        return
    elif problem := transformers_model.missing_device(loading.device, loading.quantization):
        way = "leave `quantization` out" if quantized else "choose another `device`"
        yield f"{problem}; {way}"


def check_run(
    config: pytest.Config,
    planner: Planner,
    cases: CaseFactory,
    earlier: EarlierTrials | None,
    trials: Sequence[PlannedItem],
    calibrations: Sequence[CalibrationPlan],
) -> tuple[tuple[SuiteGate, ...], str]:
    """Check a run's options against what was selected, before any trial is paid; raises UsageMistake.

    Gives the gates of the suites, and the text by which all but a dry run would be refused.
    """
    # This finds the runs that options name, and raises for one that does not exist.
    info, settings, collected = get_run_info(config), read_settings(config), _collected(config)
    if problems := planner.unknown_promoted(collected):
        raise UsageMistake(str(ProblemsFound(problems)))
    gates = _planned_gates(config, planner, collected)
    if earlier is not None and earlier.is_own:
        from pytest_agenteval.session.resume import check_first_failures, check_plan

        (run,) = earlier.runs
        check_plan(run, settings, trials, cases.judges, cases.user)
        check_first_failures(config, settings, run, trials)
    if settings.repetition_range is not None and not settings.regrade:
        from pytest_agenteval.session.adaptive_repetitions import check_baseline

        check_baseline(settings, info, gates, config.rootpath)
    elif settings.places.get("max_trials") == Settings.max_trials.flag and not settings.regrade:
        raise UsageMistake("--agent-max-trials: expected --repetitions=LOW..HIGH beside it, as in 2..6")
    try:
        _check_needs(settings, get_registry(config), cases, trials, calibrations)
    except UsageMistake as mistake:
        if not settings.dry_run:
            raise
        return gates, KNOWN_SECRETS.text(str(mistake))
    return gates, ""


def _collected(config: pytest.Config) -> tuple[Path, ...]:
    """Give the paths of the command line that were to be collected as a whole."""
    start = config.invocation_params.dir
    named = (argument for argument in config.args if "::" not in argument)
    return tuple(Path(os.path.normpath(start / argument)) for argument in named)


def _planned_gates(
    config: pytest.Config, planner: Planner, collected: tuple[Path, ...]
) -> tuple[SuiteGate, ...]:
    """Work out the gates of suites, where a file or an option sets one."""
    settings, suites = read_settings(config), planner.suites
    for_all = settings.gate or settings.baseline
    met = {
        name: tasks
        for name, tasks in planner.met.items()
        if for_all or ((suite := suites.suite_of_name(name)) is not None and suite.gate != NO_GATE)
    }
    if not met:
        return ()
    from pytest_agenteval.session.suite_gates import planned_gates

    # Under --ignore parts of a suite may be missing, so no suite counts as collected as a whole.
    passed_over = getattr(config.option, "ignore", None) or getattr(config.option, "ignore_glob", None)
    return planned_gates(settings, met, () if passed_over else collected, suites, config.rootpath)


def _check_needs(
    settings: Settings,
    registry: Registry,
    cases: CaseFactory,
    trials: Sequence[PlannedItem],
    calibrations: Sequence[CalibrationPlan],
) -> None:
    """Refuse a missing executor, prompt, model or key."""
    with settings.naming_place("executor"):
        executor = registry.executor_factory(settings.executor_name)
        if checks_argument(executor):
            executor.check_argument(settings.executor_argument)
    if not settings.regrade:
        _check_agents(settings, registry, cases, trials)
    cassettes: list[str] = []
    for item in trials if cases.judges else ():
        factories = (registry.grader_factory(grader.name) for grader in item.task.graders)
        if any(map(asks_judges, factories)):
            cassettes.append(chat_cassette_file(item.case.plan(item.task)))
    if calibrations and cases.judges:
        from pytest_agenteval.engine.calibration_run import calibration_cassettes

        cassettes += chain.from_iterable(map(calibration_cassettes, calibrations))
    chats = [(judge, cassette) for cassette in cassettes for judge in cases.judges]
    _check_models(settings, chats, "--agent-judge")


def _check_agents(
    settings: Settings, registry: Registry, cases: CaseFactory, acting: Sequence[PlannedItem]
) -> None:
    if settings.variants:
        _check_prompts(registry, settings.variants, (item.task for item in acting))
    live = (item for item in acting if _asks_named_model(registry, item))
    chats = [(item.case.model, chat_cassette_file(item.case.plan(item.task))) for item in live]
    _check_models(settings, chats, "--agent-model")
    if cases.user is not None:
        conversations = (item.case.plan(item.task) for item in acting if item.task.user)
        # A replayed chat may lack a reply. The trial itself reports that, so only chats that are sent are
        # checked.
        replays = settings.record_chat == "off" and not settings.live
        sent = [plan for plan in conversations if not (replays and chat_mode(plan) == "none")]
        _check_models(settings, [(cases.user, chat_cassette_file(plan)) for plan in sent], "--agent-user")


def _asks_named_model(registry: Registry, item: PlannedItem) -> bool:
    """Whether a trial calls the run's model, and not an agent of the user's with a key of its own."""
    model, task = item.case.model, item.task
    if model.offline or not task.form:
        return not model.offline
    return model.id != OWN_MODEL and is_bridged(task.form, registry.agent_factory(task.agent))


def _check_models(settings: Settings, chats: Sequence[tuple[Model, str]], option: str) -> None:
    """Check the key, the price and this machine for each model that would be called."""
    called = list(called_live(chats, settings.record_chat))
    check_keys(called, option)
    _check_prices(called, settings)
    check_local_models(called, option)

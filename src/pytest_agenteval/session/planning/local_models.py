"""Models that run on this machine: how options load them, and what is missing before a trial starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import LOADED_BY, folder_of, loading_of, provider_of
from pytest_agenteval.chat.models import setting_problem
from pytest_agenteval.records.plan import Model
from pytest_agenteval.session.local_options import LOADING_OPTIONS
from pytest_agenteval.session.options import PROJECT
from pytest_agenteval.session.settings import Settings
from pytest_agenteval.text.errors import UsageMistake


def with_loading_options(models: Sequence[Model], settings: Settings) -> tuple[Model, ...]:
    """Give models as they are to be loaded: what is typed comes before an alias, pyproject.toml after it."""
    values = {name: getattr(settings, name) for name in LOADING_OPTIONS}
    said = {name: value for name, value in values.items() if value is not None}
    if not said:
        return tuple(models)
    of_project = {name for name in said if settings.places.get(name, "").startswith(PROJECT)}
    return tuple(_with_options(model, said, of_project) for model in models)


def _with_options(model: Model, said: dict[str, object], of_project: set[str]) -> Model:
    provider = provider_of(model.id)
    own = {name: value for name, value in said.items() if provider in LOADED_BY[name]}
    if not own:
        return model
    after = {name: value for name, value in own.items() if name in of_project}
    before = {name: value for name, value in own.items() if name not in of_project}
    return replace(model, params={**after, **model.params, **before})


def check_loading_options(models: Iterable[Model], settings: Settings) -> None:
    """Raise UsageMistake for an option that was typed and that none of the run's models can obey."""
    providers = {provider_of(model.id) for model in models}
    for name in LOADING_OPTIONS:
        place = settings.places.get(name, "")
        if place.startswith("--") and not providers & {*LOADED_BY[name]}:
            whose = " or ".join(f"{one}/NAME" for one in LOADED_BY[name])
            raise UsageMistake(f"{place}: expected a model {whose}; found none in this run")


def check_local_models(models: Iterable[Model], option: str) -> None:
    """Raise UsageMistake for what keeps models from running on this machine; nothing is loaded."""
    problems = [f"{option}={model.name}: {problem}" for model in models for problem in _problems(model)]
    if problems:
        raise UsageMistake("\n".join(dict.fromkeys(problems)))


def _problems(model: Model) -> Iterator[str]:
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
    unknown = hf_chat.unknown_params(model)
    if unknown:
        yield f"{', '.join(unknown)}: nothing that a model in this process obeys"
        return
    missing = transformers_model.missing_packages(loading.quantization)
    if missing:
        yield f"needs {' and '.join(missing)}: {transformers_model.HOW_TO_INSTALL_LOCAL}"
    elif loading.quantization or loading.device not in ("auto", "cpu"):
        problem = transformers_model.missing_device(loading.device, loading.quantization)
        if problem:
            yield f"{problem}; {_instead(bool(loading.quantization))}"


def _instead(quantized: bool) -> str:
    return "leave --agent-quantization out" if quantized else "choose another with --agent-device"

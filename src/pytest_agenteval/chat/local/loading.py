"""Which models run on this machine, and how they are loaded: device, number format, number of devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder

Provider: TypeAlias = Literal["hf", "vllm"]

# Prefixes of the ids of local models: ``hf`` runs them in this process with transformers, ``vllm`` serves
# them with vLLM.
PROVIDERS: tuple[Provider, ...] = ("hf", "vllm")

DTYPES = ("auto", "float32", "float16", "bfloat16")
QUANTIZATIONS = ("4bit", "8bit")
VLLM_ONLY: tuple[Provider, ...] = ("vllm",)

# Settings for loading a model, with the providers that have them. None is sent with a request.
LOADED_BY: Mapping[str, tuple[Provider, ...]] = {
    "device": PROVIDERS,
    "dtype": PROVIDERS,
    "quantization": PROVIDERS,
    "max_model_len": PROVIDERS,
    "tensor_parallel_size": VLLM_ONLY,
    "gpu_memory_utilization": VLLM_ONLY,
    "tool_call_parser": VLLM_ONLY,
    "reasoning_parser": VLLM_ONLY,
    "serve_args": VLLM_ONLY,
    "start_seconds": VLLM_ONLY,
}

# The settings of a local model that a run's header shows, in this order.
SHOWN_IN_HEADER = ("device", "dtype", "quantization")

START_SECONDS = 900.0


class Loading(FrozenValue, frozen=True):
    """How one model is loaded; two chats with equal ones share it.

    ``source`` is a name of the hub, or a folder's absolute path. ``device`` is ``auto`` or torch's name of
    one; an empty ``quantization`` leaves the weights as they are. ``max_model_len`` counts tokens, prompt and
    reply together; None is the model's own limit.
    """

    source: str
    device: str = "auto"
    dtype: str = "auto"
    quantization: str = ""
    max_model_len: int | None = None
    tensor_parallel_size: int | None = None
    gpu_memory_utilization: float | None = None
    tool_call_parser: str = ""
    reasoning_parser: str = ""
    serve_args: tuple[str, ...] = ()


def provider_of(id: str) -> Provider | None:
    """Give the provider that runs a model on this machine; None for a model elsewhere."""
    first = id.partition("/")[0]
    return next((provider for provider in PROVIDERS if provider == first), None)


def folder_of(id: str) -> Path | None:
    """Give the folder that an id names, relative to the working folder; None for a name of the hub."""
    source = id.partition("/")[2]
    if not source.startswith(("./", "../", "/", "~")) and source not in (".", ".."):
        return None
    return Path(source).expanduser().absolute()


def loading_of(model: Model) -> Loading:
    folder = folder_of(model.id)
    settings = {name: value for name, value in model.params.items() if name in Loading.__struct_fields__}
    if "serve_args" in settings:
        settings["serve_args"] = tuple(settings["serve_args"])
    return Loading(str(folder) if folder else model.id.partition("/")[2], **settings)


def request_params(model: Model) -> dict[str, Any]:
    """Give the parameters that are sent with every request: those that do not concern loading."""
    return {name: value for name, value in model.params.items() if name not in LOADED_BY}


def note_loading(recorder: Recorder, model: Model, loading: Mapping[str, Any]) -> None:
    """Record in a trial how its local model runs."""
    text = f"{model.name} runs on this machine: {_loading_text(loading) or 'with its own defaults'}"
    recorder.event("local_model", text, {"model": model.name, **loading})


def loading_options_of(model: Model) -> dict[str, Any]:
    """Give the settings of loading a local model; empty for a model elsewhere."""
    if provider_of(model.id) is None:
        return {}
    return {name: model.params[name] for name in LOADED_BY if name in model.params}


def loading_note(model: Model) -> str:
    """Give the settings of loading a local model as text: ``cuda, bfloat16, 4bit``."""
    return _loading_text(loading_options_of(model))


def _loading_text(loading: Mapping[str, Any]) -> str:
    return ", ".join(str(loading[name]) for name in SHOWN_IN_HEADER if name in loading)

"""Which models run on this machine, and how they are loaded: where, in which numbers, by how many devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.recorder import Recorder

Provider: TypeAlias = Literal["hf", "vllm"]

PROVIDERS: tuple[Provider, ...] = ("hf", "vllm")
"""How the ids of local models begin: in this process by transformers, or served by vLLM."""

DTYPES = ("auto", "float32", "float16", "bfloat16")
QUANTIZATIONS = ("4bit", "8bit")
ANY_LOCAL: tuple[Provider, ...] = ("hf", "vllm")
VLLM_ONLY: tuple[Provider, ...] = ("vllm",)

LOADED_BY: Mapping[str, tuple[Provider, ...]] = {
    "device": ANY_LOCAL,
    "dtype": ANY_LOCAL,
    "quantization": ANY_LOCAL,
    "max_model_len": ANY_LOCAL,
    "tensor_parallel_size": VLLM_ONLY,
    "gpu_memory_utilization": VLLM_ONLY,
    "tool_call_parser": VLLM_ONLY,
    "reasoning_parser": VLLM_ONLY,
    "serve_args": VLLM_ONLY,
    "start_seconds": VLLM_ONLY,
}
"""Settings that say how a model is loaded, and who can obey them; none is sent with a request."""

SHOWN_IN_HEADER = ("device", "dtype", "quantization")
"""What a run's header says of a local model, in this order."""

START_SECONDS = 900.0


class Loading(FrozenValue, frozen=True):
    """How one model is loaded; two chats with equal ones share it.

    ``source`` is a name of the hub, or a folder's absolute path. ``device`` is ``auto`` or torch's name of
    one; an empty ``quantization`` leaves the weights as they are. ``max_model_len`` counts tokens, prompt and
    reply together; None is what the model can.
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
    """Give who runs the model of an id on this machine; None for a model that is asked elsewhere."""
    first = id.partition("/")[0]
    return next((provider for provider in PROVIDERS if provider == first), None)


def folder_of(id: str) -> Path | None:
    """Give the folder that an id names, from the working folder on; None for a name of the hub."""
    source = id.partition("/")[2]
    if not source.startswith(("./", "../", "/", "~")) and source not in (".", ".."):
        return None
    return Path(source).expanduser().absolute()


def loading_of(model: Model) -> Loading:
    """Give how a local model is loaded."""
    folder = folder_of(model.id)
    settings = {name: value for name, value in model.params.items() if name in Loading.__struct_fields__}
    if "serve_args" in settings:
        settings["serve_args"] = tuple(settings["serve_args"])
    return Loading(str(folder) if folder else model.id.partition("/")[2], **settings)


def request_params(model: Model) -> dict[str, Any]:
    """Give what goes with every request: all that does not say how the model is loaded."""
    return {name: value for name, value in model.params.items() if name not in LOADED_BY}


def note_loading(recorder: Recorder | None, model: Model, loading: Mapping[str, Any]) -> None:
    """Note in a trial how the model runs that is asked in it."""
    if recorder is not None:
        text = f"{model.name} runs on this machine: {_loading_text(loading) or 'as it says itself'}"
        recorder.event("local_model", text, {"model": model.name, **loading})


def loading_options_of(model: Model) -> dict[str, Any]:
    """Give what was said of how a local model is loaded; empty for a model that is asked elsewhere."""
    if provider_of(model.id) is None:
        return {}
    return {name: model.params[name] for name in LOADED_BY if name in model.params}


def loading_note(model: Model) -> str:
    """Give what was said of how a local model is loaded in words: ``cuda, bfloat16, 4bit``."""
    return _loading_text(loading_options_of(model))


def _loading_text(loading: Mapping[str, Any]) -> str:
    return ", ".join(str(loading[name]) for name in SHOWN_IN_HEADER if name in loading)

"""The options of models that run on this machine; a part of the table in ``session/settings.py``.

Imported in every pytest run, used or not, like the rest of the table.
"""

from __future__ import annotations

from pytest_agenteval.session.options import Option, OptionValues, RawValue, WrongValue, whole, word_of

LOADING_OPTIONS = (
    "device",
    "dtype",
    "quantization",
    "max_model_len",
    "tensor_parallel_size",
    "gpu_memory_utilization",
)
"""Settings of a model of ours that an option may say for all of them."""


def share(raw: RawValue) -> float:
    """Read a number above 0, 1 at most."""
    try:
        number = float(str(raw.value))
    except ValueError:
        raise WrongValue from None
    if not 0 < number <= 1:
        raise WrongValue
    return number


def device_name(raw: RawValue) -> str:
    """Read torch's name of a device, or ``auto``."""
    name, _, number = str(raw.value).partition(":")
    if name not in ("auto", "cpu", "mps", "cuda") or (number and name != "cuda"):
        raise WrongValue
    if ":" in str(raw.value) and not number.isdecimal():
        raise WrongValue
    return str(raw.value)


class LocalModelOptions(OptionValues):
    """How models that begin with ``hf/`` or ``vllm/`` are loaded, where their own tables do not say it."""

    device: Option[str | None] = Option(
        "device",
        "DEVICE",
        "where hf/NAME runs: auto, cpu, cuda, cuda:1, mps (default: auto); cuda:1 also chooses the GPU of "
        "vllm/NAME",
        device_name,
        None,
        "auto, cpu, cuda, cuda:N or mps",
    )
    dtype: Option[str | None] = Option(
        "dtype",
        "DTYPE",
        "the numbers in which hf/NAME and vllm/NAME compute: auto, float32, float16, bfloat16 (default: "
        "auto)",
        word_of(("auto", "float32", "float16", "bfloat16")),
        None,
        "one of auto, float32, float16, bfloat16",
    )
    quantization: Option[str | None] = Option(
        "quantization",
        "BITS",
        "load hf/NAME and vllm/NAME with smaller weights: 4bit, 8bit; both need a GPU",
        word_of(("4bit", "8bit")),
        None,
        "4bit or 8bit",
    )
    max_model_len: Option[int | None] = Option(
        "max_model_len",
        "N",
        "the tokens of prompt and reply together, at most, of hf/NAME and vllm/NAME (default: its own)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    tensor_parallel_size: Option[int | None] = Option(
        "tensor_parallel_size",
        "N",
        "the GPUs that vllm/NAME is spread over (default: vLLM's own, 1)",
        whole(1),
        None,
        "a whole number, 1 or more",
    )
    gpu_memory_utilization: Option[float | None] = Option(
        "gpu_memory_utilization",
        "SHARE",
        "the share of each GPU's memory that vllm/NAME may take, as in 0.8 (default: vLLM's own)",
        share,
        None,
        "a number above 0, 1 at most",
    )

"""The command that serves a model by vLLM."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping

from pytest_agenteval.chat.local.loading import Loading

PROGRAM = "vllm"
HOW_TO_INSTALL = "pip install vllm"
HOST = "127.0.0.1"

QUANTIZED_BY: Mapping[str, str] = {"4bit": "bitsandbytes", "8bit": "fp8"}
"""vLLM's words for weights that are made smaller while they are loaded."""

PARSERS = (
    (r"qwen3.?coder|qwen3\.[5-9]", "qwen3_coder"),
    (r"gpt-?oss", "openai"),
    (r"llama-?4", "llama4_pythonic"),
    (r"llama-?3", "llama3_json"),
    (r"mistral|mixtral|ministral|magistral|devstral|codestral", "mistral"),
    (r"granite-?20b-functioncalling", "granite-20b-fc"),
    (r"granite-?[34]", "granite"),
    (r"functiongemma", "functiongemma"),
    (r"gemma-?4", "gemma4"),
    (r"gemma", "pythonic"),
    (r"phi-?4-mini", "phi4_mini_json"),
    (r"deepseek-?v3\.2", "deepseek_v32"),
    (r"deepseek-?v3\.1", "deepseek_v31"),
    (r"deepseek", "deepseek_v3"),
    (r"kimi-?k2", "kimi_k2"),
    (r"glm-?4\.[5-9]", "glm45"),
    (r"minimax-?m2", "minimax_m2"),
    (r"seed-?oss", "seed_oss"),
)
"""Which of vLLM's parsers reads the tool calls of a model with such a name; of any other, ``hermes``."""


GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""What a system has that has a GPU: NVIDIA's, AMD's, Windows's for Linux."""


def missing_for_vllm(loading: Loading) -> Iterator[str]:
    """Say what keeps ``vllm serve`` from being started here; vLLM may be another Python's."""
    if loading.quantization in QUANTIZED_BY and not any(map(os.path.exists, GPU_FILES)):
        yield f"{loading.quantization} needs a GPU; leave --agent-quantization out"
    if shutil.which(PROGRAM) is None:
        yield f"no program {PROGRAM!r} on the PATH: {HOW_TO_INSTALL}, or name a server with api_base"


def tool_call_parser(loading: Loading) -> str:
    """Give the name of the parser that reads the model's tool calls."""
    name = loading.source.lower()
    known = (parser for pattern, parser in PARSERS if re.search(pattern, name))
    return loading.tool_call_parser or next(known, "hermes")


def serve_command(loading: Loading, port: int) -> list[str]:
    """Give the command that serves a model on this port."""
    options: Mapping[str, object] = {
        "--host": HOST,
        "--port": port,
        "--served-model-name": loading.source,
        "--dtype": loading.dtype,
        "--tensor-parallel-size": loading.tensor_parallel_size,
        "--gpu-memory-utilization": loading.gpu_memory_utilization,
        "--max-model-len": loading.max_model_len,
        "--quantization": QUANTIZED_BY.get(loading.quantization, loading.quantization),
        "--tool-call-parser": tool_call_parser(loading),
        "--reasoning-parser": loading.reasoning_parser,
    }
    flags = [str(part) for flag, value in options.items() if value for part in (flag, value)]
    return [PROGRAM, "serve", loading.source, *flags, "--enable-auto-tool-choice", *loading.serve_args]


def serve_environment(loading: Loading, keys: Collection[str]) -> dict[str, str]:
    """Give the environment of the server: ours without ``keys``, and with the GPU that was named."""
    ours = {name: value for name, value in os.environ.items() if name not in keys}
    kind, _, number = loading.device.partition(":")
    return {**ours, "CUDA_VISIBLE_DEVICES": number} if kind == "cuda" and number else ours

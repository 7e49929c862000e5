"""How fast a model of this machine is: one at a time, batched, and with fewer bits.

``python -m tests.extended.local_models [--model NAME] [--device cuda] [--tokens 128] [--batches 1,4,16,64]``.
Without ``--model`` one is made, of random weights in the shape of a billion parameters (``--shape tiny``
where there is no GPU): what is measured does not hang on what it says. Each figure is that of whole chats:
template, batch, sampling, reading of the reply.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_agenteval.chat.chat import ChatSettings, Reply
from pytest_agenteval.chat.local import hf_chat
from pytest_agenteval.chat.local.hf_chat import HfChat
from pytest_agenteval.chat.local.transformers_model import missing_device
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import AgentEvalError

from .tiny_model import save_tiny_model

BILLION = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "initializer_range": 0.02,
}
"""The shape of Llama 3.2 1B."""

QUESTION = "Which of the three trains from Oslo to Bergen is the cheapest, and when does it leave? " * 8


def main(args: Sequence[str]) -> None:
    """Measure, and print a line for each figure."""
    options = _options(args)
    with tempfile.TemporaryDirectory() as folder:
        name = options.model or str(_made(Path(folder) / "model", options.shape))
        figures = list(_figures(name, options))
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8", newline="\n")


def _options(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.extended.local_models")
    parser.add_argument("--model", default="", help="a name of the hub, or a folder")
    parser.add_argument("--shape", choices=["billion", "tiny"], default="billion")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batches", default="1,4,16,64")
    parser.add_argument("--bits", default="4bit,8bit")
    parser.add_argument("--json", default="")
    return parser.parse_args(args)


def _made(folder: Path, shape: str) -> Path:
    return save_tiny_model(folder, context=4096, config=BILLION if shape == "billion" else {})


def _figures(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for bits in ("", *filter(None, options.bits.split(","))):
        missing = missing_device(options.device, bits)
        if bits and not find_spec("bitsandbytes"):
            missing = "bitsandbytes is not installed"
        if missing:
            print(f"{bits or options.dtype}: not measured: {missing}", flush=True)
            continue
        params = {"device": options.device, "dtype": options.dtype}
        model = Model("measured", f"hf/{name}", params={**params, **({"quantization": bits} if bits else {})})
        try:
            figures = asyncio.run(_measure(model, options))
        except AgentEvalError as broken:
            print(f"{bits}: not measured: {broken}", flush=True)
            continue
        for figure in figures:
            print(_line(figure), flush=True)
            yield figure


async def _measure(model: Model, options: argparse.Namespace) -> list[dict[str, Any]]:
    began = time.perf_counter()
    chat = HfChat(model, Recorder(float))
    await chat.prepare()
    loaded_s = time.perf_counter() - began
    await _ask(model, 1, 8)  # kernels are chosen at the first
    figures = [await _one_at_a_time(model, options)]
    for batch in map(int, options.batches.split(",")):
        figures.append(await _batched(model, batch, options.tokens))
    common = {**chat.loaded, "loaded_s": round(loaded_s, 2), "memory_gb": _memory_gb()}
    await hf_chat.close()
    return [{**figure, **common} for figure in figures]


async def _one_at_a_time(model: Model, options: argparse.Namespace) -> dict[str, Any]:
    began = time.perf_counter()
    replies = [reply for _ in range(4) for reply in await _ask(model, 1, options.tokens)]
    return _figure("one at a time", replies, time.perf_counter() - began)


async def _batched(model: Model, batch: int, tokens: int) -> dict[str, Any]:
    began = time.perf_counter()
    replies = await _ask(model, batch, tokens)
    return _figure(f"{batch} side by side", replies, time.perf_counter() - began)


async def _ask(model: Model, batch: int, tokens: int) -> list[Reply]:
    """Ask so many different questions at once, each sampled by a seed of its own."""

    async def ask(number: int) -> Reply:
        settings = ChatSettings(temperature=0.8, top_p=0.95, seed=number, max_tokens=tokens)
        return await HfChat(model, Recorder(float)).ask(
            [{"role": "user", "content": f"{number}: {QUESTION}"}], settings=settings
        )

    return list(await asyncio.gather(*map(ask, range(batch))))


def _figure(what: str, replies: Sequence[Reply], seconds: float) -> dict[str, Any]:
    tokens = sum(reply.usage.output_tokens for reply in replies)
    first = [reply.first_token_s for reply in replies if reply.first_token_s is not None]
    return {
        "what": what,
        "replies": len(replies),
        "tokens": tokens,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(tokens / seconds, 1),
        "first_token_s": round(max(first, default=0.0), 4),
    }


def _memory_gb() -> float:
    import torch

    return round(torch.cuda.max_memory_allocated() / 1e9, 2) if torch.cuda.is_available() else 0.0


def _line(figure: dict[str, Any]) -> str:
    where = " ".join(str(figure[name]) for name in ("device", "dtype", "quantization") if name in figure)
    return (
        f"{where:24} {figure['what']:16} {figure['tokens_per_second']:9.1f} tokens/s  "
        f"first {figure['first_token_s']:.3f} s  loaded in {figure['loaded_s']} s  {figure['memory_gb']} GB"
    )

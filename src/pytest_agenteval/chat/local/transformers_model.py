"""Models in this process, by transformers and torch: the one file that knows them."""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from pytest_agenteval.chat.local.conversation import renderings
from pytest_agenteval.chat.local.generation import (
    Generation,
    GenerationRequest,
    NoTemplate,
    OutOfMemory,
    Prompt,
)
from pytest_agenteval.chat.local.loading import Loading
from pytest_agenteval.chat.local.rows import ModelSampling, Row, RowChoosers, RowStops
from pytest_agenteval.text.errors import NotInstalled, ProviderDown

NEEDED = ("torch", "transformers")
NEEDED_QUANTIZED = ("accelerate", "bitsandbytes")
HOW_TO_INSTALL = "pip install 'pytest-agenteval[local]'"
UNKNOWN_CONTEXT = 32768
"""Tokens that a model is taken to read where it does not say how many."""

LAST_LETTERS = 200
HELLO = ({"role": "user", "content": "Hello"},)
ANY_TOOL = (
    {
        "type": "function",
        "function": {
            "name": "any_tool",
            "description": "any",
            "parameters": {"type": "object", "properties": {"key": {"type": "string", "description": "any"}}},
        },
    },
)


def missing_packages(quantization: str) -> list[str]:
    """Name what is not installed of what a model in this process needs; nothing is imported."""
    needed = NEEDED + (NEEDED_QUANTIZED if quantization else ())
    return [name for name in needed if find_spec(name) is None]


def missing_device(device: str, quantization: str) -> str:
    """Say which device is not there that is asked for; imports torch, so to be asked only where one is."""
    import torch

    kind, _, number = device.partition(":")
    here = {"cuda": torch.cuda.is_available(), "mps": _has_mps()}
    if kind in here and not here[kind]:
        return f"torch sees no device {kind!r} on this machine"
    if kind == "cuda" and number.isdecimal() and int(number) >= torch.cuda.device_count():
        return f"torch sees {torch.cuda.device_count()} devices of kind 'cuda', counted from 0"
    if quantization and (not here["cuda"] or kind not in ("auto", "cuda")):
        return f"{quantization} needs a GPU that torch reaches by CUDA"
    return ""


def _has_mps() -> bool:
    import torch

    return bool(torch.backends.mps.is_available())


def load(loading: Loading) -> TransformersModel:
    """Load a model; raises NotInstalled or ProviderDown, each of one line."""
    missing = missing_packages(loading.quantization)
    if missing:
        raise NotInstalled(f"hf/{loading.source} needs {' and '.join(missing)}: {HOW_TO_INSTALL}")
    try:
        return TransformersModel(loading)
    except ImportError as broken:
        raise NotInstalled(f"hf/{loading.source}: {_one_line(broken)}; {HOW_TO_INSTALL}") from broken
    except Exception as raised:  # whatever the libraries raise: a missing file, a refused download, no memory
        raise ProviderDown(f"hf/{loading.source} cannot be loaded: {_one_line(raised)}") from raised


def _one_line(raised: BaseException) -> str:
    lines = [line.strip() for line in str(raised).splitlines() if line.strip()]
    return f"{type(raised).__name__}: {lines[0][:300] if lines else 'no reason given'}"


class TransformersModel:
    """A causal language model in memory, with its tokenizer."""

    def __init__(self, loading: Loading) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        self._torch = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(loading.source)
        self._model: Any = AutoModelForCausalLM.from_pretrained(loading.source, **_how(loading)).eval()
        if not hasattr(self._model, "hf_device_map"):
            self._model.to(_device(loading.device))
        self._own = ModelSampling(self._model.generation_config)
        self._ends = _ends(self._model.generation_config, self._tokenizer)
        # Left of a prompt stands a token that is masked: any will do.
        self._pad = (
            next(iter(self._ends), 0)
            if self._tokenizer.pad_token_id is None
            else self._tokenizer.pad_token_id
        )
        self.context = min(_context(self._model.config), loading.max_model_len or UNKNOWN_CONTEXT**2)
        self.max_new_tokens: int | None = self._model.generation_config.max_new_tokens
        self.description: Mapping[str, str] = {
            "device": str(self._model.device),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            **({"quantization": loading.quantization} if loading.quantization else {}),
        }
        self._knows_tools = self._template_tokens(HELLO, ANY_TOOL, {}) != self._template_tokens(HELLO, (), {})

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        template_kwargs: Mapping[str, Any],
    ) -> Prompt:
        """Write a conversation as the model's own template does; raises NoTemplate where that cannot be.

        For a template that takes no tools or no system message, these are said in the user's.
        """
        if not self._tokenizer.chat_template:
            raise NoTemplate("the model has no chat template: a model that was trained on chats has one")
        refusal = ""
        for said, offered in renderings(
            [dict(message) for message in messages], tools, knows_tools=self._knows_tools
        ):
            try:
                tokens = self._tokens(said, offered, template_kwargs)
            except Exception as raised:  # a template is its author's code
                refusal = refusal or _one_line(raised)
            else:
                end = self._tokenizer.decode(tokens[-LAST_LETTERS:], skip_special_tokens=False)
                return Prompt(tuple(tokens), end[-LAST_LETTERS:])
        raise NoTemplate(f"the model's chat template refuses the conversation: {refusal}")

    def _tokens(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[int]:
        encoded = self._tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            **kwargs,
        )
        return [int(token) for token in encoded["input_ids"]]

    def _template_tokens(self, *conversation: Any) -> list[int]:
        try:
            return self._tokens(*conversation)
        except Exception:  # no template, or one that raises: it is asked again with what there is to say
            return []

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False)) if text else 0

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Generate all replies side by side, each by its own settings; raises OutOfMemory."""
        try:
            return self._generate(requests)
        except self._torch.OutOfMemoryError as full:
            self._free()
            raise OutOfMemory(_one_line(full)) from None

    def _generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        torch, began = self._torch, time.perf_counter()
        longest = max(len(request.prompt.tokens) for request in requests)
        lefts = [longest - len(request.prompt.tokens) for request in requests]
        ids = [
            [self._pad] * left + [*request.prompt.tokens]
            for left, request in zip(lefts, requests, strict=True)
        ]
        mask = [[0] * left + [1] * (longest - left) for left in lefts]
        rows = [self._row(request, left, longest) for request, left in zip(requests, lefts, strict=True)]
        stops = RowStops(rows, longest, self._torch)
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=torch.tensor(ids, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                generation_config=self._config(max(request.max_tokens for request in requests)),
                logits_processor=self._choosers(rows),
                stopping_criteria=[stops],
            )
        first_token_s = None if stops.first_at is None else stops.first_at - began
        seconds = time.perf_counter() - began
        new_tokens = [tokens[longest:].tolist() for tokens in out]
        return [
            row.generation(tokens, seconds, first_token_s)
            for row, tokens in zip(rows, new_tokens, strict=True)
        ]

    def _row(self, request: GenerationRequest, left: int, longest: int) -> Row:
        sampling = self._own.fill(request.sampling)
        generator = self._torch.Generator(device=self._model.device)
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed % 2**63)
        return Row(request, sampling, generator, left, longest, self._ends, self._decode)

    def _decode(self, tokens: Sequence[int]) -> str:
        # With special tokens: some of them are the marks of thoughts and calls.
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _choosers(self, rows: Sequence[Row]) -> list[Any]:
        plain = all(row.sampling.temperature == 0 and not row.sampling.repetition_penalty for row in rows)
        return [] if plain else [RowChoosers(rows, self._torch, self._model.device)]

    def _config(self, max_new_tokens: int) -> Any:
        """Give how transformers shall generate: greedily, for what is sampled has been chosen by each row."""
        config = copy.deepcopy(self._model.generation_config)
        config.update(
            max_new_tokens=max_new_tokens,
            max_length=None,
            do_sample=False,
            num_beams=1,
            num_return_sequences=1,
            temperature=None,
            top_p=None,
            top_k=None,
            min_p=None,
            typical_p=None,
            repetition_penalty=None,
            pad_token_id=self._pad,
            eos_token_id=sorted(self._ends) or None,
            return_dict_in_generate=False,
        )
        return config

    def close(self) -> None:
        """Let go of the memory."""
        self._model = self._tokenizer = None
        self._free()

    def _free(self) -> None:
        gc.collect()
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()


def _how(loading: Loading) -> dict[str, Any]:
    """Give how transformers shall load the weights."""
    import torch

    how: dict[str, Any] = {"dtype": "auto" if loading.dtype == "auto" else getattr(torch, loading.dtype)}
    if loading.quantization:
        from transformers import BitsAndBytesConfig

        four = loading.quantization == "4bit"
        compute = torch.bfloat16 if loading.dtype == "auto" else how["dtype"]
        how["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=four,
            load_in_8bit=not four,
            bnb_4bit_compute_dtype=compute,
            bnb_4bit_quant_type="nf4",
        )
        how["device_map"] = "auto" if loading.device == "auto" else {"": _device(loading.device)}
    elif loading.device == "auto" and torch.cuda.device_count() > 1 and find_spec("accelerate"):
        how["device_map"] = "auto"  # over all of them
    return how


def _device(name: str) -> str:
    import torch

    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"


def _ends(config: Any, tokenizer: Any) -> frozenset[int]:
    """Give the tokens that end a reply."""
    named = config.eos_token_id
    ends = named if isinstance(named, list) else [named]
    return frozenset(end for end in (*ends, tokenizer.eos_token_id) if end is not None)


def _context(config: Any) -> int:
    with suppress(AttributeError):
        config = config.get_text_config()
    return int(getattr(config, "max_position_embeddings", None) or UNKNOWN_CONTEXT)

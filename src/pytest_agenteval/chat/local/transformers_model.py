"""Models in this process, through transformers and torch, which no other module imports."""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.local.generation import (
    Generation,
    GenerationRequest,
    NoTemplate,
    OutOfMemory,
    Prompt,
    Sampling,
    template_variants,
)
from pytest_agenteval.chat.local.loading import Loading
from pytest_agenteval.text.errors import NotInstalled, ProviderDown

# Smaller draws are raised to this value, since it is a divisor.
SHORTEST_WAIT = 1e-30


def own_sampling(config: Any) -> dict[str, Any]:
    """Give the sampling settings of the model's own configuration."""
    names = ("top_p", "top_k", "min_p", "repetition_penalty")
    temperature = (config.temperature or 1.0) if config.do_sample else 0.0
    return {"temperature": temperature, **{name: getattr(config, name, None) for name in names}}


class BatchRow:
    """One reply of a batch, while it is generated."""

    def __init__(
        self,
        request: GenerationRequest,
        sampling: Sampling,
        generator: Any,
        left: int,
        longest: int,
        ends: frozenset[int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.request, self.sampling, self.generator = request, sampling, generator
        self.left, self._longest, self._ends, self._decode = left, longest, ends, decode
        self.ended_at: int | None = None

    def is_over(self, tokens: Any) -> bool:
        """Whether this row ends for another reason than the model's own end token."""
        if self.ended_at is None:
            count = len(tokens) - self._longest
            at_stop = False
            if stops := self.sampling.stop:
                # A token has at least one byte: so many tokens hold the longest of these texts, and a letter
                # cut in two.
                window = max(len(stop.encode()) for stop in stops) + 8
                tail = self._decode(tokens[self._longest :][-window:].tolist())
                at_stop = any(stop in tail for stop in stops)
            if count >= self.request.max_tokens or self.request.unwanted() or at_stop:
                self.ended_at = count
        return self.ended_at is not None

    def generation(self, tokens: Sequence[int], seconds: float, first_token_s: float | None) -> Generation:
        """Give the reply; ``tokens`` may continue beyond its end."""
        own = tokens[: self.ended_at]
        at = next((place for place, token in enumerate(own) if token in self._ends), None)
        text_tokens = own if at is None else own[:at]
        text = self._decode(text_tokens)
        stops = [text.index(stop) for stop in self.sampling.stop if stop in text]
        stopped = at is not None or bool(stops)
        return Generation(
            text=text[: min(stops)] if stops else text,
            tokens=len(own) if at is None else at + 1,
            finish="stop" if stopped else "length",
            seconds=seconds,
            first_token_s=first_token_s,
        )


class TokenChooser:
    """Chooses the next token of each row, and leaves transformers no other.

    Each row draws from its own generator, so that the other rows of the batch do not change its reply.
    """

    def __init__(self, rows: Sequence[BatchRow], torch: Any, device: Any) -> None:
        self._rows, self._torch, self._device = rows, torch, device
        # A setting that a row lacks becomes one that cuts nothing.
        self._temperature = self._column(lambda sampling: sampling.temperature or 1.0)
        self._greedy = self._column(lambda sampling: not sampling.temperature) > 0
        self._top_k = self._column(lambda sampling: sampling.top_k or float("inf"))
        self._top_p = self._column(lambda sampling: 2.0 if sampling.top_p in (None, 1) else sampling.top_p)
        self._min_p = self._column(lambda sampling: sampling.min_p or 0.0)
        self._cuts = any(row.sampling.top_k or row.sampling.top_p or row.sampling.min_p for row in rows)

    def _column(self, value: Callable[[Sampling], Any]) -> Any:
        values = [[float(value(row.sampling))] for row in self._rows]
        return self._torch.tensor(values, device=self._device)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Give scores in which only the chosen tokens are possible."""
        logits = scores.float()
        for place, row in enumerate(self._rows):
            penalty = row.sampling.repetition_penalty
            if penalty and penalty != 1.0:  # tokens of the row's prompt and reply become less likely
                seen = input_ids[place, row.left :].unique()
                own = logits[place, seen]
                logits[place, seen] = self._torch.where(own > 0, own / penalty, own * penalty)
        chances = self._torch.softmax(logits / self._temperature, -1)
        if self._cuts:
            torch = self._torch
            ordered, places = chances.sort(-1, descending=True)
            keep = torch.arange(ordered.shape[-1], device=ordered.device) < self._top_k
            keep &= ordered.cumsum(-1) - ordered < self._top_p
            keep &= ordered >= ordered[:, :1] * self._min_p
            keep[:, 0] = True  # the likeliest always stays
            chances = torch.zeros_like(chances).scatter(1, places, ordered * keep)
        # If a token with probability p gets a time from the exponential distribution with rate p, token i
        # comes first with probability p_i: the greatest chance divided by a draw is a sample.
        drawn = self._torch.ones_like(chances)
        for place, row in enumerate(self._rows):
            if row.sampling.temperature:
                drawn[place].exponential_(generator=row.generator)
        sampled = (chances / drawn.clamp(min=SHORTEST_WAIT)).argmax(-1, keepdim=True)
        chosen = self._torch.where(self._greedy, logits.argmax(-1, keepdim=True), sampled)
        return self._torch.full_like(scores, float("-inf")).scatter(1, chosen, 0.0)


class RowStops:
    """Ends each row with its own request, and notes when the first tokens came."""

    def __init__(self, rows: Sequence[BatchRow], longest: int, torch: Any) -> None:
        self._rows, self._longest, self._torch = rows, longest, torch
        self.first_at: float | None = None

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Give transformers the rows that are over."""
        if self.first_at is None:
            self.first_at = time.perf_counter()
        over = [row.is_over(tokens) for row, tokens in zip(self._rows, input_ids, strict=True)]
        return self._torch.tensor(over, device=input_ids.device)


NEEDED = ("torch", "transformers")
NEEDED_QUANTIZED = ("accelerate", "bitsandbytes")
HOW_TO_INSTALL_LOCAL = "pip install 'pytest-agenteval[local]'"
# The context length, in tokens, of a model whose configuration does not state it.
UNKNOWN_CONTEXT = 32768

LAST_LETTERS = 200
HELLO = ({"role": "user", "content": "Hello"},)
_ANY_PARAMETERS = {"type": "object", "properties": {"key": {"type": "string", "description": "any"}}}
_ANY_FUNCTION = {"name": "any_tool", "description": "any", "parameters": _ANY_PARAMETERS}
ANY_TOOL = ({"type": "function", "function": _ANY_FUNCTION},)


def missing_packages(quantization: str) -> list[str]:
    """Name the packages that a model in this process needs and that are missing, without importing any."""
    needed = NEEDED + (NEEDED_QUANTIZED if quantization else ())
    return [name for name in needed if find_spec(name) is None]


def missing_device(device: str, quantization: str) -> str:
    """Describe why torch lacks a device; imports torch, so call it only if a device is set."""
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


def load_model(loading: Loading) -> TransformersModel:
    """Load a model; raises NotInstalled or ProviderDown, each of one line."""
    missing = missing_packages(loading.quantization)
    if missing:
        raise NotInstalled(f"hf/{loading.source} needs {' and '.join(missing)}: {HOW_TO_INSTALL_LOCAL}")
    try:
        return TransformersModel(loading)
    except ImportError as broken:
        raise NotInstalled(f"hf/{loading.source}: {_one_line(broken)}; {HOW_TO_INSTALL_LOCAL}") from broken
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
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            loading.source, **_load_options(loading)
        ).eval()
        if not hasattr(self._model, "hf_device_map"):
            self._model.to(_torch_device(loading.device))
        self._own = own_sampling(self._model.generation_config)
        named = self._model.generation_config.eos_token_id
        ends = named if isinstance(named, list) else [named]
        self._ends = frozenset(end for end in (*ends, self._tokenizer.eos_token_id) if end is not None)
        # The padding left of a prompt is masked, so any token will do.
        pad = self._tokenizer.pad_token_id
        self._pad = next(iter(self._ends), 0) if pad is None else pad
        config = self._model.config
        with suppress(AttributeError):
            config = config.get_text_config()
        self.context = min(
            int(getattr(config, "max_position_embeddings", None) or UNKNOWN_CONTEXT),
            loading.max_model_len or UNKNOWN_CONTEXT**2,
        )
        self.max_new_tokens: int | None = self._model.generation_config.max_new_tokens
        self.description: Mapping[str, str] = {
            "device": str(self._model.device),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            **({"quantization": loading.quantization} if loading.quantization else {}),
        }
        # A template that ignores tools writes the same prompt with and without one.
        self._knows_tools = self._template_tokens(HELLO, ANY_TOOL, {}) != self._template_tokens(HELLO, (), {})

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        template_kwargs: Mapping[str, Any],
    ) -> Prompt:
        """Write a conversation with the model's own template; raises NoTemplate if that is not possible.

        For a template without tools or system messages, they become the user's text.
        """
        if not self._tokenizer.chat_template:
            raise NoTemplate("the model has no chat template: a model that was trained on chats has one")
        refusal = ""
        for conversation, offered in template_variants(
            [dict(message) for message in messages], tools, knows_tools=self._knows_tools
        ):
            try:
                tokens = self._tokens(conversation, offered, template_kwargs)
            except Exception as raised:  # a template is its author's code and may raise anything
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
        except Exception:  # no template, or one that raises: ``prompt`` tries again and reports it
            return []

    def count_tokens(self, text: str) -> int:
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
        # Padding stands on the left, so that the next token of every row has the same place.
        ids = [
            [self._pad] * left + [*request.prompt.tokens]
            for left, request in zip(lefts, requests, strict=True)
        ]
        mask = [[0] * left + [1] * (longest - left) for left in lefts]
        rows = [self._row(request, left, longest) for request, left in zip(requests, lefts, strict=True)]
        # Where every row takes the likeliest token, transformers does so by itself.
        is_plain = all(row.sampling.temperature == 0 and not row.sampling.repetition_penalty for row in rows)
        stops = RowStops(rows, longest, self._torch)
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=torch.tensor(ids, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                generation_config=self._config(max(request.max_tokens for request in requests)),
                logits_processor=[] if is_plain else [TokenChooser(rows, torch, self._model.device)],
                stopping_criteria=[stops],
            )
        first_token_s = None if stops.first_at is None else stops.first_at - began
        seconds = time.perf_counter() - began
        new_tokens = [tokens[longest:].tolist() for tokens in out]
        return [
            row.generation(tokens, seconds, first_token_s)
            for row, tokens in zip(rows, new_tokens, strict=True)
        ]

    def _row(self, request: GenerationRequest, left: int, longest: int) -> BatchRow:
        unset = {name: it for name, it in self._own.items() if getattr(request.sampling, name) is None}
        sampling = replace(request.sampling, **unset)
        generator = self._torch.Generator(device=self._model.device)
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed % 2**63)
        return BatchRow(request, sampling, generator, left, longest, self._ends, self._decode)

    def _decode(self, tokens: Sequence[int]) -> str:
        # With special tokens, which may mark thoughts and calls.
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _config(self, max_new_tokens: int) -> Any:
        """Give the configuration for transformers: greedy, since each row has sampled already."""
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
        self._model = self._tokenizer = None
        self._free()

    def _free(self) -> None:
        gc.collect()
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()


def _load_options(loading: Loading) -> dict[str, Any]:
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
        how["device_map"] = "auto" if loading.device == "auto" else {"": _torch_device(loading.device)}
    elif loading.device == "auto" and torch.cuda.device_count() > 1 and find_spec("accelerate"):
        how["device_map"] = "auto"  # over all of them
    return how


def _torch_device(name: str) -> str:
    import torch

    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"

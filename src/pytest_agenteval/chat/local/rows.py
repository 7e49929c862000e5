"""The rows of a batch: each request's own way of choosing tokens, and its own end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.local.generation import Generation, GenerationRequest, Sampling


class ModelSampling:
    """How the model's own settings have it sampled."""

    def __init__(self, config: Any) -> None:
        sampled = bool(config.do_sample)
        self._temperature = (config.temperature or 1.0) if sampled else 0.0
        self._others = {name: getattr(config, name, None) for name in ("top_p", "top_k", "min_p")}
        self._penalty = getattr(config, "repetition_penalty", None)

    def fill(self, sampling: Sampling) -> Sampling:
        """Give the settings of a request, with the model's own where it says nothing."""
        own = {**self._others, "temperature": self._temperature, "repetition_penalty": self._penalty}
        unsaid = {name: value for name, value in own.items() if getattr(sampling, name) is None}
        return replace(sampling, **unsaid)


class Row:
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
        self.request, self.sampling, self._generator = request, sampling, generator
        self.left, self._longest, self._ends, self._decode = left, longest, ends, decode
        self.ended_at: int | None = None

    def choose(self, torch: Any, tokens: Any, scores: Any) -> Any:
        """Choose the next token by this row's own settings."""
        logits = scores.float()
        penalty = self.sampling.repetition_penalty
        if penalty and penalty != 1.0:
            seen = tokens[self.left :].unique()
            logits = logits.clone()
            logits[seen] = torch.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
        if not self.sampling.temperature:
            return logits.argmax()
        chances = _cut(torch, torch.softmax(logits / self.sampling.temperature, -1), self.sampling)
        return torch.multinomial(chances, 1, generator=self._generator)[0]

    def is_over(self, tokens: Any) -> bool:
        """Whether this row is at an end that is not one of the model's own."""
        if self.ended_at is None:
            count = len(tokens) - self._longest
            if count >= self.request.max_tokens or self.request.unwanted() or self._at_stop(tokens):
                self.ended_at = count
        return self.ended_at is not None

    def _at_stop(self, tokens: Any) -> bool:
        if not self.sampling.stop:
            return False
        # A token has at least a byte, mostly several: so many hold the longest text, and a letter cut in two.
        window = max(len(stop.encode()) for stop in self.sampling.stop) + 8
        tail = self._decode(tokens[self._longest :][-window:].tolist())
        return any(stop in tail for stop in self.sampling.stop)

    def generation(self, tokens: Sequence[int], seconds: float, first_token_s: float | None) -> Generation:
        """Give the reply, of which ``tokens`` may hold more than there is of it."""
        own = tokens[: self.ended_at]
        at = next((place for place, token in enumerate(own) if token in self._ends), None)
        written = own if at is None else own[:at]
        text = self._decode(written)
        stops = [text.index(stop) for stop in self.sampling.stop if stop in text]
        stopped = at is not None or bool(stops)
        return Generation(
            text=text[: min(stops)] if stops else text,
            tokens=len(own) if at is None else at + 1,
            finish="stop" if stopped else "length",
            seconds=seconds,
            first_token_s=first_token_s,
        )


def _cut(torch: Any, chances: Any, sampling: Sampling) -> Any:
    """Take out what is too unlikely; the likeliest always stays."""
    if not (sampling.top_k or sampling.top_p or sampling.min_p):
        return chances
    ordered, places = chances.sort(descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        keep[sampling.top_k :] = False
    if sampling.top_p is not None and sampling.top_p < 1:
        keep &= ordered.cumsum(-1) - ordered < sampling.top_p
    if sampling.min_p:
        keep &= ordered >= ordered[0] * sampling.min_p
    keep[0] = True
    return torch.zeros_like(chances).scatter(0, places, ordered * keep)


class RowChoosers:
    """Has each row choose its next token, and leaves transformers no other."""

    def __init__(self, rows: Sequence[Row], torch: Any) -> None:
        self._rows, self._torch = rows, torch

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Give scores in which nothing but the chosen tokens is possible."""
        chosen = [
            row.choose(self._torch, ids, own)
            for row, ids, own in zip(self._rows, input_ids, scores, strict=True)
        ]
        forced = self._torch.full_like(scores, float("-inf"))
        return forced.scatter(1, self._torch.stack(chosen)[:, None], 0.0)


class RowStops:
    """Ends each row where its own request ends, and notes when the first tokens came."""

    def __init__(self, rows: Sequence[Row], longest: int, torch: Any) -> None:
        self._rows, self._longest, self._torch = rows, longest, torch
        self.first_at: float | None = None

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Say of each row whether it is over."""
        if self.first_at is None:
            self.first_at = time.perf_counter()
        over = [row.is_over(tokens) for row, tokens in zip(self._rows, input_ids, strict=True)]
        return self._torch.tensor(over, device=input_ids.device)

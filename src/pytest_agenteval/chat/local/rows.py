"""The rows of a batch: each request's own way of choosing tokens, and its own end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.local.generation import Generation, GenerationRequest, Sampling

LEAST = 1e-30
"""A time that is taken for none."""


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
        self.request, self.sampling, self.generator = request, sampling, generator
        self.left, self._longest, self._ends, self._decode = left, longest, ends, decode
        self.ended_at: int | None = None

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


class RowChoosers:
    """Has each row choose its next token, and leaves transformers no other.

    A row's chance is its own generator's, whatever stands beside it. Each token waits for a time drawn
    from the exponential distribution with its chance p as the rate: token i is the first with the chance p_i.
    """

    def __init__(self, rows: Sequence[Row], torch: Any, device: Any) -> None:
        self._rows, self._torch, self._device = rows, torch, device
        # What a row does not want is given as what cuts nothing.
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
        """Give scores in which nothing but the chosen tokens is possible."""
        logits = self._penalized(input_ids, scores.float())
        chances = self._torch.softmax(logits / self._temperature, -1)
        if self._cuts:
            chances = self._without_unlikely(chances)
        drawn = self._torch.ones_like(chances)
        for place, row in enumerate(self._rows):
            if row.sampling.temperature:
                drawn[place].exponential_(generator=row.generator)
        sampled = (chances / drawn.clamp(min=LEAST)).argmax(-1, keepdim=True)
        chosen = self._torch.where(self._greedy, logits.argmax(-1, keepdim=True), sampled)
        return self._torch.full_like(scores, float("-inf")).scatter(1, chosen, 0.0)

    def _penalized(self, input_ids: Any, logits: Any) -> Any:
        """Make what a row has already said, or was told, less likely, where it wants that."""
        for place, row in enumerate(self._rows):
            penalty = row.sampling.repetition_penalty
            if penalty and penalty != 1.0:
                seen = input_ids[place, row.left :].unique()
                own = logits[place, seen]
                logits[place, seen] = self._torch.where(own > 0, own / penalty, own * penalty)
        return logits

    def _without_unlikely(self, chances: Any) -> Any:
        """Take out what is too unlikely for its row; the likeliest always stays."""
        torch = self._torch
        ordered, places = chances.sort(-1, descending=True)
        keep = torch.arange(ordered.shape[-1], device=ordered.device) < self._top_k
        keep &= ordered.cumsum(-1) - ordered < self._top_p
        keep &= ordered >= ordered[:, :1] * self._min_p
        keep[:, 0] = True
        return torch.zeros_like(chances).scatter(1, places, ordered * keep)


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

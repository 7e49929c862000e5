"""What is asked of a model in this process, and what it gives, in tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pytest_agenteval.records.record import FrozenValue


class OutOfMemory(Exception):
    """A single request took more memory than there is."""


class NoTemplate(Exception):
    """The model's tokenizer cannot write this conversation as a prompt."""


class Sampling(FrozenValue, frozen=True):
    """How tokens are chosen; None leaves it to what the model itself says.

    A ``temperature`` of 0 takes the likeliest. Without a ``seed`` each reply is another. ``stop`` are texts
    before which a reply ends.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


class Prompt(FrozenValue, frozen=True):
    """A conversation as tokens, and the last of its text, which may be the beginning of the reply."""

    tokens: tuple[int, ...]
    end: str


@dataclass(slots=True, eq=False)
class GenerationRequest:
    """One reply to be generated; ``unwanted`` is asked before each token, and ends it."""

    prompt: Prompt
    sampling: Sampling
    max_tokens: int
    unwanted: Callable[[], bool] = lambda: False


class Generation(FrozenValue, frozen=True):
    """One reply as it was generated.

    ``text`` has the special tokens in it, but for the one that ended it. ``tokens`` counts that one too.
    ``seconds`` are those of the whole batch, ``first_token_s`` those to the first token.
    """

    text: str
    tokens: int
    finish: Literal["stop", "length"]
    seconds: float
    first_token_s: float | None = None


class LoadedModel(Protocol):
    """A model that is in memory; ``description`` has its device, dtype and quantization."""

    description: Mapping[str, str]
    context: int
    max_new_tokens: int | None

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        template_kwargs: Mapping[str, Any],
    ) -> Prompt:
        """Write a conversation as the model's own template does; raises NoTemplate where that cannot be."""
        ...

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Generate all replies side by side; raises OutOfMemory."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        ...

    def close(self) -> None:
        """Let go of the memory."""
        ...

"""A model of some thousand parameters, with a tokenizer of bytes and a template that takes tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

SPECIAL = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")

TEMPLATE = """
{%- if tools %}<|im_start|>tools
{%- for tool in tools %} {{ tool.function.name }}{% endfor %}<|im_end|>{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{%- set call = call.function -%}
<tool_call>{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}</tool_call>
{%- endfor -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{{ "/no_think" if enable_thinking is false else "" }}{%- endif -%}
"""

PLAIN_TEMPLATE = """
{%- for message in messages -%}
{%- if message.role not in ("user", "assistant") -%}{{ raise_exception("a role that is not known") }}
{%- elif (message.role == "assistant") != (loop.index0 % 2 == 1) -%}{{ raise_exception("not in turn") }}
{%- endif -%}
[{{ message.role }}]{{ message.content }}
{%- endfor -%}
"""
"""Of a family that knows neither tools nor system messages, and takes user and assistant in turn."""


def save_tiny_model(
    folder: Path,
    *,
    template: str | None = TEMPLATE,
    context: int = 2048,
    seed: int = 0,
    config: Mapping[str, Any] = MappingProxyType({}),
    replies: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[str], str]] = (),
) -> Path:
    """Save such a model as any of the hub's is saved; the same seed gives the same weights.

    ``config`` is what is to be otherwise in its shape. Of ``replies``, each a conversation, names of tools
    and what comes next, it is taught to give that reply.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(template)
    torch.manual_seed(seed)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 48 if replies else 16,
        "intermediate_size": 96 if replies else 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": context,
        "bos_token_id": None,
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        "pad_token_id": None,
        # So wide that what comes next depends on what came before.
        "initializer_range": 0.05 if replies else 1.0,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**shape, **config}))
    if replies:
        _teach(model, tokenizer, replies)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _teach(model: Any, tokenizer: Any, replies: Sequence[tuple[Any, Any, str]]) -> None:
    import torch

    examples = []
    for messages, tools, reply in replies:
        declared = [{"type": "function", "function": {"name": name}} for name in tools]
        written = tokenizer.apply_chat_template(messages, tools=declared or None, add_generation_prompt=True)
        prompt = list(written["input_ids"])
        answer = tokenizer.encode(f"{reply}<|im_end|>", add_special_tokens=False)
        examples.append((torch.tensor([prompt + answer]), torch.tensor([[-100] * len(prompt) + answer])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(400):
        loss = sum(model(input_ids=ids, labels=labels).loss for ids, labels in examples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.01:
            break


def _tokenizer(template: str | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL)})
    tokenizer.chat_template = template
    return tokenizer

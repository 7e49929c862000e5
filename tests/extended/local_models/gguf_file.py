"""The tiny model in llama.cpp's file format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def write_gguf(folder: Path, file: Path) -> Path:
    """Write the model of a folder, with its tokenizer and chat template, as one file."""
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    writer = gguf.GGUFWriter(file, "llama")
    _write_shape(writer, model.config)
    _write_tokenizer(writer, tokenizer, model.config.vocab_size)
    for name, tensor in model.state_dict().items():
        place = name.removesuffix(".weight")
        writer.add_tensor(f"{_named(place)}.weight", _ordered(place, tensor.float().numpy(), model.config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _write_shape(writer: Any, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(0)


def _write_tokenizer(writer: Any, tokenizer: Any, size: int) -> None:
    tokens = [tokenizer.convert_ids_to_tokens(place) for place in range(size)]
    control, normal = 3, 1
    special = set(tokenizer.all_special_tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in special else normal for token in tokens])
    writer.add_token_merges([f"{tokens[0]} {tokens[1]}"])  # it takes no empty list
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)
    # A switch for thoughts would have it take all that is said for one.
    template = tokenizer.chat_template.replace('"/no_think" if enable_thinking is false else ""', '""')
    writer.add_chat_template(template)


def _named(place: str) -> str:
    if place in WHOLE:
        return WHOLE[place]
    _, _, number, part = place.split(".", 3)
    return f"blk.{number}.{LAYER[part]}"


def _ordered(place: str, values: Any, config: Any) -> Any:
    """Give weights in llama.cpp's order: it turns neighbours where transformers turns halves."""
    import numpy

    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(place.rpartition(".")[2])
    if count:
        halves = values.reshape(count, 2, values.shape[0] // count // 2, values.shape[1])
        values = halves.swapaxes(1, 2).reshape(values.shape)
    return numpy.ascontiguousarray(values)

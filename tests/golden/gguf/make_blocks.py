"""Writes blocks.gguf: a random Llama with the tokenizer of llama.gguf, whose matrices are in blocks. Layer 0 is in Q4_0, layer 1 in
Q4_1, except its values, the table and the output: Q8_0.

    pip install gguf==0.19.0; python make_blocks.py
"""
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
DIM, FF, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 64, 96, 4, 2, 16, 2
TYPES = gguf.GGMLQuantizationType


def type_of(name):
    if name.startswith("blk.0."):
        return TYPES.Q4_0
    return TYPES.Q8_0 if "blk." not in name or name == "blk.1.attn_v.weight" else TYPES.Q4_1


def main():
    kept = gguf.GGUFReader(HERE / "llama.gguf").fields
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FF)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    for name, add in (("model", writer.add_tokenizer_model), ("pre", writer.add_tokenizer_pre), ("tokens", writer.add_token_list),
                      ("token_type", writer.add_token_types), ("merges", writer.add_token_merges),
                      ("bos_token_id", writer.add_bos_token_id), ("eos_token_id", writer.add_eos_token_id)):
        add(kept[f"tokenizer.ggml.{name}"].contents())
    vocab = len(kept["tokenizer.ggml.tokens"].contents())
    shapes = {"token_embd.weight": (vocab, DIM), "output.weight": (vocab, DIM), "output_norm.weight": (DIM,)}
    for layer in range(LAYERS):
        for name, shape in (("attn_norm", (DIM,)), ("attn_q", (HEADS * HEAD_DIM, DIM)), ("attn_k", (KV_HEADS * HEAD_DIM, DIM)),
                            ("attn_v", (KV_HEADS * HEAD_DIM, DIM)), ("attn_output", (DIM, HEADS * HEAD_DIM)), ("ffn_norm", (DIM,)),
                            ("ffn_gate", (FF, DIM)), ("ffn_up", (FF, DIM)), ("ffn_down", (DIM, FF))):
            shapes[f"blk.{layer}.{name}.weight"] = shape
    random = np.random.default_rng(5)
    for name, shape in shapes.items():
        values = random.normal(0, 0.3, shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, type_of(name)), raw_dtype=type_of(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()

"""Writes small models and tokenizers as GGUF, and what transformers, tokenizers and sentencepiece say of them:

    pip install gguf==0.19.0 transformers==5.23.0 tokenizers==0.23.3 sentencepiece==0.2.3 torch; python make_models.py

KIND.gguf (llama, qwen2, qwen3) is a random model of that kind with the weights of KIND.safetensors, which transformers saved,
and with a byte-level tokenizer; sentence_piece.gguf a tokenizer that sentencepiece learned. KIND.json has texts, the ids that
the reference gives them, and the text of these.
"""
import io
import json
import pathlib
import sys

import gguf
import numpy as np
import safetensors.torch
import sentencepiece
import torch
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
ALL_TEXTS = json.loads((HERE / "../tokenizer/texts.json").read_text())
TEXTS = ALL_TEXTS[:60] + ["", " ", "a  b", "  a", "12345 67", "I'm 'S\u017f it's", "x\n\n y\r\n", "<|im_start|>user\nhi<|im_end|> a"]
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TYPES = gguf.TokenType


def bytes_after(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


KINDS = {  # name in GGUF of the pre-tokenizer, pre-tokenizer, normalizer
    "llama": ("smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)]), None),
    "qwen2": ("qwen2", bytes_after(pre_tokenizers.Split(Regex(GPT4.replace("{1,3}", "")), "isolated")), normalizers.NFC()),
    "qwen3": ("llama-bpe", bytes_after(pre_tokenizers.Split(Regex(GPT4), "isolated")), None),
    "gpt2": ("gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False), None),
}


def byte_level(kind):
    name, pre_tokenizer, normalizer = KINDS[kind]
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=285, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([t for t in ALL_TEXTS[:40] if t.isascii()], trainer)
    tokenizer.add_tokens([AddedToken("user", normalized=False, special=False)])
    if name == "llama-bpe":
        tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    return tokenizer


def add_byte_level(writer, kind, tokenizer):
    content = json.loads(tokenizer.to_str())
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(KINDS[kind][0])
    writer.add_token_list(tokens)
    writer.add_token_types([TYPES.CONTROL if t in SPECIAL else TYPES.USER_DEFINED if t == "user" else TYPES.NORMAL for t in tokens])
    writer.add_token_merges([" ".join(pair) for pair in content["model"]["merges"]])
    writer.add_bos_token_id(0 if kind == "qwen3" else 1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>\n{% endfor %}")
    return tokens


def expect(name, encode, decode, texts=TEXTS):
    ids = [encode(text) for text in texts]
    content = {"texts": texts, "ids": ids, "decoded": [decode(i) for i in ids]}
    (HERE / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="ascii")


# As convert_hf_to_gguf.py of llama.cpp has it.
def permute(weights, heads):
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    stem, last = name.rsplit(".", 1)
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{last}"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.{last}"


def write_model(kind):
    tokenizer = byte_level(kind)
    heads, kv_heads, head_dim = (4, 2, 8 if kind == "qwen3" else 4)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=tokenizer.get_vocab_size(), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=64,
        rms_norm_eps=1e-5, tie_word_embeddings=kind != "qwen2")
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.5)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()
               if not (name == "lm_head.weight" and config.tie_word_embeddings)}
    safetensors.torch.save_file(weights, HERE / f"{kind}.safetensors", {"format": "pt"})
    writer = gguf.GGUFWriter(HERE / f"{kind}.gguf", kind)
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_block_count(2)
    writer.add_feed_forward_length(24)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50000.0)
    if kind == "qwen3":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    add_byte_level(writer, kind, tokenizer)
    for name, value in weights.items():
        value = value.numpy()
        if kind == "llama" and (".q_proj." in name or ".k_proj." in name):
            value = permute(value, heads if ".q_proj." in name else kv_heads)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(value))
    finish(writer)
    expect(kind, lambda text: tokenizer.encode(text).ids, tokenizer.decode)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_sentence_piece():
    learned = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([t for t in ALL_TEXTS[:40] if t and t.isascii()] * 3), model_writer=learned, vocab_size=420,
        model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        split_digits=True, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(learned.getvalue())
    writer = gguf.GGUFWriter(HERE / "sentence_piece.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([piece.piece for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([piece.type for piece in proto.pieces])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    finish(writer)
    processor = sentencepiece.SentencePieceProcessor(model_proto=learned.getvalue())
    texts = [text for text in TEXTS if "\0" not in text and "\u2581" not in text]  # sentencepiece gives these other tokens
    expect("sentence_piece", lambda text: [1, *processor.encode(text)], lambda ids: processor.decode(ids[1:]), texts)


def main():
    for kind in ["llama", "qwen2", "qwen3"]:
        write_model(kind)
    writer = gguf.GGUFWriter(HERE / "gpt2.gguf", "gpt2")
    tokenizer = byte_level("gpt2")
    add_byte_level(writer, "gpt2", tokenizer)
    finish(writer)
    expect("gpt2", lambda text: tokenizer.encode(text).ids, tokenizer.decode)
    write_sentence_piece()


main()

"""Makes what transformers 5 on torch 2.15 says about encoders that open as a BERT: a folder with random weights for each
kind, and KIND.safetensors: a ragged batch (ids, offsets) and out, out_f64, the last hidden states [tokens, 12] in float32
and in float64. Every sequence is computed alone, so that nothing is padded; tokens of the padding's id stand in it as others.
distilbert/ is written in shards. roberta/ has a tokenizer.json, of the byte-level scheme of RoBERTa's, mpnet/ one of
MPNet's word pieces, xlm_roberta/ one of XLM-RoBERTa's unigrams behind the rules of ../tokenizer/precompiled.json, and
KIND_embed.json has the texts, their ids and their embeddings: the mean over tokens.
"""

import base64
import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (DistilBertConfig, DistilBertForMaskedLM, MPNetConfig, MPNetForMaskedLM, MPNetModel, MPNetTokenizer,
                          PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM, RobertaModel, XLMRobertaConfig,
                          XLMRobertaForMaskedLM, XLMRobertaModel)

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

TEXTS = ["The cat sat on the mat.", "A cat was sitting on a mat", "Quantum  chromodynamics\tis hard.", "", " caf\u00e9 \u4f60\u597d!",
         "Fill the <mask> here", "one<pad>two", "cat"]


SCRIPTS = [*TEXTS, "\u041f\u0440\u0438\u0432\u0435\u0442,  \u043c\u0438\u0440!", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0650\u0643",
           "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e20\u0e32\u0e29\u0e32\u0e33", "\u4f60\u597d\u4e16\u754c\u3000\uff21\u3000\uff21",
           "\U0001f468\u200d\U0001f469 \U0001f600", "e\u0301 a\u0308 o\u0308\u0301", "\u0001\u007f\u00a0\ufeff\u200b", "x" + " " * 40 + "y",
           "\ufb03 \u2460 \u1100\u1161\u11a8", "<mask> </s><s>", "\u2581\u2581a"]


def randomise(model, generator):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@torch.inference_mode()
def hidden(model, sequences):
    return torch.cat([model(input_ids=ids[None]).last_hidden_state[0] for ids in sequences]).clone()


def write(kind, model, base, vocab, generator, shard, lengths=(5, 1, 16, 9)):
    model.save_pretrained(here / kind, max_shard_size=shard)
    (here / kind / "generation_config.json").unlink(missing_ok=True)
    sequences = [torch.randint(vocab, (n,), generator=generator) for n in lengths]
    sequences[3][4] = sequences[3][8] = 1
    out = hidden(base, sequences)
    model.double()
    save_file({"ids": torch.cat(sequences).int(), "offsets": torch.tensor([0, *lengths]).cumsum(0).int(), "out": out,
               "out_f64": hidden(base, sequences)}, here / f"{kind}.safetensors")
    model.float()


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(
        vocab_size=289, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def write_embeddings(kind, model, texts=TEXTS):
    fast = PreTrainedTokenizerFast(tokenizer_file=str(here / kind / "tokenizer.json"))
    base = model.from_pretrained(here / kind).eval()
    rows = []
    for text in texts:
        mean = hidden(base, [torch.tensor(fast(text)["input_ids"])]).mean(0)
        rows.append([round(x, 9) for x in mean.tolist()])
    content = {"texts": texts, "ids": [fast(text)["input_ids"] for text in texts], "embeddings": rows}
    (here / f"{kind}_embed.json").write_text(json.dumps(content, indent=0) + "\n", encoding="ascii")


def make_roberta():
    generator = torch.Generator().manual_seed(20261123)
    tokenizer = byte_level()
    vocab = tokenizer.get_vocab_size()
    config = RobertaConfig(vocab_size=vocab, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                           max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5)
    model = randomise(RobertaForMaskedLM(config), generator)
    write("roberta", model, model.roberta, vocab, generator, "1GB")
    tokenizer.save(str(here / "roberta" / "tokenizer.json"))
    write_embeddings("roberta", RobertaModel)


def make_distilbert():
    generator = torch.Generator().manual_seed(20261124)
    config = DistilBertConfig(vocab_size=30, dim=12, n_layers=2, n_heads=3, hidden_dim=20, max_position_embeddings=16,
                              activation="relu")
    model = randomise(DistilBertForMaskedLM(config), generator)
    write("distilbert", model, model.distilbert, 30, generator, "5KB")


# Texts beyond the distance of 128 from which on all keys share a bucket.
def make_mpnet():
    generator = torch.Generator().manual_seed(20261125)
    words = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz.!", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
             "the", "cat", "sat", "on", "mat", "##ting", "##um", "one", "two", "fill", "here", "\u4f60", "[UNK]", "<mask>"]
    tokenizer = MPNetTokenizer(vocab={word: i for i, word in enumerate(words)})
    config = MPNetConfig(vocab_size=len(words), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                         max_position_embeddings=202, layer_norm_eps=1e-5)
    model = randomise(MPNetForMaskedLM(config), generator)
    write("mpnet", model, model.mpnet, len(words), generator, "1GB", (5, 1, 170, 9))
    tokenizer.backend_tokenizer.save(str(here / "mpnet" / "tokenizer.json"))
    write_embeddings("mpnet", MPNetModel)


def unigrams():
    rules = json.loads((here.parent / "tokenizer" / "precompiled.json").read_text())["charsmap"]
    normalizer = normalizers.Sequence([normalizers.Precompiled(base64.b64decode(rules)), normalizers.Replace(Regex(" {2,}"), " ")])
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = {}  # all but the first and the last text, whose characters are unknown
    for text in SCRIPTS[1:-1]:
        for word in normalizer.normalize_str(text).split():
            word = "\u2581" + word
            pieces.update((word[i:j], -2.5 * (j - i) ** 0.5 - (7 * i + 3 * j) % 11 / 8) for j in (1, 2, 3, 5, 6) for i in range(j))
            pieces.update((c, -6 - ord(c) % 13 / 4) for c in word)
    pieces = {piece: score for piece, score in pieces.items() if piece and piece not in [*special, "<mask>"]}
    tokenizer = Tokenizer(models.Unigram([*((token, 0.0) for token in special), *pieces.items(), ("<mask>", 0.0)], 3))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def make_xlm_roberta():
    generator = torch.Generator().manual_seed(20261126)
    tokenizer = unigrams()
    vocab = tokenizer.get_vocab_size()
    config = XLMRobertaConfig(vocab_size=vocab, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                              max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5)
    model = randomise(XLMRobertaForMaskedLM(config), generator)
    write("xlm_roberta", model, model.roberta, vocab, generator, "1GB")
    tokenizer.save(str(here / "xlm_roberta" / "tokenizer.json"), pretty=False)
    write_embeddings("xlm_roberta", XLMRobertaModel, SCRIPTS)


make_roberta()
make_distilbert()
make_mpnet()
make_xlm_roberta()

"""Makes what transformers 5 on torch 2.15 says about encoders that open as a BERT: a folder with random weights for each
kind, and KIND.safetensors: a ragged batch (ids, offsets) and out, out_f64, the last hidden states [tokens, 12] in float32
and in float64. Every sequence is computed alone, so that nothing is padded; tokens of the padding's id stand in it as others.
distilbert/ is written in shards. roberta/ has a tokenizer.json, of the byte-level scheme of RoBERTa's, mpnet/ one of
MPNet's word pieces, and roberta_embed.json and mpnet_embed.json have the texts, their ids and their embeddings: the mean
over tokens.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (DistilBertConfig, DistilBertForMaskedLM, MPNetConfig, MPNetForMaskedLM, MPNetModel, MPNetTokenizer,
                          PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM, RobertaModel)

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

TEXTS = ["The cat sat on the mat.", "A cat was sitting on a mat", "Quantum  chromodynamics\tis hard.", "", " caf\u00e9 \u4f60\u597d!",
         "Fill the <mask> here", "one<pad>two", "cat"]


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


def write_embeddings(kind, model):
    fast = PreTrainedTokenizerFast(tokenizer_file=str(here / kind / "tokenizer.json"))
    base = model.from_pretrained(here / kind).eval()
    rows = []
    for text in TEXTS:
        mean = hidden(base, [torch.tensor(fast(text)["input_ids"])]).mean(0)
        rows.append([round(x, 9) for x in mean.tolist()])
    content = {"texts": TEXTS, "ids": [fast(text)["input_ids"] for text in TEXTS], "embeddings": rows}
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


make_roberta()
make_distilbert()
make_mpnet()

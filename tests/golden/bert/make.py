"""Makes what transformers 5 on torch 2.15 says about BERT models.

    python make.py                    tiny/: a folder with random weights, and tiny.safetensors: what it computes
    python make.py MINILM             minilm.safetensors: embeddings of the sentences in sentences.txt
    python make.py MINILM TEXTS OUT   the same for the JSON array of strings TEXTS, and all hidden states, for the slow test

tiny.safetensors holds a ragged batch (ids, types, offsets) and out, out_f64, the last hidden states [tokens, 12] in float32
and in float64. The others hold embeddings [texts, 384], mean over tokens and length 1, and hidden, the last hidden states
of the first text's tokens (of all texts' for OUT). Every sequence is computed alone, so that nothing is padded.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__


def make_tiny():
    generator = torch.Generator().manual_seed(20261121)
    config = BertConfig(vocab_size=30, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                        max_position_embeddings=16, type_vocab_size=2)
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    (here / "tiny").mkdir(exist_ok=True)
    model.save_pretrained(here / "tiny")
    (here / "tiny" / "generation_config.json").unlink(missing_ok=True)
    lengths = [5, 1, 16, 9]
    ids = [torch.randint(30, (n,), generator=generator) for n in lengths]
    types = [(torch.arange(n) > n // 2).long() for n in lengths]

    @torch.inference_mode()
    def hidden():
        return torch.cat([model.bert(input_ids=i[None], token_type_ids=t[None]).last_hidden_state[0]
                          for i, t in zip(ids, types)]).clone()

    out = hidden()
    model.double()
    save_file({"ids": torch.cat(ids).int(), "types": torch.cat(types).int(),
               "offsets": torch.tensor([0] + lengths).cumsum(0).int(), "out": out, "out_f64": hidden()},
              here / "tiny.safetensors")


@torch.inference_mode()
def embed(folder, texts, path, hidden_texts):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    hidden = [model(**tokenizer(text, truncation=True, max_length=256, return_tensors="pt")).last_hidden_state[0]
              for text in texts]
    embeddings = torch.nn.functional.normalize(torch.stack([rows.mean(0) for rows in hidden]), dim=1)
    save_file({"embeddings": embeddings, "hidden": torch.cat(hidden[:hidden_texts])}, path)


if len(sys.argv) == 1:
    make_tiny()
elif len(sys.argv) == 2:
    sentences = (here / "sentences.txt").read_text("utf-8").removesuffix("\n").split("\n")
    embed(sys.argv[1], sentences, here / "minilm.safetensors", 1)
else:
    texts = json.loads(pathlib.Path(sys.argv[2]).read_text("utf-8"))
    embed(sys.argv[1], texts, sys.argv[3], len(texts))

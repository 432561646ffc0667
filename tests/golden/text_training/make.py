"""Makes what torch 2.15 in double says of 20 steps of gradient descent on small encoders of transformers 5 with a head.

    python make.py [NAME...]

NAME/              a folder as save_pretrained writes it
NAME.safetensors   a ragged batch (ids, types, offsets) with labels, -1 where there is none, or with targets, a row for each
                   sequence, of several labels or of regression; rate [1]; losses [20], the mean over the labels or the
                   sequences, of targets transformers' own, each before its step; and after/NAME, the weights in the end, under transformers' names
Every sequence is computed alone, so that nothing is padded. Plain gradient descent, as Adam hides the size of a gradient.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

STEPS = 20
LENGTHS = [5, 2, 14, 9]
ALL = dict(vocab_size=30, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
           max_position_embeddings=18, pad_token_id=1, num_labels=3)
SIZES = dict(**ALL, hidden_act="gelu", layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
# Layers: whole, two with windows of 3 tokens to both sides, whole.
MODERN = ALL | dict(num_hidden_layers=4, hidden_activation="gelu", local_attention=6, classifier_pooling="mean", eos_token_id=2,
                    bos_token_id=0, cls_token_id=0, sep_token_id=2)
ALBERT = SIZES | dict(num_hidden_layers=3, embedding_size=7, type_vocab_size=2, classifier_dropout_prob=0.0)
CASES = {
    "bert": (transformers.BertConfig(**SIZES, type_vocab_size=2), "BertForSequenceClassification"),
    "bert_tokens": (transformers.BertConfig(**SIZES, type_vocab_size=2), "BertForTokenClassification"),
    "bert_masked": (transformers.BertConfig(**SIZES, type_vocab_size=2), "BertForMaskedLM"),
    "bert_several": (transformers.BertConfig(**SIZES, type_vocab_size=2, problem_type="multi_label_classification"),
                     "BertForSequenceClassification"),
    "bert_number": (transformers.BertConfig(**SIZES | dict(num_labels=1), type_vocab_size=2, problem_type="regression"),
                    "BertForSequenceClassification"),
    "roberta": (transformers.RobertaConfig(**SIZES, type_vocab_size=1), "RobertaForSequenceClassification"),
    "mpnet": (transformers.MPNetConfig(**SIZES), "MPNetForSequenceClassification"),
    "distilbert": (transformers.DistilBertConfig(vocab_size=30, dim=12, n_layers=2, n_heads=3, hidden_dim=20,
                                                 max_position_embeddings=18, activation="gelu", pad_token_id=1,
                                                 num_labels=3, dropout=0.0, attention_dropout=0.0,
                                                 seq_classif_dropout=0.0), "DistilBertForSequenceClassification"),
    "modernbert": (transformers.ModernBertConfig(**MODERN), "ModernBertForSequenceClassification"),
    "modernbert_masked": (transformers.ModernBertConfig(**MODERN), "ModernBertForMaskedLM"),
    "albert": (transformers.AlbertConfig(**ALBERT), "AlbertForSequenceClassification"),
    "albert_masked": (transformers.AlbertConfig(**ALBERT), "AlbertForMaskedLM"),
}

TARGETS = {"bert_several": torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]]), "bert_number": torch.tensor([[0.5], [-1], [2], [0.25]])}

for name, (config, kind) in CASES.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    torch.manual_seed(11)
    model = getattr(transformers, kind)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    model.eval().save_pretrained(here / name)
    model = model.double()
    sequences = [torch.randint(2, 30, (n,)) for n in LENGTHS]
    types = [(torch.arange(n) > n // 2).long() if name.startswith(("bert", "albert")) else torch.zeros(n).long() for n in LENGTHS]
    tokens, targets = "_" in name, TARGETS.get(name)
    most = 30 if "masked" in name else 3
    labels = [torch.randint(-1, most, (n,)) if tokens else torch.tensor([i % 3])
              for i, n in enumerate(LENGTHS)]
    # At 0.03 the losses of a shared layer, whose gradients are those of all its uses, rise and fall, which magnifies rounding.
    rate = 0.01 if name.startswith("albert") else 0.03
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    count = sum((each >= 0).sum() for each in labels) if targets is None else len(LENGTHS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0
        for i, (ids, own, label) in enumerate(zip(sequences, types, labels)):
            inputs = {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}
            if name.startswith(("bert", "albert")):
                inputs["token_type_ids"] = own[None]
            if targets is not None:
                loss = loss + model(**inputs, labels=targets[i:i + 1].double()).loss
                continue
            logits = model(**inputs).logits
            logits = logits[0] if tokens else logits
            loss = loss + torch.nn.functional.cross_entropy(logits, label, ignore_index=-1, reduction="sum")
        loss = loss / count
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    save_file({"ids": torch.cat(sequences).int(), "types": torch.cat(types).int(),
               **({"labels": torch.cat(labels).int()} if targets is None else {"targets": targets}),
               "offsets": torch.tensor([0, *LENGTHS]).cumsum(0).int(),
               "losses": torch.tensor(losses, dtype=torch.float64), "rate": torch.tensor([rate], dtype=torch.float64),
               **{f"after/{key}": value.detach().float().contiguous() for key, value in model.named_parameters()}},
              here / f"{name}.safetensors")
    print(name, losses[0], losses[-1])

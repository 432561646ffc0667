"""Makes what transformers 5 on torch 2.15 says about the heads of encoders, of random weights.

KIND_N.safetensors, for three shapes of each kind, holds the encoder's weights under transformers' names; of each task its
head's as TASK/NAME, the ids, types and offsets of a ragged batch, and TASK/out and TASK/out_f64, the logits. configs.json
has the config of each. Every sequence is computed alone; padded on the right with a mask the logits are the same, and on
the left those of the tasks with logits for each token, where the class takes positions (not DistilBERT): both is asserted here.
Of ModernBERT, whose windows here are of 4 tokens or 10 and whose third shape pools the mean, also hidden/out and hidden/out_f64, the
last hidden states.
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

SHAPES = [dict(dim=12, layers=2, heads=3, ff=20, vocab=30, act="gelu"), dict(dim=8, layers=1, heads=2, ff=12, vocab=23, act="relu"),
          dict(dim=16, layers=3, heads=4, ff=24, vocab=40, act="gelu")]
TASKS = {"masked_word": ("MaskedLM", None), "sequence_class": ("SequenceClassification", 3), "pair_score": ("SequenceClassification", 1),
         "token_class": ("TokenClassification", 5), "answer": ("QuestionAnswering", 2)}
KINDS = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "distilbert": "DistilBert", "mpnet": "MPNet",
         "modernbert": "ModernBert", "albert": "Albert"}
LENGTHS = [5, 2, 14, 9]
MODERN_LENGTHS = [5, 2, 60, 9]


def config_of(kind, shape, labels):
    sizes = dict(vocab_size=shape["vocab"], pad_token_id=1, num_labels=labels or 2)
    if kind == "distilbert":
        sizes |= dict(dim=shape["dim"], n_layers=shape["layers"], n_heads=shape["heads"], hidden_dim=shape["ff"],
                      max_position_embeddings=18, activation=shape["act"])
    elif kind == "modernbert":
        sizes |= dict(hidden_size=shape["dim"], num_hidden_layers=shape["layers"] + 2, num_attention_heads=shape["heads"],
                      intermediate_size=shape["ff"], max_position_embeddings=64, hidden_activation=shape["act"],
                      local_attention=10 if shape["dim"] == 12 else 4, classifier_pooling="mean" if shape["dim"] == 16 else "cls",
                      eos_token_id=2, bos_token_id=0, cls_token_id=0, sep_token_id=2)
    else:
        sizes |= dict(hidden_size=shape["dim"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
                      intermediate_size=shape["ff"], max_position_embeddings=18, hidden_act=shape["act"], layer_norm_eps=1e-5)
    if kind in ("bert", "albert"):
        sizes |= dict(type_vocab_size=2)
    if kind == "albert":
        sizes |= dict(embedding_size=shape["dim"] // 2 + 1)
    elif kind in ("roberta", "xlm-roberta"):
        sizes |= dict(type_vocab_size=1)
    return getattr(transformers, KINDS[kind] + "Config")(**sizes)


# Those of the encoder first, so that a tied one has its name.
def parameters_of(model, prefix):
    named = sorted(model.named_parameters(remove_duplicate=False), key=lambda each: not each[0].startswith(prefix))
    return {key: value for i, (key, value) in enumerate(named) if not any(value is other for _, other in named[:i])}


@torch.inference_mode()
def logits(model, kind, ids, types, pad=(0, 0)):
    inputs = {"input_ids": torch.nn.functional.pad(ids, pad, value=1)[None],
              "attention_mask": torch.nn.functional.pad(torch.ones_like(ids), pad)[None]}
    if kind in ("bert", "albert"):
        inputs["token_type_ids"] = torch.nn.functional.pad(types, pad)[None]
        inputs["position_ids"] = torch.nn.functional.pad(torch.arange(len(ids)), pad)[None]
    out = model(**inputs)
    rows = out.logits if "logits" in out else torch.stack([out.start_logits, out.end_logits], -1)
    if rows.dim() == 3:
        rows = rows[0, pad[0]:pad[0] + len(ids)]
    return rows.clone()


def make(kind, number, shape, configs):
    generator = torch.Generator().manual_seed(20261127 + number)
    tensors, base = {}, None
    # No id of padding: RoBERTa's has a position of its own, of which golden/encoders speaks.
    lengths = MODERN_LENGTHS if kind == "modernbert" else LENGTHS
    sequences = [torch.randint(2, shape["vocab"], (n,), generator=generator) for n in lengths]
    types = [(torch.arange(n) > n // 2).long() if kind in ("bert", "albert") else torch.zeros(n).long() for n in lengths]
    tensors |= {"ids": torch.cat(sequences).int(), "types": torch.cat(types).int(),
                "offsets": torch.tensor([0, *lengths]).cumsum(0).int()}
    for task, (name, labels) in TASKS.items():
        config = config_of(kind, shape, labels)
        model = getattr(transformers, f"{KINDS[kind]}For{name}")(config).eval()
        prefix = model.base_model_prefix + "."
        state = parameters_of(model, prefix)
        with torch.no_grad():
            for key, parameter in state.items():
                if base is not None and key in base:
                    parameter.copy_(base[key])
                else:
                    parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
        weights = {key: value.detach().clone() for key, value in state.items() if key.startswith(prefix) and "pooler" not in key}
        base = base or weights
        tensors |= base
        tensors |= {f"{task}/{key}": value.detach().clone() for key, value in state.items() if key not in base}
        out = [logits(model, kind, *pair) for pair in zip(sequences, types)]
        for alone, *pair in zip(out, sequences, types):
            torch.testing.assert_close(logits(model, kind, *pair, (0, 3)), alone, rtol=1e-4, atol=1e-5)
            if kind != "distilbert" and name != "SequenceClassification":
                torch.testing.assert_close(logits(model, kind, *pair, (3, 0)), alone, rtol=1e-4, atol=1e-5)
        if kind == "modernbert" and base is weights:
            with torch.inference_mode():
                tensors["hidden/out"] = torch.cat([model.model(input_ids=ids[None]).last_hidden_state[0] for ids in sequences])
                model.double()
                tensors["hidden/out_f64"] = torch.cat([model.model(input_ids=ids[None]).last_hidden_state[0] for ids in sequences])
                model.float()
        model.double()
        tensors |= {f"{task}/out": torch.cat(out), f"{task}/out_f64": torch.cat([logits(model, kind, *p) for p in zip(sequences, types)])}
        entry = json.loads(config.to_json_string(use_diff=False))
        entry["architectures"] = [type(model).__name__]
        defaults = json.loads(transformers.PreTrainedConfig().to_json_string(use_diff=False))
        configs[f"{kind}_{number}/{task}"] = {
            k: v for k, v in entry.items() if k in ("architectures", "id2label", "tie_word_embeddings") or v != defaults.get(k, ...)}
    save_file(tensors, here / f"{kind}_{number}.safetensors")


all_configs = {}
for a_kind in KINDS:
    for a_number, a_shape in enumerate(SHAPES):
        make(a_kind, a_number, a_shape, all_configs)
(here / "configs.json").write_text(json.dumps(all_configs) + "\n", encoding="ascii")

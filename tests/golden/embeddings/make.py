"""Writes expected.json, model.safetensors and projection.safetensors: what sentence-transformers (6.2) makes of texts by
folders whose embeddings are sparse, one a token, or cut short. The config and the tokenizer are those of golden/fill.

python3 make.py; needs sentence-transformers, which brings transformers and torch.
"""

import json
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

HERE = pathlib.Path(__file__).resolve().parent
FILL = HERE.parent / "fill"
TEXTS = ["The cat sat on the mat.", "who?", "The dog sat. Who sat on the mat? The cat.", "mat mat"]
PROMPTS = {"query": "who ", "document": "the ", "title": "cat: "}
OWN = "config_sentence_transformers.json"
SPARSE = [
    {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
    {"path": "pool", "type": "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling"},
]
MASK = {"path": "mask", "type": "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask"}
NORM = {"path": "norm", "type": "sentence_transformers.base.modules.normalize.Normalize"}
DENSE = {"path": "dense", "type": "sentence_transformers.base.modules.dense.Dense"}
POOL = {"path": "pool", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"}
FIRST = {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
OLD = {"path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}
WORDS = {"sentence_bert_config.json": {"transformer_task": "fill-mask"}}
TOKENS = {"norm/config.json": {"module_input_name": "token_embeddings"}}


def splade(activation, **own):
    pooling = {"pooling_strategy": "max", "activation_function": activation, "embedding_dimension": 18}
    return {"modules.json": SPARSE, "pool/config.json": pooling, OWN: {"prompts": PROMPTS, "model_type": "SparseEncoder", **own}, **WORDS}


def colbert(*parts, dense=None, mask=None, transformer=None):
    files = {"modules.json": [FIRST, *parts, NORM], OWN: {"prompts": PROMPTS, "model_type": "MultiVectorEncoder"}, **TOKENS}
    if dense is not None:
        files["dense/config.json"] = {
            "in_features": 12, "out_features": 5, "bias": dense, "activation_function": "torch.nn.modules.linear.Identity",
            "module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
    if mask is not None:
        files["mask/config.json"] = mask
    if transformer is not None:
        files["sentence_bert_config.json"] = transformer
    return files


def expanded(strategy, attend, token=None):
    return {"query_expansion": {"strategy": strategy, "attend": attend, "token": token, "length": 9}}


NO_WORDS = {"skiplist_words": [], "skiplist_tasks": ["document"], "keep_only_token_ids": None}
POINTS = {"skiplist_words": [".", "?", "cat", "zebra"], "skiplist_tasks": ["document"]}
BOTH = {"skiplist_words": ["."], "skiplist_tasks": ["query", "document"]}
VECTOR = {"modules.json": [FIRST, POOL, NORM], "pool/config.json": {"embedding_dimension": 12, "pooling_mode": "mean"}, "norm/config.json": {}}
FOLDERS = {
    "sparse": splade("relu"),
    "sparse, twice": splade("log1p_relu"),
    "sparse, the largest": splade("relu", max_active_dims=3, default_prompt_name="title"),
    "sparse, of old": {**splade("relu"), "modules.json": [OLD, SPARSE[1]], "sentence_bert_config.json": {}},
    "tokens": colbert(),
    "tokens, projected": colbert(DENSE, MASK, dense=False, mask=NO_WORDS),
    "tokens, with a bias": colbert(DENSE, MASK, dense=True, mask=POINTS),
    "tokens, lengths": colbert(MASK, mask=BOTH, transformer={"query_length": 4, "document_length": 7}),
    "tokens, attended": colbert(DENSE, MASK, dense=False, mask=POINTS, transformer=expanded("fixed", True)),
    "tokens, not attended": colbert(DENSE, MASK, dense=False, mask=POINTS, transformer=expanded("fixed", False, "cat")),
    "tokens, at least": colbert(DENSE, MASK, dense=False, mask=NO_WORDS, transformer=expanded("min", False)),
    "vector": {**VECTOR, OWN: {"prompts": PROMPTS, "truncate_dim": 7}},
    "vector, not of length 1": {**VECTOR, "modules.json": [FIRST, POOL]},
}


def rounded(rows):
    return float(f"{rows:.7g}") if isinstance(rows, float) else [rounded(each) for each in rows]


def prepare(folder, files):
    for number, module in enumerate(files["modules.json"]):
        module |= {"idx": number, "name": str(number)}
    for file in (FILL / "config.json", FILL / "tokenizer.json", HERE / "model.safetensors"):
        shutil.copy(file, folder)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    if "dense/config.json" in files:
        bias = files["dense/config.json"]["bias"]
        save_file({k: v for k, v in PROJECTION.items() if bias or "bias" not in k}, folder / "dense/model.safetensors")


generator = torch.Generator().manual_seed(20261127)
PROJECTION = {"linear.weight": torch.randn((5, 12), generator=generator), "linear.bias": torch.randn(5, generator=generator)}
model = transformers.BertForMaskedLM(transformers.AutoConfig.from_pretrained(FILL))
with torch.no_grad():
    for name, parameter in model.named_parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2 + ("LayerNorm.weight" in name))
save_file({name: each.detach() for name, each in model.named_parameters()}, HERE / "model.safetensors")
save_file(PROJECTION, HERE / "projection.safetensors")

cases = []
for name, files in FOLDERS.items():
    kind = name.split(",")[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(folder, files)
        model = {"sparse": SparseEncoder, "tokens": MultiVectorEncoder, "vector": SentenceTransformer}[kind](str(folder), device="cpu")
        calls = []
        for role in ("text", "query", "document") if kind == "tokens" else ("text",):
            encode = {"text": model.encode, "query": model.encode_query, "document": model.encode_document}[role]
            for prompt in (None, "", "title") if kind != "vector" or OWN in files else (None, ""):
                if kind == "sparse":
                    for most in (None, 2):
                        found = encode(TEXTS, prompt_name=prompt or None, prompt=prompt if prompt == "" else None, max_active_dims=most)
                        calls.append({"role": role, "prompt": prompt, "dimensions": most, "rows": rounded(found.to_dense().tolist())})
                elif kind == "tokens":
                    found = encode(TEXTS, prompt_name=prompt or None, prompt=prompt if prompt == "" else None)
                    calls.append({"role": role, "prompt": prompt, "rows": [rounded(each.tolist()) for each in found]})
                else:
                    for most in (None, 5, 100):
                        for one in (False, True):
                            found = encode(TEXTS, prompt_name=prompt or None, prompt=prompt if prompt == "" else None,
                                           truncate_dim=most, normalize_embeddings=one)
                            calls.append({"role": role, "prompt": prompt, "dimensions": most, "normalize": one, "rows": rounded(found.tolist())})
        case = {"name": name, "kind": kind, "files": files, "calls": calls}
        if kind == "tokens":
            with_prompt = model.encode_query(TEXTS), model.encode_document(TEXTS)
            case["maxsim"] = model.similarity(*with_prompt).tolist()
        if kind == "sparse":
            found = model.encode(TEXTS)
            case["similarity"] = model.similarity(found, found).tolist()
            case["words"] = model.decode(found, top_k=3)
        cases.append(case)
(HERE / "expected.json").write_text(json.dumps({"texts": TEXTS, "cases": cases}) + "\n", encoding="ascii")

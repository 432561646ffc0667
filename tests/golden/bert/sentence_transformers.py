"""Writes sentence_transformers.json: embeddings of the tiny model in folders of sentence-transformers (6.2).

python3 sentence_transformers.py; needs sentence-transformers, which brings transformers and torch.
"""

import json
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.remove(str(HERE))  # this file has the name of the package
from sentence_transformers import SentenceTransformer  # noqa: E402

TEXTS = ["a b", "b a a b a b b a", "a"]
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "added_tokens": [{"id": 3, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True}],
    "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {"?": 0, "a": 1, "b": 2, "[PAD]": 3}}}
FILES = {
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "?",
                              "model_max_length": 6},
    "config_sentence_transformers.json": {"prompts": {"query": "b a "}, "default_prompt_name": "query"},
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "pool", "type": "sentence_transformers.models.Pooling"}]}
POOLING = {
    "cls, by name": {"embedding_dimension": 12, "pooling_mode": "cls", "include_prompt": True},
    "mean, by name": {"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": True},
    "cls, switched": {"word_embedding_dimension": 12, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
                      "pooling_mode_max_tokens": False},
    "mean, switched": {"word_embedding_dimension": 12, "pooling_mode_cls_token": False,
                       "pooling_mode_mean_tokens": True},
    "cls, without the prompt": {"embedding_dimension": 12, "pooling_mode": "cls", "include_prompt": False},
    "mean, without the prompt": {"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": False}}
PROMPTS = [None, "", "a ", "a b a [PAD]", "a b a b a b"]  # the folder's, none, others; the last leaves no room for a text

cases = []
for name, pooling in POOLING.items():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(HERE / "tiny", folder, dirs_exist_ok=True)
        (folder / "pool").mkdir()
        for file, content in {**FILES, "pool/config.json": pooling}.items():
            (folder / file).write_text(json.dumps(content))
        model = SentenceTransformer(str(folder), device="cpu")
        for prompt in PROMPTS:
            rows = model.encode(TEXTS, prompt=prompt).tolist()
            cases.append({"name": name, "prompt": prompt, "pooling": pooling, "embeddings": rows})
(HERE / "sentence_transformers.json").write_text(
    json.dumps({"texts": TEXTS, "files": FILES, "cases": cases}, indent=1) + "\n")

"""Makes a cross-encoder of random weights with a small tokenizer, as sentence-transformers 6.2 saves it, and expected.json: of
queries, texts and the longest pair what CrossEncoder.predict says (sigmoid, which is the default of one label, and without)
and in which order CrossEncoder.rank puts the texts."""

import json
import pathlib
import tempfile

import torch
import transformers
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat who where ? . ##s".split()
tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer()
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
fast = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, model_max_length=16, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
    mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"])
config = transformers.BertConfig(vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                                 max_position_embeddings=18, num_labels=1)
generator = torch.Generator().manual_seed(20261128)
model = transformers.BertForSequenceClassification(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (here / name).write_bytes((pathlib.Path(folder) / name).read_bytes())

QUERIES = ["Who sat on the mat?", "dogs", "", "where where where where where where where where where where where where"]
TEXTS = ["The cat sat on the mat.", "A dog ran.", "", "cats dogs cats dogs cats dogs cats dogs cats dogs cats dogs cats dogs", "Somebody."]
expected = []
encoder = CrossEncoder(str(here), device="cpu")
for query in QUERIES:
    pairs = [[query, text] for text in TEXTS]
    expected.append({
        "query": query, "texts": TEXTS, "sigmoid": encoder.predict(pairs).tolist(),
        "identity": encoder.predict(pairs, activation_fn=torch.nn.Identity()).tolist(),
        "order": [found["corpus_id"] for found in encoder.rank(query, TEXTS)]})
(here / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="ascii")

"""Makes bart_text/, a small BART with a byte-level tokenizer, trained on the few pairs of phrases.py, and bart_text.json: texts, their
ids, what transformers 5 on torch 2.15 generates from them (greedy and beams of 4, without the start token) and its text.

    python bart_text.py
"""

import json
import pathlib
import shutil

import torch
from tokenizers import ByteLevelBPETokenizer
from tokenizers.processors import RobertaProcessing
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig, PreTrainedTokenizerFast

from phrases import PAIRS, TEXTS

torch.manual_seed(1)
torch.set_num_threads(1)
here = pathlib.Path(__file__).parent

words = ByteLevelBPETokenizer()
words.train_from_iterator([side for pair in PAIRS for side in pair], vocab_size=290, min_frequency=1,
                          special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
words.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                    unk_token="<unk>", mask_token="<mask>")
config = BartConfig(vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                    decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=24, dropout=0.0,
                    forced_bos_token_id=0)
model = BartForConditionalGeneration(config)
sources, targets = (tokenizer(list(side), padding=True, return_tensors="pt") for side in zip(*PAIRS))
labels = targets.input_ids.masked_fill(targets.attention_mask == 0, -100)
adam = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(300):
    loss = model(input_ids=sources.input_ids, attention_mask=sources.attention_mask, labels=labels).loss
    adam.zero_grad()
    loss.backward()
    adam.step()
print("loss", loss.item())
model = model.eval()
model.generation_config = GenerationConfig(bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2,
                                           forced_bos_token_id=0, forced_eos_token_id=2, num_beams=4, max_length=20)
folder = here / "bart_text"
shutil.rmtree(folder, ignore_errors=True)
model.to(torch.bfloat16).save_pretrained(folder)
tokenizer.save_pretrained(folder)
model = BartForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def generated(ids, beams):
    row = model.generate(torch.tensor([ids]), num_beams=beams)[0].tolist()
    assert row[0] == 2
    return row[1:]


ids = [tokenizer(text).input_ids for text in TEXTS]
beams = [generated(row, 4) for row in ids]
(here / "bart_text.json").write_text(json.dumps(
    {"texts": TEXTS, "ids": ids, "max_new_tokens": 19, "greedy": [generated(row, 1) for row in ids], "beams": beams,
     "text": [tokenizer.decode(row, skip_special_tokens=True) for row in beams]}, indent=1) + "\n")

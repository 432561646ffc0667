"""Makes scores.json: what transformers 5 says of each token of some texts, with the folder gpt2/ beside this script.

    python scores.py

Of each text the ids, and for all of them but the first the log-probability behind those before it and the rank among
all tokens, 1 for the most probable. A text longer than the 256 positions is read in windows that begin 128 tokens
apart, as transformers' guide to perplexity has it: each token counts in the first window that holds it. "begin": the
id that is put before the text. bits_per_byte: of the bytes behind the first token.
"""

import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
POSITIONS, STRIDE = 256, 128


@torch.inference_mode()
def score(model, ids):
    tokens, done = [], 0
    for begin in range(0, len(ids), STRIDE):
        end = min(begin + POSITIONS, len(ids))
        rows = model(input_ids=torch.tensor([ids[begin:end]])).logits[0].double()
        for at in range(max(done, begin + 1), end):
            row = rows[at - begin - 1]
            tokens.append([float(row.log_softmax(-1)[ids[at]]), 1 + int((row > row[ids[at]]).sum())])
        done = end
        if end == len(ids):
            return tokens


model = AutoModelForCausalLM.from_pretrained(here / "gpt2", dtype=torch.float32, attn_implementation="eager").eval()
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(here / "gpt2" / "tokenizer.json"))
texts = [one["text"] for one in json.loads((here / "gpt2_text.json").read_text())]
texts = [(text, begin) for begin in ([], [0]) for text in texts if begin or len(tokenizer(text)["input_ids"]) > 1]
texts.append((" ".join(f"The cat sat on mat {i * i % 97}." for i in range(60)), []))
written = []
for text, begin in texts:
    own = tokenizer(text)["input_ids"]
    tokens = score(model, begin + own)
    size = len(text.encode()) - (0 if begin else len(tokenizer.decode(own[:1]).encode()))
    written.append({"text": text, "begin": begin, "ids": begin + own, "tokens": tokens, "bytes": size,
                    "bits_per_byte": -sum(one[0] for one in tokens) / math.log(2) / size})
(here / "scores.json").write_text(json.dumps(written) + "\n", encoding="ascii")
print([len(one["ids"]) for one in written], [one["bits_per_byte"] for one in written])

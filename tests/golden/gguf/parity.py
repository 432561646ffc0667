"""Compares a folder that qkv convert wrote with its GGUF file, both opened by transformers: python parity.py FOLDER FILE.gguf

The weights must be the same bit for bit, so must the logits of a few prompts and the ids of a few texts. transformers reads
tokenizers of this kind otherwise where digits are (its byte-level ones leave them together), so the texts have none.
"""
import pathlib
import sys

import torch
import transformers

TEXTS = ["The capital of France is", "def f(x):\n    return x\n", "Na\u00efve caf\u00e9, \u4f60\u597d \U0001f600!  It's", " \n\n a", "",
         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"]


def main():
    folder, file = sys.argv[1], pathlib.Path(sys.argv[2])
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    expected = theirs.state_dict()
    wrong = [name for name, weights in ours.state_dict().items() if not torch.equal(weights, expected[name])]
    assert not wrong and len(ours.state_dict()) == len(expected), wrong
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    reference = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert ids == reference(text, add_special_tokens=False)["input_ids"], (text, ids, reference(text)["input_ids"])
        assert tokenizer.decode(ids) == text, (text, tokenizer.decode(ids))
        if not ids:
            continue
        with torch.no_grad():
            a, b = (model(torch.tensor([ids])).logits for model in (ours, theirs))
        assert torch.equal(a, b), (text, (a - b).abs().max())
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = ours.generate(**inputs, do_sample=False, max_new_tokens=20)
    print(tokenizer.decode(written[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))


main()

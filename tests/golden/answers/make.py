"""Makes what the question-answering pipeline of transformers 4.57.1 says, the last version but for 5, which has none: the
tokenizer and encoder of golden/rank with a head of random weights, as a folder here; and heads for golden/encoders/roberta and
mpnet, in heads.safetensors. expected.json has the answers by kind and arguments. Needs transformers==4.57.1,
huggingface_hub==0.36.2, tokenizers==0.22.1."""

import json
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
golden = here.parent
assert torch.__version__.startswith("2.15"), torch.__version__
assert transformers.__version__ == "4.57.1", transformers.__version__

QUESTIONS = ["Who sat on the mat?", "cats where"]
CONTEXTS = ["The cat sat on the mat.", "cats dogs ran where? Cats sat on a mat. The cats ran!",
            "caf\u00e9 \u4f60\u597d cats The Cats \u4f60\u597d the cats  CAT one two  one two fill here sat on the mat where the cat ran."]
ARGUMENTS = [{"top_k": 1}, {"top_k": 4}, {"top_k": 3, "max_answer_len": 3}, {"top_k": 2, "max_answer_len": 2, "align_to_words": False},
             {"top_k": 3, "handle_impossible_answer": True}, {"top_k": 3, "max_seq_len": 14, "doc_stride": 3}]
generator = torch.Generator().manual_seed(20261204)
heads, expected = {}, []
for kind, folder, name in (("bert", "rank", "Bert"), ("roberta", "encoders/roberta", "Roberta"), ("mpnet", "encoders/mpnet", "MPNet")):
    model = getattr(transformers, name + "ForQuestionAnswering").from_pretrained(
        golden / folder, num_labels=2, id2label={0: "LABEL_0", 1: "LABEL_1"}).eval()
    model.qa_outputs.weight.data = 2 * torch.randn(2, 12, generator=generator)
    model.qa_outputs.bias.data = torch.randn(2, generator=generator)
    is_bert = kind == "bert"
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(golden / folder / "tokenizer.json"), cls_token="[CLS]" if is_bert else "<s>", 
        model_max_length={"bert": 16, "roberta": 32, "mpnet": 64}[kind],
        model_input_names=["input_ids", "attention_mask"] + ["token_type_ids"] * is_bert)
    if is_bert:
        model.save_pretrained(here)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(golden / folder / file, here)
    heads |= {f"{kind}/{key}": value.detach().clone() for key, value in model.qa_outputs.state_dict(prefix="qa_outputs.").items()}
    pipe = transformers.pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")
    for question in QUESTIONS:
        for context in CONTEXTS:
            for arguments in ARGUMENTS:
                if arguments.get("max_seq_len") and not is_bert:
                    arguments = arguments | {"max_seq_len": 30}
                if "doc_stride" not in arguments:
                    arguments = arguments | {"doc_stride": 2}
                try:
                    found = pipe(question=question, context=context, **arguments)
                except BaseException as error:  # the question leaves no room
                    print(kind, question, arguments, type(error).__name__)
                    continue
                found = found if isinstance(found, list) else [found]
                assert all(each["score"] > 0 for each in found), found
                expected.append({"kind": kind, "question": question, "context": context, "arguments": arguments, "answers": found})
save_file(heads, here / "heads.safetensors")
(here / "expected.json").write_text(json.dumps(expected) + "\n", encoding="ascii")

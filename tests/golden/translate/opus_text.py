"""Makes small Marians with unigram tokenizers and the generation_config.json of Helsinki-NLP's folders, trained on the few pairs of
phrases.py: opus_text/ with one vocabulary, opus_separate/ with one of each side, whose target_tokenizer.json is the target's. And
NAME.json: texts, their ids, what transformers 5 on torch 2.15 generates from them (greedy and beams of 4, without the start token)
and its text.

    python opus_text.py
"""

import json
import pathlib
import shutil

import torch
from tokenizers import SentencePieceUnigramTokenizer
from tokenizers.normalizers import NFKC
from tokenizers.processors import TemplateProcessing
from transformers import GenerationConfig, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from phrases import PAIRS, TEXTS

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent


def learned_tokenizer(texts, specials):
    words = SentencePieceUnigramTokenizer()
    words.normalizer = NFKC()
    words.train_from_iterator(texts, vocab_size=60, special_tokens=specials, unk_token="<unk>", show_progress=False)
    words.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def make(name, separate):
    torch.manual_seed(2)
    sides = list(zip(*PAIRS))
    if separate:  # padding has the same id on both sides
        source, target = (learned_tokenizer(side, ["</s>", "<unk>", "<pad>"]) for side in sides)
        assert len(source) != len(target)
    else:
        source = target = learned_tokenizer([text for pair in PAIRS for text in pair], ["</s>", "<unk>"])
    end, pad = 0, source.pad_token_id
    assert pad == target.pad_token_id
    config = MarianConfig(vocab_size=len(source), decoder_vocab_size=len(target), share_encoder_decoder_embeddings=not separate,
                          d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                          encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32, dropout=0.0,
                          activation_function="swish", scale_embedding=True, eos_token_id=end, forced_eos_token_id=end,
                          pad_token_id=pad, decoder_start_token_id=pad, tie_word_embeddings=True)
    model = MarianMTModel(config)
    sources, targets = (words(list(side), padding=True, return_tensors="pt") for words, side in zip((source, target), sides))
    labels = targets.input_ids.masked_fill(targets.attention_mask == 0, -100)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        loss = model(input_ids=sources.input_ids, attention_mask=sources.attention_mask, labels=labels).loss
        adam.zero_grad()
        loss.backward()
        adam.step()
    print(name, "loss", loss.item())
    model = model.eval()
    model.generation_config = GenerationConfig(bad_words_ids=[[pad]], bos_token_id=end, decoder_start_token_id=pad,
                                               eos_token_id=end, forced_eos_token_id=end, max_length=20, num_beams=4,
                                               pad_token_id=pad, renormalize_logits=True)
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    source.save_pretrained(folder)
    if separate:
        target.backend_tokenizer.save(str(folder / "target_tokenizer.json"))
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()

    def generated(ids, beams):
        row = model.generate(torch.tensor([ids]), num_beams=beams)[0].tolist()
        assert row[0] == pad
        row = row[1:]
        while row and row[-1] == pad:
            row.pop()
        return row

    ids = [source(text).input_ids for text in TEXTS]
    beams = [generated(row, 4) for row in ids]
    (here / f"{name}.json").write_text(json.dumps(
        {"texts": TEXTS, "ids": ids, "max_new_tokens": 19, "greedy": [generated(row, 1) for row in ids], "beams": beams,
         "text": [target.decode(row, skip_special_tokens=True) for row in beams]}, indent=1) + "\n")


make("opus_text", separate=False)
make("opus_separate", separate=True)

"""Makes the expected values of byte-pair and unigram tokenizers with the reference: pip install tokenizers==0.23.3

    make_schemes.py                        writes the files in schemes/ beside this script
    make_schemes.py TOKENIZER CORPUS       compares with ids on standard input, a line for each of CORPUS (slow check)

The vocabularies are learned from texts.json by the reference's own trainers, a little differently in each run; the
expected tokens are those of its first texts. trained.json is written by our trainer (tests/text/train_tokenizer_test.cc) and only read here.
"""
import json
import pathlib
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
TEXTS = json.loads((HERE / "texts.json").read_text())
SHOWN = 300
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def bpe(vocab, **options):
    special = options.pop("special", ["</s>", "<unk>"])
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=special, show_progress=False, **{
        k: options.pop(k) for k in list(options) if k in ("initial_alphabet", "continuing_subword_prefix",
                                                          "end_of_word_suffix", "limit_alphabet")})
    return Tokenizer(models.BPE(**options)), trainer


def unigram(vocab, more=()):
    special = ["</s>", "<unk>", *more]
    trainer = trainers.UnigramTrainer(vocab_size=vocab, special_tokens=special, unk_token="<unk>", show_progress=False)
    return Tokenizer(models.Unigram()), trainer


def schemes():
    t, trainer = bpe(500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    yield "byte_level", t, trainer

    t, trainer = bpe(500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), ignore_merges=True)
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    yield "byte_words", t, trainer

    t, trainer = bpe(500, unk_token="<unk>", fuse_unk=True, byte_fallback=True, special=["</s>", "<unk>"] + BYTES,
                     limit_alphabet=60)
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    yield "metaspace", t, trainer

    t, trainer = bpe(300, unk_token="<unk>", end_of_word_suffix="</w>", limit_alphabet=60)
    t.model.end_of_word_suffix = "</w>"
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder("</w>")
    yield "suffix", t, trainer

    t, trainer = bpe(300, unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="##", limit_alphabet=60)
    t.model.continuing_subword_prefix = "##"
    t.normalizer = normalizers.NFKD()
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.decoder = decoders.WordPiece("##", cleanup=False)
    yield "prefix", t, trainer

    t, trainer = bpe(500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), ignore_merges=True)
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(GPT4), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    yield "expression", t, trainer

    t, trainer = bpe(500, unk_token="<unk>", fuse_unk=True, byte_fallback=True, special=["</s>", "<unk>"] + BYTES,
                     limit_alphabet=60)
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "split", t, trainer

    t, trainer = unigram(400)
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Replace("a", "ab")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace(prepend_scheme="first")])
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    yield "unigram", t, trainer

    t, trainer = unigram(700, BYTES)
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    yield "unigram_bytes", t, trainer


def tokens(tokenizer, text):
    encoding = tokenizer.encode(text)
    return "".join(f"{i}:{a}:{b} " for i, (a, b) in zip(encoding.ids, encoding.offsets)).rstrip()


def write_expected(name, tokenizer):
    texts = TEXTS[:SHOWN]
    write = lambda file, content: (HERE / "schemes" / file).write_text(content, encoding="ascii")
    write(f"{name}_tokens.txt", "".join(tokens(tokenizer, t) + "\n" for t in texts))
    decoded = [tokenizer.decode(tokenizer.encode(t).ids) for t in texts]
    write(f"{name}_decoded.json", json.dumps(decoded, indent=0) + "\n")


def ranges(test):
    found = []
    for u in range(0x110000):
        if 0xD800 <= u < 0xE000 or not test(chr(u)):
            continue
        if found and found[-1][1] == u - 1:
            found[-1][1] = u
        else:
            found.append([u, u])
    return " ".join(f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in found)


def code_points():
    """Letters and numbers join their like; accents go."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    split = pre_tokenizers.Whitespace().pre_tokenize_str
    strip = normalizers.StripAccents().normalize_str
    return "".join(f"{name} {ranges(test)}\n" for name, test in [
        ("letter", lambda c: len(words(f"x{c}")) == 1), ("number", lambda c: len(words(f"1{c}")) == 1),
        ("word", lambda c: len(split(f"x{c}")) == 1 and split(f"x{c}")[0][0] == f"x{c}"), ("accent", lambda c: strip(f"a{c}b") == "ab")])


def compare(path, corpus):
    tokenizer = Tokenizer.from_file(path)
    wrong = count = 0
    with open(corpus, encoding="utf-8", errors="replace", newline="\n") as lines:
        for line, ids in zip(lines, sys.stdin, strict=True):
            count += 1
            expected = tokenizer.encode(line.removesuffix("\n")).ids
            if ids.split() != [str(i) for i in expected]:
                wrong += 1
                print("differs:", repr(line), ids.strip(), expected)
    print(f"{count} lines, {wrong} differ")
    sys.exit(wrong > 0)


def main():
    if len(sys.argv) == 3:
        compare(*sys.argv[1:])
    (HERE / "schemes").mkdir(exist_ok=True)
    for name, tokenizer, trainer in schemes():
        plain = isinstance(trainer, trainers.UnigramTrainer)  # needs room for every character
        tokenizer.train_from_iterator([t for t in TEXTS if t.isascii() or not plain], trainer)
        end = tokenizer.token_to_id("</s>")
        if name == "byte_level":
            tokenizer.post_processor = processors.RobertaProcessing(("</s>", end), ("<unk>", 1), True, True)
        elif name == "byte_words":
            tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True, add_prefix_space=False)])
        else:
            tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
        content = json.loads(tokenizer.to_str())
        content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] not in BYTES]
        if name == "unigram_bytes":
            content["model"]["byte_fallback"] = True  # which training forgets
        description = json.dumps(content, ensure_ascii=True, indent=0)
        (HERE / "schemes" / f"{name}.json").write_text(description + "\n", encoding="ascii")
        write_expected(name, Tokenizer.from_str(description))
    (HERE / "schemes" / "code_points.txt").write_text(code_points(), encoding="ascii")
    if (HERE / "schemes" / "trained.json").exists():
        write_expected("trained", Tokenizer.from_file(str(HERE / "schemes" / "trained.json")))


main()

"""The chapters of docs/benchmarks.md on the commands that embed, translate and train, and on the order of sums, from the
results of their races."""

EMBEDDING = """## Sentence embeddings

MiniLM-L6, 64 sentences of 5 to 120 words, by `bench/peers/embed_peers.py`: in turns, medians of nine rounds, the best
batch of each. qkv is the command `qkv embed`, text in and text out; the others run in their own process. qkv bf16
multiplies in f32; reduced and reduced_pairs multiply in bf16, as the bf16 of others does. Tokens a second, and relative
to qkv in f32; milliseconds for one short sentence alone; the worst cosine to f32; the change of an embedding when its
text is alone instead of in a batch."""

TRANSLATION = """## Translation

The shipped model on sentences of 8 to 30 words, by `bench/peers/translate_peers.py`: in turns, each after a rest, medians,
tokens a second. In batches of 32 sorted by length, or one sentence of about 24 tokens at a time. qkv is the command
`qkv translate`, text in and text out; CTranslate2 gets tokens. f32 against f32, int8 against int8."""

LONG_TEXTS = """## Long texts

An encoder of ModernBERT-base's shape with random weights, one text at a time, by `bench/peers/long_text_peers.py`: 22 layers of
768, 12 heads, a window of 128 tokens but every third layer global, f32. Each in a process of its own, in turns, medians.
qkv is the command `qkv embed`, text in and text out; the others get ids. Seconds, relative to qkv, and the most memory
that the first text took beyond what the process held before, its weights among that."""

TRAINING = """## Training a translator

256 wide, 3 + 3 layers, dropout 0.1, Adam, on real pairs, by `bench/peers/train_peers.py`: `qkv train` in turns with
MarianMTModel of transformers on torch eager, medians of three rounds, target tokens a second. qkv packs pairs,
torch gets padded batches of pairs of similar length. qkv reduced and reduced_pairs multiply in bf16, as torch does under
autocast."""

ORDER = """## What reproducibility costs

Attention adds in one order, whatever the threads. The same kernels, compiled with `-fassociative-math`, in turns by
`bench/peers/free_order.py`: the part of our time that they take. The compiler then also rearranges what rounds the
exponent of exp; the largest difference to attention in f64, ours and theirs, shows it."""


def plural(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")


def lost(what, speeds, ours):
    fastest = max((name for name in speeds if name != ours), key=speeds.get, default=None)
    if fastest and speeds[ours] < speeds[fastest]:
        yield speeds[ours] / speeds[fastest], f"{what}: {speeds[ours] / speeds[fastest]:.2f} of {fastest}"


def embedding(results):
    yield EMBEDDING
    yield ""
    yield "| threads | | batch | tokens/s | of qkv f32 | one sentence | worst cosine | change when alone |"
    yield "| --- " * 8 + "|"
    for result in results:
        speed = {row["name"]: row["speed"] for row in result["rows"]}
        for row in result["rows"]:
            yield (
                f"| {result['threads']} | {row['name']} | {row['batch'] or ''} | {row['speed']:,.0f} | "
                f"{row['speed'] / speed['qkv f32']:.2f} | {row['short']:.2f} ms | {row['cosine']:.5f} | {row['alone']:.0e} |"
            )


def translation(results):
    yield TRANSLATION
    yield ""
    yield "| threads | weights | | qkv | CTranslate2 | to CTranslate2 |"
    yield "| --- " * 6 + "|"
    for result in results:
        for case, speeds in result["rows"].items():
            ours, theirs = speeds["ours"], speeds["CTranslate2"]
            yield (
                f"| {result['threads']} | {result['weights']} | {case} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |"
            )


def long_texts(results):
    yield LONG_TEXTS
    yield ""
    yield "| threads | tokens | | seconds | to qkv | memory |"
    yield "| --- " * 6 + "|"
    for result in results:
        for row in result["rows"]:
            yield (
                f"| {result['threads']} | {row['length']:,} | {row['name']} | {row['seconds']:.3f} | {row['ratio']:.2f} | "
                f"{row['memory']:,.0f} MiB |"
            )


def training(results):
    yield TRAINING
    yield ""
    yield "| threads | | target tokens/s | to torch |"
    yield "| --- " * 4 + "|"
    for result in results:
        for name, speed in result["rows"].items():
            yield f"| {result['threads']} | {name} | {speed:,.0f} | {speed / result['rows']['torch']:.2f} |"


def order(results):
    yield ORDER
    yield ""
    yield "| threads | | case | free order | error |"
    yield "| --- " * 5 + "|"
    for result in results:
        for row in result["rows"]:
            time, error = row["milliseconds"], row["errors"]
            yield (
                f"| {result['threads']} | {row['section']} | {row['name']} | {time['free'] / time['fixed']:.2f} | "
                f"{error['fixed']:.0e}, {error['free']:.0e} |"
            )


def lost_in_bf16(what, threads, speeds):
    ours = "qkv reduced_pairs" if "qkv reduced_pairs" in speeds else "qkv reduced"
    bf16 = {name: speeds[name] for name in speeds if name.endswith(" bf16") and name != "qkv bf16"}
    yield from lost(f"{what}, products in bf16, {threads}", bf16 | {ours: speeds[ours]}, ours)


def lost_by_commands(results):
    """(ratio, what) of each row in which the fastest of the others was faster; int8 beside int8."""
    for result in results:
        threads = plural(result["threads"], "thread")
        if result["race"] == "embedding":
            for weights in ("f32", "int8"):
                speeds = {row["name"]: row["speed"] for row in result["rows"] if row["name"].endswith(" " + weights)}
                yield from lost(f"embedding, {weights}, {threads}", speeds, f"qkv {weights}")
            speeds = {row["name"]: row["speed"] for row in result["rows"]}
            yield from lost_in_bf16("embedding", threads, speeds)
        elif result["race"] == "translation":
            for case, speeds in result["rows"].items():
                yield from lost(f"translation {case}, {result['weights']}, {threads}", speeds, "ours")
        elif result["race"] == "long texts":
            for length in dict.fromkeys(row["length"] for row in result["rows"]):
                speeds = {row["name"]: 1 / row["seconds"] for row in result["rows"] if row["length"] == length}
                yield from lost(f"a text of {length:,} tokens, {threads}", speeds, "qkv")
        elif result["race"] == "training":
            f32 = {name: result["rows"][name] for name in ("qkv", "torch")}
            yield from lost(f"training, {threads}", f32, "qkv")
            yield from lost_in_bf16("training", threads, result["rows"])


COMMANDS = {
    "embedding": embedding,
    "long texts": long_texts,
    "translation": translation,
    "training": training,
    "order": order,
}

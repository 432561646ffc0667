"""Makes measures.json: the numbers of every head, and all measures of every token, by plain Python.

    python measures.py

The models are ../bert/tiny and ../translate/{bart_text,opus_text}, in double precision: post-norm layers as in "Attention
is all you need". A key that is left out has the logit -inf in all layers of its attention, a head gives 0; a slope is the
difference of two runs in which one weight is 1e-5 more and less after softmax, times that weight. The measures are
defined in include/qkv/explain/token_measures.h, the members of a head in docs/explain_json.md.
"""

import json
import math
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def tensors_of(folder):
    data = (HERE / folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    all_tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + x for x in entry["data_offsets"])
        raw = data[begin:end]
        if entry["dtype"] == "BF16":  # the upper half of an f32
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        numbers = list(struct.unpack(f"<{len(raw) // 4}f", raw))
        columns = entry["shape"][-1]
        rows = [numbers[i:i + columns] for i in range(0, len(numbers), columns)]
        all_tensors[name] = rows if len(entry["shape"]) == 2 else numbers
    return all_tensors


def gelu(x):
    return x / 2 * (1 + math.erf(x / math.sqrt(2)))


def swish(x):
    return x / (1 + math.exp(-x))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Model:
    """`names` are those of an attention's query, key, value and output, of its norm, and of the feed-forward part."""

    def __init__(self, tensors, names, heads, activation, epsilon):
        self.t, self.names, self.heads, self.activation, self.epsilon = tensors, names, heads, activation, epsilon

    def linear(self, x, name):
        return [[dot(row, w) + b for w, b in zip(self.t[name + ".weight"], self.t[name + ".bias"])] for row in x]

    def norm(self, x, name):
        result = []
        for row in x:
            mean = sum(row) / len(row)
            deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + self.epsilon)
            result.append([(v - mean) / deviation * w + b
                           for v, w, b in zip(row, self.t[name + ".weight"], self.t[name + ".bias"])])
        return result

    def attend(self, x, memory, scope, index, causal, change):
        """`index` is (site, layer); change: keys (site, key) and heads (site, layer, head) left out, and what is added."""
        q, k, v = (self.linear(rows, scope + name) for rows, name in zip((x, memory, memory), self.names[:3]))
        size = len(q[0]) // self.heads
        merged = [[] for _ in x]
        for h in range(self.heads):
            part = slice(h * size, (h + 1) * size)
            lengths = [math.sqrt(sum(dot(row[part], w[part]) ** 2 for w in self.t[scope + self.names[3] + ".weight"]))
                       for row in v]
            trace = {"query": [row[part] for row in q], "key": [row[part] for row in k], "value": [row[part] for row in v],
                     "value_lengths": lengths, "value_norms": [], "scores": [], "logits": [], "weights": [],
                     "log_sum_exp": [], "output": [], "scale": 1 / math.sqrt(size), "heads": self.heads,
                     "model_dim": len(x[0])}
            change["traces"][(*index, h)] = trace
            for i, row in enumerate(q):
                seen = [j for j in range(len(k)) if not (causal and j > i) and (index[0], j) not in change["keys"]]
                if (*index, h) in change["heads"]:
                    seen = []
                scores = [dot(row[part], other[part]) for other in k]
                logits = {j: scores[j] / math.sqrt(size) for j in seen}
                total = sum(math.exp(logit) for logit in logits.values())
                weights = {j: math.exp(logit) / total for j, logit in logits.items()}
                trace["scores"].append(scores)
                trace["logits"].append([logits.get(j, "-inf") for j in range(len(k))])
                trace["weights"].append([weights.get(j, 0) for j in range(len(k))])
                trace["log_sum_exp"].append(math.log(total) if total else "-inf")
                trace["value_norms"].append([w * length for w, length in zip(trace["weights"][-1], lengths)])
                if change["added"] and change["added"][0] == (*index, h, i):
                    weights[change["added"][1]] = weights.get(change["added"][1], 0) + change["added"][2]
                trace["output"].append([sum(w * v[j][e] for j, w in weights.items()) for e in range(*part.indices(10**9))])
                merged[i] += trace["output"][-1]
        return self.linear(merged, scope + self.names[3])

    def add(self, x, y, name):
        return self.norm([[a + b for a, b in zip(*rows)] for rows in zip(x, y)], name)

    def feed_forward(self, x, scope):
        first, second, norm = self.names[5:]
        inner = [[self.activation(v) for v in row] for row in self.linear(x, scope + first)]
        return self.add(x, self.linear(inner, scope + second), scope + norm)


class Bert(Model):
    def __init__(self):
        names = [f"attention.self.{n}" for n in ("query", "key", "value")] + [
            "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"]
        super().__init__(tensors_of("../bert/tiny"), names, 3, gelu, 1e-12)
        self.sites = [(2, 3)]

    def run(self, ids, change):
        part = lambda name: self.t[f"bert.embeddings.{name}_embeddings.weight"]
        x = [[a + b + c for a, b, c in zip(part("word")[token], part("position")[i], part("token_type")[0])]
             for i, token in enumerate(ids)]
        x = self.norm(x, "bert.embeddings.LayerNorm")
        for layer in range(2):
            scope = f"bert.encoder.layer.{layer}."
            x = self.add(x, self.attend(x, x, scope, (0, layer), False, change), scope + self.names[4])
            x = self.feed_forward(x, scope)
        return x

    def losses(self, whole, changed):
        """1 - cosine, for each token."""
        return [1 - dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)) for a, b in zip(whole, changed)]


class Translator(Model):
    def __init__(self, folder, activation, start, scale):
        names = [n + "_proj" for n in "qkv"] + ["out_proj", "", "fc1", "fc2", "final_layer_norm"]
        super().__init__(tensors_of("../translate/" + folder), names, 2, activation, 1e-5)
        self.start, self.scale, self.sites = start, scale, [(1, 2)] * 3

    def embedded(self, ids, side):
        """Positions that were learned, from 2 on, and a norm; or the sines of even numbers, then the cosines."""
        rows = [[self.scale * v for v in self.t["model.shared.weight"][token]] for token in ids]
        learned = self.t.get(f"model.{side}.embed_positions.weight")
        half = len(rows[0]) // 2
        angle = lambda i, e: i / 10000 ** (2 * e / len(rows[0]))
        places = [learned[i + 2] if learned else [math.sin(angle(i, e)) for e in range(half)] +
                  [math.cos(angle(i, e)) for e in range(half)] for i in range(len(ids))]
        rows = [[a + b for a, b in zip(*both)] for both in zip(rows, places)]
        return self.norm(rows, f"model.{side}.layernorm_embedding") if learned else rows

    def run(self, texts, change):
        """The log-probability of each token written."""
        source, written = texts
        scope = "model.encoder.layers.0."
        x = self.embedded(source, "encoder")
        own = self.attend(x, x, scope + "self_attn.", (0, 0), False, change)
        memory = self.feed_forward(self.add(x, own, scope + "self_attn_layer_norm"), scope)
        scope = "model.decoder.layers.0."
        x = self.embedded([self.start] + written[:-1], "decoder")
        own = self.attend(x, x, scope + "self_attn.", (1, 0), True, change)
        x = self.add(x, own, scope + "self_attn_layer_norm")
        other = self.attend(x, memory, scope + "encoder_attn.", (2, 0), False, change)
        x = self.feed_forward(self.add(x, other, scope + "encoder_attn_layer_norm"), scope)
        found = []
        for row, token in zip(x, written):
            logits = [dot(row, w) + b for w, b in zip(self.t["model.shared.weight"], self.t["final_logits_bias"][0])]
            found.append(logits[token] - math.log(sum(map(math.exp, logits))))
        return found

    def losses(self, whole, changed):
        return [a - b for a, b in zip(whole, changed)]


def rollout_of(traces, tokens):
    """The product over the layers of (A + I) / 2, A the mean of the heads."""
    product = [[float(i == j) for j in range(tokens)] for i in range(tokens)]
    for layer in sorted({place[1] for place in traces}):
        heads = [trace["weights"] for place, trace in traces.items() if place[1] == layer]
        mean = [[(sum(w[i][k] for w in heads) / len(heads) + (i == k)) / 2 for k in range(tokens)] for i in range(tokens)]
        product = [[sum(mean[i][k] * product[k][j] for k in range(tokens)) for j in range(tokens)] for i in range(tokens)]
    return product


def measured(model, name, text, counts):
    """`counts`: keys of each attention; the last attention has a query for each token, as the only one of an encoder."""
    run = lambda keys=(), heads=(), added=None, traces=None: model.run(
        text, {"keys": set(keys), "heads": set(heads), "added": added, "traces": {} if traces is None else traces})
    traces, writes = {}, name != "bert"
    whole = run(traces=traces)
    places = list(traces)
    by_key = [[model.losses(whole, run(keys=[(site, j)])) for j in range(count)] for site, count in enumerate(counts)]
    by_head = [model.losses(whole, run(heads=[place])) for place in places]
    slopes = {}  # of a place, query and key: for each token
    for place in places if writes else []:
        for i, row in enumerate(traces[place]["weights"]):
            for j, weight in enumerate(row):
                above, below = (run(added=((*place, i), j, step)) for step in (1e-5, -1e-5))
                slopes[(*place, i, j)] = [(a - b) / 2e-5 * weight for a, b in zip(above, below)]
    tokens = []
    for t in range(len(whole)):
        token = {"keys": [], "heads": {"value_norm": [], "knock_out": [losses[t] for losses in by_head]}}
        mean = lambda place, what, j: (sum(row[j] for row in traces[place][what]) / len(traces[place][what])
                                       if writes and place[0] == 0 else traces[place][what][t][j])
        for site, count in enumerate(counts):
            own, keys = [place for place in places if place[0] == site], range(t + 1 if site == 1 else count)
            measures = {"weight": [sum(mean(p, "weights", j) for p in own) / len(own) for j in keys],
                        "value_norm": [sum(mean(p, "value_norms", j) for p in own) for j in keys],
                        "knock_out": [by_key[site][j][t] for j in keys]}
            if writes:
                measures["gradient"] = [sum(v[t] for (s, _, _, _, key), v in slopes.items() if s == site and key == j)
                                        for j in keys]
            else:
                measures["rollout"] = rollout_of(traces, count)[t]
            token["keys"].append(measures)
        for place in places:
            token["heads"]["value_norm"].append(sum(mean(place, "value_norms", j) for j in range(counts[place[0]])))
        if writes:
            token["heads"]["gradient"] = [sum(v[t] for own, v in slopes.items() if own[:3] == place) for place in places]
        tokens.append(token)
    return {"model": name, "text": text, "log_probabilities": whole if writes else None, "tokens": tokens,
            "heads": [{"site": site, "layer": layer, "head": head, **trace} for (site, layer, head), trace in traces.items()]}


def translations(folder):
    """The ids of "Good morning", and of what is written from it."""
    found = json.loads((HERE / f"../translate/{folder}.json").read_text())
    at = found["texts"].index("Good morning")
    return [found["ids"][at], found["beams"][at]]


if __name__ == "__main__":
    bert = Bert()
    records = [measured(bert, "bert", [3 + 2 * i for i in range(n)], [n]) for n in (1, 2, 5)]
    for folder, activation, start, scale in [("bart_text", gelu, 2, 1), ("opus_text", swish, 51, 4)]:
        source, target = translations(folder)
        counts = [len(source), len(target), len(source)]
        records.append(measured(Translator(folder, activation, start, scale), folder, [source, target], counts))
    rounded = json.loads(json.dumps(records), parse_float=lambda x: float(f"{float(x):.9g}"))
    (HERE / "measures.json").write_text("[" + ",\n".join(json.dumps(r) for r in rounded) + "]\n")

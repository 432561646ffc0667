#!/usr/bin/env python3
"""docs/arithmetic.md in plain Python, f32 on a target with fused multiply-add: tests/arithmetic/reference.py FILE computes
the cases of FILE (JSON: inputs, and what the library gave, as words of f32) and says where a bit differs;
tests/arithmetic/reference.py --minilm FOLDER PROGRAM computes MiniLM on three texts, beside `PROGRAM embed`, with NumPy."""
import json
import math
import struct
import subprocess
import sys


# Numbers of f32 are floats that f32 holds; f64 rounds sums, products, quotients and roots of them so that rounding once
# more gives what f32 gives.
def f32(x):
    try:
        return struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def from_word(word):
    return struct.unpack("f", struct.pack("I", word))[0]


def to_word(x):
    return struct.unpack("I", struct.pack("f", x))[0]


def add(a, b):
    return f32(a + b)


def sub(a, b):
    return f32(a - b)


def mul(a, b):
    return f32(a * b)


def div(a, b):
    return f32(a / b)


def fma(a, b, c):
    """a b is exact in f64; a sum that is not is made odd, so that it rounds to f32 as the exact one does."""
    product = a * b
    total = product + c
    if math.isinf(total) or total != total:
        return total
    back = total - product
    rest = (product - (total - back)) + (c - back)
    if rest != 0 and struct.unpack("Q", struct.pack("d", total))[0] % 2 == 0:
        total = math.nextafter(total, math.inf if rest > 0 else -math.inf)
    return f32(total)


def chain(pairs, start=0.0):
    for a, b in pairs:
        start = fma(a, b, start)
    return start


LOG2E = f32(1.4426950408889634)
QUARTERS = [from_word(word) for word in (0x3F800000, 0x3F9837F0, 0x3FB504F3, 0x3FD744FD)]


def exp2(x):
    if x != x:
        return x
    if x < -126:
        return 0.0
    magic = 1.5 * 2**21
    whole = sub(add(x, magic), magic)
    r = sub(x, whole)
    g = fma(float.fromhex("0x1.3af6a4p-7"), r, float.fromhex("0x1.c6d630p-5"))
    g = fma(g, r, float.fromhex("0x1.ebfbeep-3"))
    g = mul(fma(g, r, float.fromhex("0x1.62e430p-1")), r)
    quarters = int(whole * 4)
    power = math.ldexp(QUARTERS[quarters % 4], quarters // 4)
    return fma(power, g, power)


def lane_sum(values, step):
    """values: arguments of step(lane, *value) -> lane."""
    lanes = [0.0] * 16
    for i, value in enumerate(values):
        lanes[i % 16] = step(lanes[i % 16], *value)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [add(lanes[l], lanes[l + half]) for l in range(half)]
    return lanes[0]


def total(row):
    return lane_sum([(x,) for x in row], add)


def dot(a, b):
    return lane_sum(list(zip(a, b)), lambda lane, x, y: fma(x, y, lane))


def merge(first, second):
    """Parts of the keys, each (m, sum, o)."""
    if first[1] == 0:
        return second
    if second[1] == 0:
        return first
    m = max(first[0], second[0])
    f1, f2 = exp2(sub(first[0], m)), exp2(sub(second[0], m))
    return m, fma(second[1], f2, mul(first[1], f1)), [fma(b, f2, mul(a, f1)) for a, b in zip(first[2], second[2])]


def finish(part, size):
    m, s, o = part
    if s == 0:
        return [0.0] * size, -math.inf
    inverse = div(1.0, s)
    # The library's logarithm is within a unit of f64, which f32 does not see but once in 2^28 numbers.
    return [mul(x, inverse) for x in o], f32(0.6931471805599453 * m + math.log(s))


def visible_values(v, element, keys, weights, start):
    return chain(((v[j][element], w) for j, w in weights.items()), start)


def attend(q, k, v, scale, visible, dot=lambda a, b: chain(zip(a, b)), weigh=exp2, add_values=visible_values):
    """A query among others: visible(j) of key j. `add_values` adds an element of the values of a block of keys."""
    unit, size = f32(abs(scale) * 1.4426950408889634), len(v[0])
    if scale < 0:
        q = [-x for x in q]
    whole = (0.0, 0.0, [0.0] * size)
    for chunk in range(0, len(k), 1024):
        m, margin, s, o = 0.0, -math.inf, 0.0, [0.0] * size
        for begin in range(chunk, min(chunk + 1024, len(k)), 128):
            end = min(begin + 128, len(k))
            block, weights = 0.0, {}
            for step in range(begin, end, 4):
                keys = [j for j in range(step, min(step + 4, end)) if visible(j)]
                x = [mul(dot(k[j], q), unit) for j in keys]
                if keys and sub(max(x), m) > margin:
                    factor = 1.0 if margin == -math.inf else exp2(sub(m, max(x)))
                    m, margin, s, block = max(x), 8.0, mul(s, factor), mul(block, factor)
                    weights = {j: mul(w, factor) for j, w in weights.items()}
                    o = [mul(element, factor) for element in o]
                for j, y in zip(keys, x):
                    weights[j] = weigh(sub(y, m))
                    block = add(block, weights[j])
            s = add(s, block)
            o = [add_values(v, e, range(begin, end), weights, o[e]) for e in range(size)]
        whole = merge(whole, (m, s, o))
    return finish(whole, size)


def attend_alone(q, k, v, scale, visible):
    """The only query of its sequence."""
    unit, size = f32(abs(scale) * 1.4426950408889634), len(v[0])
    if scale < 0:
        q = [-x for x in q]
    whole = (0.0, 0.0, [0.0] * size)
    for chunk in range(0, len(k), 1024):
        keys = [j for j in range(chunk, min(chunk + 1024, len(k))) if visible(j)]
        if not keys:
            continue
        x = {j: dot(q, k[j]) for j in keys}
        m = mul(max(x.values()), unit)
        weights = {j: exp2(sub(mul(x[j], unit), m)) for j in keys}
        s = total([weights.get(j, 0.0) for j in range(chunk, keys[-1] + 1)])
        o = [chain((v[j][e], weights[j]) for j in keys) for e in range(size)]
        whole = merge(whole, (m, s, o))
    return finish(whole, size)


def layer_norm(row, weight, bias, epsilon, centred):
    size = float(len(row))
    mean = div(total(row), size) if centred else 0.0
    distances = [sub(x, mean) for x in row]
    variance = div(lane_sum([(d,) for d in distances], lambda lane, d: fma(d, d, lane)), size)
    scale = div(1.0, f32(math.sqrt(add(variance, f32(epsilon)))))
    out = [mul(mul(d, scale), w) for d, w in zip(distances, weight)]
    return [add(x, b) for x, b in zip(out, bias)] if bias else out


GELU = [float.fromhex(c) for c in ("0x1.f81704p+13", "-0x1.cd95p+13", "0x1.2bf3c2p+11", "0x1.8bd25ep+9", "-0x1.e213d6p+3",
                                   "0x1.86a888p+6", "0x1.1aabf2p+4", "0x1.89d57ep+2", "0x1.9735e2p+0", "0x1.989556p-2")]


def gelu(x):
    t = min(abs(x), 14.0)
    w = div(1.0, add(t, 4.0))
    s = GELU[0]
    for c in GELU[1:]:
        s = fma(s, w, c)
    p = exp2(mul(mul(t, t), f32(-0.72134752044448170368)))
    tail = mul(t, mul(w, mul(s, p)))
    return -tail if x < 0 else sub(x, tail)


def linear(row, weight, bias):
    out = []
    for of_out, b in zip(weight, bias):
        value = None
        for begin in range(0, len(row), 512):
            share = chain(zip(row[begin:begin + 512], of_out[begin:begin + 512]))
            value = share if value is None else add(value, share)
        out.append(add(value, b))
    return out


def rows_of(words, size):
    numbers = [from_word(word) for word in words]
    return [numbers[i:i + size] for i in range(0, len(numbers), size)]


def visible_keys(case, i):
    left, right, length = case["left"], case["right"], case["length"]
    return lambda j: j < length and (left < 0 or j >= i - left) and (right < 0 or j <= i + right)


def compute(case):
    kind = case["kind"]
    if kind == "attention":
        q, k, v = (rows_of(case[name], case["size"]) for name in "qkv")
        one = attend_alone if len(q) == 1 else attend
        results = [one(row, k, v, case["scale"], visible_keys(case, i)) for i, row in enumerate(q)]
        return [x for out, _ in results for x in out] + [row for _, row in results]
    x = rows_of(case["x"], case["size"])
    if kind == "layer_norm":
        weight, bias = rows_of(case["weight"], case["size"])[0], rows_of(case["bias"], case["size"])
        return [y for row in x for y in layer_norm(row, weight, bias[0] if bias else None, case["epsilon"], case["centred"])]
    if kind == "gelu":
        return [gelu(y) for row in x for y in row]
    weight, bias = rows_of(case["weight"], case["size"]), [from_word(word) for word in case["bias"]]
    return [y for row in x for y in linear(row, weight, bias)]


def linear_rows(rows, weight, bias):
    """linear() of many rows: the same operations on arrays of NumPy, whose f64 numbers hold f32 ones."""
    import numpy

    def fma_arrays(a, b, c):
        product = a * b
        total = product + c
        back = total - product
        rest = (product - (total - back)) + (c - back)
        odd = (rest != 0) & (total.view(numpy.int64) % 2 == 0)
        total.view(numpy.int64)[odd] += numpy.where((rest > 0) == (total > 0), 1, -1)[odd]
        return total.astype(numpy.float32).astype(numpy.float64)

    x, w = numpy.array(rows, numpy.float64), numpy.array(weight, numpy.float64).T
    whole = None
    for begin in range(0, x.shape[1], 512):
        share = numpy.zeros((len(rows), w.shape[1]))
        for k in range(begin, min(begin + 512, x.shape[1])):
            share = fma_arrays(x[:, k : k + 1], w[k], share)
        whole = share if whole is None else (whole + share).astype(numpy.float32).astype(numpy.float64)
    return (whole + numpy.array(bias)).astype(numpy.float32).tolist()


class MiniLm:
    """BERT and what sentence-transformers makes of it: mean of the tokens, length 1."""

    def __init__(self, folder):
        import numpy

        with open(folder + "/model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        self.tensors = {}
        for name, form in header.items():
            if form.get("dtype") == "F32":
                begin, end = form["data_offsets"]
                self.tensors[name] = numpy.frombuffer(data[begin:end], "<f4").reshape(form["shape"])
        with open(folder + "/config.json", encoding="utf-8") as file:
            self.config = json.load(file)

    def take(self, name):
        return self.tensors[name].astype("f8").tolist()

    def row(self, table, i):
        return self.tensors[f"embeddings.{table}_embeddings.weight"][i].astype("f8").tolist()

    def linear(self, rows, scope):
        return linear_rows(rows, self.tensors[scope + ".weight"], self.tensors[scope + ".bias"].astype("f8"))

    def norm(self, rows, scope):
        weight, bias = self.take(scope + ".LayerNorm.weight"), self.take(scope + ".LayerNorm.bias")
        return [layer_norm(row, weight, bias, self.config["layer_norm_eps"], True) for row in rows]

    def joined(self, rows, more, scope):
        return self.norm([[add(a, b) for a, b in zip(x, y)] for x, y in zip(rows, more)], scope)

    def attention(self, rows, scope):
        q, k, v = (self.linear(rows, f"{scope}.self.{name}") for name in ("query", "key", "value"))
        heads = self.config["num_attention_heads"]
        size = len(q[0]) // heads
        out = [[] for _ in rows]
        for head in range(heads):
            mine = [[row[head * size : (head + 1) * size] for row in each] for each in (q, k, v)]
            for i, query in enumerate(mine[0]):
                out[i] += attend(query, mine[1], mine[2], 1 / math.sqrt(size), lambda j: True)[0]
        return self.linear(out, scope + ".output.dense")

    def embed(self, ids):
        x = [[add(a, b) for a, b in zip(self.row("word", i), self.row("token_type", 0))] for i in ids]
        x = [[add(a, b) for a, b in zip(row, self.row("position", p))] for p, row in enumerate(x)]
        x = self.norm(x, "embeddings")
        for n in range(self.config["num_hidden_layers"]):
            scope = f"encoder.layer.{n}"
            x = self.joined(x, self.attention(x, scope + ".attention"), scope + ".attention.output")
            wide = [[gelu(y) for y in row] for row in self.linear(x, scope + ".intermediate.dense")]
            x = self.joined(x, self.linear(wide, scope + ".output.dense"), scope + ".output")
        mean = [0.0] * len(x[0])
        for row in x:
            mean = [add(a, b) for a, b in zip(mean, row)]
        mean = [div(a, float(len(x))) for a in mean]
        squares = 0.0
        for a in mean:
            squares += a * a
        return [f32(a / max(math.sqrt(squares), 1e-12)) for a in mean]


def compare_minilm(folder, program):
    texts = ["The animal didn't cross the street because it was too tired.", "You are welcome.", "3.5 pears, 12 apples"]

    def lines_of(*command):
        given = subprocess.run([program, *command], input="\n".join(texts), capture_output=True, text=True, check=True)
        return given.stdout.splitlines()

    model, failed = MiniLm(folder), 0
    all_ids = lines_of("tokenizer", "encode", "--tokenizer", folder + "/tokenizer.json")
    for text, ids, line in zip(texts, all_ids, lines_of("embed", "--model", folder)):
        given, computed = [f32(float(x)) for x in line.split()], model.embed([int(i) for i in ids.split()])
        wrong = sum(a != b for a, b in zip(given, computed)) + abs(len(given) - len(computed))
        failed += wrong > 0
        print(f"{text}: {wrong} of {len(given)} numbers differ")
    return 1 if failed else 0


def main():
    if sys.argv[1] == "--minilm":
        return compare_minilm(*sys.argv[2:])
    failed = 0
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases:
        computed, given = compute(case), [from_word(word) for word in case["out"]]
        wrong = [i for i, (a, b) in enumerate(zip(computed, given)) if a != b and (a == a or b == b)]
        if wrong or len(computed) != len(given):
            failed += 1
            print(f"{case['name']}: {len(wrong)} of {len(given)} numbers differ, the first at {wrong[0]}: "
                  f"{computed[wrong[0]]!r} here, {given[wrong[0]]!r} in the library")
    print(f"{len(cases) - failed} of {len(cases)} cases have the same bits")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes steps.json: cases of explain() and every number of their steps, by plain Python; and checks the texts beside it.

    python make.py

Each case is the worked example of the tutorials with some fields of ExplainInput changed. Then every table and every
equation of the .txt files of the same names is compared with these numbers. The texts are those of the library
(QKV_WRITE_GOLDEN=1 qkv_test_explain --gtest_filter=Explain*), and this is what their numbers are checked by; a number
that is in neither a table nor an equation is an error, too.
"""

import json
import math
import pathlib
import re

HERE = pathlib.Path(__file__).parent
INF = math.inf


def mul(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def turned(a):
    return [list(row) for row in zip(*a)]


BASE = {
    "inputs": [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]],
    "w_query": [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]],
    "w_key": [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]],
    "w_value": [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]],
    "score": "dot",
}
TUTORIAL = [[0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]]
SCORES = [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
ZERO = [[0] * 3] * 3
NONE = math.nan

CASES = {
    "worked": {"tutorial": True},
    "scaled": {"score": "scaled-dot"},
    "look_ahead": {"score": "scaled-dot", "causal": True},
    "prefix": {"score": "scaled-dot", "prefix": 2},
    "window": {"score": "scaled-dot", "window": [1, 0, 1]},
    "dilated": {"score": "scaled-dot", "window": [-1, -1, 2], "labels": ["left", "middle", "right"]},
    # The third sees nobody; a row is for all.
    "mask": {"mask": [[1, 0, 0], [0, 1, 0], [0, 0, 0]], "causal": True},
    "mask_row": {"mask": [[0, 1, 1]], "scale": -0.25},
    # Where numbers are no numbers, and pictures.
    "nobody": {"inputs": [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, NONE]], "mask": [[0, 0, 0], [1, 0, 0], [1, 0, 1]],
               "labels": ["left", "middle", "right"], "picture": [2, 2]},
    "tutorial": {"tutorial": True, "substitutes": {"weights": TUTORIAL}},
    # Neither the scale nor the mask touches logits that are given.
    "own_logits": {"score": "scaled-dot", "causal": True, "substitutes": {"logits": SCORES}},
    "own_scores": {"score": "scaled-dot", "causal": True, "w_query": [[0] * 3] * 4, "substitutes": {"scores": SCORES}},
    "own_inputs": {"substitutes": {"inputs": [[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]]}},
    "own_query": {"substitutes": {"query": ZERO}},
    "own_key": {"substitutes": {"key": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}},
    "own_value": {"substitutes": {"value": [[1, 2, NONE], [3, 4, INF], [5, -INF, 6]]}},
    "signs": {"substitutes": {"weights": [[-4e-6, -0.0, 0.5], [0, 1, 0], [-1e-9, 0.9, 0.1]],
                              "value": [[-4e-6, 1.5, -0.0], [1.5, 2, 3], [1, 2, 3]]}},
    # Rows that are no shares: too much, nothing, too little with a weight below 0.
    "own_weights": {"causal": True, "substitutes": {"weights": [[5, 0, 0], [0, 0, 0], [-0.4, 0.3, 0.037]]}},
    "own_hidden": {"mask": [[0, 0, 0]] * 3, "substitutes": {"weights": [[0, 0.25, 0.75]] * 3}},
    # The embedding swaps the first two numbers of an input.
    "embedded": {"w_embed": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], "b_query": [[1, 0, 0]],
                 "b_key": [[0, 0.5, 0]], "b_value": [[10, 20, 30]]},
    "own_embedded": {"w_embed": [[1, 0, 0, 0]] * 4, "substitutes": {"embedded": BASE["inputs"]}},
    "additive": {"score": "additive", "score_w_query": [[1, 0, 0.5], [0, -1, 0]], "score_w_key": [[0.5, 0, 0], [0, 0.25, 1]],
                 "score_v": [2, 1]},
    "concat": {"score": "concat", "score_w": [[1, 0, 0, 0.5, 0, 0], [0, -1, 0.5, 0, 0, 1]], "score_v": [2, -1],
               "scale": 0.5},
    "bilinear": {"score": "bilinear", "score_w": [[1, 0, 0], [0, 0.5, 0], [0, 0, -0.25]]},
    "one_input": {"inputs": [[1, 0, 1, 0]]},
    "heads": {"score": "scaled-dot", "heads": 2, "mask": [[1, 1, 0], [1, 1, 1], [1, 1, 1]],
              "w_query": [[1, 0, 1, 1], [1, 0, 0, 0], [0, 0, 1, 2], [0, 1, 1, 0]],
              "w_key": [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, -1], [1, 1, 0, 0]],
              "w_value": [[0, 2, 0, 1], [0, 3, 0, 0], [1, 0, 3, 0], [1, 1, 0, 2]], "b_value": [[1, 0, 0, 0.5]],
              "w_out": [[1, 0, 1], [0, 1, 0], [2, 0, 0], [0, 0, -1]], "b_out": [[1, 2, 3]]},
}


def rules_of(c):
    rules = []
    if c.get("causal"):
        rules.append(lambda i, j: j > i)
    if "prefix" in c:
        rules.append(lambda i, j: j >= c["prefix"] and j > i)
    if "window" in c:
        left, right, step = c["window"]
        sees = lambda d: (left < 0 or d <= left * step) and (right < 0 or -d <= right * step) and d % step == 0
        rules.append(lambda i, j: not sees(i - j))
    if "mask" in c:
        rules.append(lambda i, j: c["mask"][min(i, len(c["mask"]) - 1)][j] == 0)
    return rules


def hidden_by(c, n):
    """Which rule hides a key, from 1; 0: none."""
    rules = rules_of(c)
    first = lambda i, j: next((r + 1 for r, rule in enumerate(rules) if rule(i, j)), 0)
    return [[first(i, j) for j in range(n)] for i in range(n)]


def softmax(logits):
    """Weights and log-sum-exp of a row."""
    if all(x == -INF for x in logits):
        return [0.0] * len(logits), -INF
    if any(map(math.isnan, logits)):
        return [NONE] * len(logits), NONE
    terms = [math.exp(x - max(logits)) for x in logits]
    return [x / sum(terms) for x in terms], max(logits) + math.log(sum(terms))


def weighted(weight, value):
    """A value that nobody sees is left out, whatever it holds."""
    return [0.0 if weight == 0 else weight * x for x in value]


def attend(logits, value):
    rows = [softmax(row) for row in logits]
    return [row[0] for row in rows], [row[1] for row in rows]


def sums(weights, value):
    products = [[weighted(w, v) for w, v in zip(row, value)] for row in weights]
    return products, [[sum(column) for column in zip(*rows)] for rows in products]


def score_of(c, q, k):
    kind, dot = c["score"], lambda a, b: sum(x * y for x, y in zip(a, b))
    apply = lambda m, x: [dot(row, x) for row in m]
    if kind == "additive":
        hidden = [x + y for x, y in zip(apply(c["score_w_query"], q), apply(c["score_w_key"], k))]
        return dot(c["score_v"], [math.tanh(x) for x in hidden])
    if kind == "concat":
        return dot(c["score_v"], [math.tanh(x) for x in apply(c["score_w"], q + k)])
    if kind == "bilinear":
        return dot(q, apply(c["score_w"], k))
    return dot(q, k)


def plus(rows, bias):
    return [[x + b for x, b in zip(row, bias[0])] for row in rows] if bias else rows


def steps(c, own):
    """The intermediates, of which `own` are put in."""
    t = {"inputs": own.get("inputs", c["inputs"])}
    x = t["inputs"]
    if "w_embed" in c:
        x = t["embedded"] = own.get("embedded", mul(x, turned(c["w_embed"])))
    for name in ("query", "key", "value"):
        t[name] = own.get(name, plus(mul(x, c["w_" + name]), c.get("b_" + name)))
    scale = c.get("scale", 1 / math.sqrt(len(t["query"][0])) if c["score"] == "scaled-dot" else 1)
    t["scores"] = own.get("scores", [[score_of(c, q, k) for k in t["key"]] for q in t["query"]])
    hidden = hidden_by(c, len(x))
    t["logits"] = own.get("logits", [[-INF if h else scale * s for s, h in zip(*both)] for both in zip(t["scores"], hidden)])
    t["weights"], t["log_sum_exp"] = attend(t["logits"], t["value"])
    t["weights"] = own.get("weights", t["weights"])
    t["weighted_values"], t["output"] = sums(t["weights"], t["value"])
    return t, scale, hidden


def split(rows, heads):
    size = len(rows[0]) // heads
    return [[row[h * size:(h + 1) * size] for row in rows] for h in range(heads)]


def head_steps(c):
    t, n, heads = {"inputs": c["inputs"]}, len(c["inputs"]), c["heads"]
    for name in ("query", "key", "value"):
        t["projected " + name] = plus(mul(c["inputs"], c["w_" + name]), c.get("b_" + name))
        t[name] = split(t["projected " + name], heads)
    scale, hidden = 1 / math.sqrt(len(t["query"][0][0])), hidden_by(c, n)
    t["logits"] = [[[-INF if hidden[i][j] else scale * x for j, x in enumerate(row)] for i, row in enumerate(mul(q, turned(k)))]
                   for q, k in zip(t["query"], t["key"])]
    t["weights"] = [attend(logits, None)[0] for logits in t["logits"]]
    t["heads"] = [sums(weights, value)[1] for weights, value in zip(t["weights"], t["value"])]
    t["merged"] = [sum(rows, []) for rows in zip(*t["heads"])]
    t["output"] = plus(mul(t["merged"], c["w_out"]), c.get("b_out"))
    return t, scale, hidden


def numbers_of(changes):
    """All tensors of an explanation under their names, its scale and its mask."""
    c = {**BASE, **changes}
    given = {name: c[name] for name in c if re.match("[wb]_|score_[wv]", name)}
    if c.get("heads"):
        t, scale, hidden = head_steps(c)
        return {**given, **t}, scale, hidden if rules_of(c) else None
    own = c.get("substitutes", {})
    t, scale, hidden = steps(c, own)
    truth = steps(c, {})[0]
    label = c.get("labels", ["input 1"])[0]
    t.update({f"{name} of {label}": t[name][0] for name in ("logits", "weights", "log_sum_exp", "weighted_values", "output")})
    if own:
        t["true output"] = truth["output"]
    for name in own:
        t["true " + name] = truth[name]
        if name in ("logits", "weights"):
            t[f"true {name} of {label}"] = truth[name][0]
    if c.get("tutorial") and not own:
        for name, change in [("unscaled", {}), ("scaled", CASES["scaled"]), ("scaled, look-ahead", CASES["look_ahead"])]:
            t["output, " + name] = steps({**BASE, **change}, {})[0]["output"]
    return {**given, **t}, scale, hidden if rules_of(c) and "logits" not in own else None


def plain(x):
    """Numbers that JSON lacks are strings."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, list):
        return [plain(value) for value in x]
    return x if not isinstance(x, float) or math.isfinite(x) else "nan" if x != x else "inf" if x > 0 else "-inf"


# The texts.

NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]\d+)?|inf)|nan"


class Vector(list):
    def __rmul__(self, factor):
        return Vector(0 if factor == 0 else factor * x for x in self)

    def __add__(self, other):
        return Vector(x + y for x, y in zip(self, other))


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, (list, tuple)) else [x]


def is_near(shown, exact, least=6e-6):
    """As printed: five digits after the point, or six in all."""
    shown, exact = flat(shown), flat(exact)
    same = lambda a, b: (a != a and b != b) or a == b or abs(a - b) <= max(least, 1e-4 * abs(b) if abs(b) > 1e6 else 0)
    return len(shown) == len(exact) and all(map(same, shown, exact))


def value_of(text):
    """Of an expression; None if it is none."""
    text = re.sub(rf"\(((?:{NUMBER})(?: (?:{NUMBER}))+)\)", lambda m: "Vector([" + m[1].replace(" ", ",") + "])", text)
    text = re.sub(rf"({NUMBER}) (?=Vector)", r"\1 * ", text).replace(" x ", " * ")
    if re.sub(r"Vector|exp|sqrt|inf|nan|[\d.e+*/(), \[\]-]", "", text):
        return None
    try:
        return eval(text, {"Vector": Vector, "exp": math.exp, "sqrt": math.sqrt, "inf": INF, "nan": NONE})
    except SyntaxError:
        return None


def check_equation(line, tensors, labels):
    """Each part between " = " against the one before, of numbers that were rounded; returns how many there were."""
    checked, before = 0, None
    if part := re.match(r"  head 1: (?:(\S+) x )?(?:their sum is )?(\(.*\))(?:  of key (\d+))?$", line):
        if part[1]:
            key = int(part[3]) - 1
            assert is_near([float(part[1]), value_of(part[2])], [tensors["weights"][0][0][key], tensors["value"][0][key]])
        return part[1] is not None or is_near(value_of(part[2]), tensors["heads"][0][0])
    line = re.sub(r"  (for|of) .*$", "", re.sub(r" \(substituted\)|^head 1: ", "", line.strip()))
    for part in re.split(r" = |,  (?=[x/] |hidden|replaced)", line):
        part = re.sub(r"^hidden.*: |^replaced by ", "", part)
        value = value_of(f"{before} {part}" if re.match(r"[x/] ", part) else part)
        if value is None:  # a name, or a score of names
            name = re.match(r"(query|key|value) (?:of )?(.*?) *$", part)
            key = re.search(r".*\bkey (?:of )?(.*?)[)\]]*$", part)
            if part in tensors:
                value = tensors[part]
            elif name and name[2] in labels and len(tensors[name[1]]) == len(labels):
                own = tensors.get("true " + name[1], tensors[name[1]])  # what it would be without a substitute
                value = Vector(own[labels.index(name[2])])
            elif key and "scores" in tensors:
                value = tensors["scores"][0][labels.index(key[1])]
        elif before is not None and not re.match(r"[x/] |-inf", part):
            largest = max([1] + [abs(float(x)) for x in re.findall(NUMBER, line) if abs(float(x)) < INF])
            undefined = before != before  # exp(-inf - (-inf)), which is said to be 0
            assert undefined or is_near(value, before, 1e-5 * largest), (line, value, before)
            checked += 1
        before = value if value is not None else before
    return checked


HEADER = re.compile(r"(?<=  )(\w[\w, -]*?)(?:\[(\d+)\])? \[(\d+(?:, \d+)*)\](?: \(substituted\))?(?=  |$)")


def check_tables(lines, tensors):
    """Compares each table with the tensor of its name; returns the lines that were read."""
    read = set()
    for n, line in enumerate(lines):
        headers = list(HEADER.finditer(line))
        for at, header in enumerate(headers):
            name, index, shape = header[1], header[2], [int(x) for x in header[3].split(", ")]
            exact = tensors[name][int(index) - 1] if index else tensors[name]
            count = 1 if len(shape) == 1 else shape[0]
            end = headers[at + 1].start() if at + 1 < len(headers) else None
            rows = [lines[n + 1 + i][header.start():end].split()[-shape[-1]:] for i in range(count)]
            assert is_near([[float(x) for x in row] for row in rows], exact), (name, rows, exact)
            read.update(range(n, n + 1 + count))
    return read


def softer_scale(tensors, scale):
    """Of logits that lie far apart, so that nearly all weight goes to one key per row: one at which they lie 8 apart."""
    top = sum(max(row) for row in tensors["weights"]) / len(tensors["weights"])
    finite = [0] + [x for x in flat(tensors["logits"]) if abs(x) < INF]
    apart = max(finite) - min(finite)
    return float(f"{abs(scale) * 8 / apart:.1g}") if top >= 0.95 and apart >= 8 else None


def check_sums(whole, tensors, labels):
    """What is said of the sums of rows; returns the text without it."""
    heads = tensors["weights"] if isinstance(tensors["weights"][0][0], list) else [tensors["weights"]]
    is_one = lambda row: abs(sum(row) - 1) < 5e-6
    others = [(f"head {h + 1}, " if len(heads) > 1 else "", i, sum(row)) for h, head in enumerate(heads)
              for i, row in enumerate(head) if not is_one(row)]
    for found in re.finditer(r"Each\s+row\s+of\s+weights\s+adds\s+up\s+to\s+1(?:,\s+but\s+for\s(.*?\)))?\.\n", whole, re.S):
        named = re.findall(r"(head \d, |)query (?:of )?(\S+) \((\S+)\)", re.sub(r"\s+", " ", found[1] or ""))
        assert len(named) == len(others), (found[0], others)
        for (head, query, total), (its_head, i, its_total) in zip(named, others):
            assert head == its_head and query in (str(i + 1), labels[i]), found[0]
            assert is_near(float(total), its_total), (found[0], its_total)
        whole = whole.replace(found[0], "\n")
    for label, row in zip(labels, heads[0]) if "attends most" in whole else []:
        tail = re.search(label + r" attends most to (?:(?! attends )[^;])*(;\s+its\s+weights\s+add\s+up\s+to\s+(\S+),\s+not\s+to\s+1)", whole)
        assert bool(tail) == (any(x == x and x != 0 for x in row) and not is_one(row)), (label, row)
        if tail:
            assert is_near(float(tail[2]), sum(row)), tail[0]
            whole = whole.replace(tail[0], tail[0][:tail.start(1) - tail.start()])
    return whole


def check_text(name, tensors, scale):
    lines = (HERE / (name + ".txt")).read_text().split("\n")
    read = check_tables(lines, tensors)
    labels = CASES[name].get("labels", [f"input {i + 1}" for i in range(len(tensors["inputs"]))])
    numbers = CASES[name].get("labels", [str(i + 1) for i in range(len(tensors["inputs"]))])
    whole = check_sums("\n".join(line for n, line in enumerate(lines) if n not in read), tensors, labels)
    for found in re.finditer(r"^  (\S[^\n]*? attends most to (?:.|\n   ?)*?\))(?=\n  \S|\n\n|\n?\Z)|"
                               r"^  (\S+ attends to   [^\n]*\))$", whole, re.M):
        sentence = found[0]
        row = tensors["weights"][labels.index(sentence.strip().split(" attends")[0])]
        for key, weight in re.findall(r"([^,()]+?) \((\S+)\)", re.sub(r"\s+", " ", sentence)):
            key = next(label for label in labels if key.endswith(label))
            assert is_near(float(weight), row[labels.index(key)]), sentence
        whole = whole.replace(sentence, "")
    if "heads" not in CASES[name]:
        expected = None if "substitutes" in CASES[name] else softer_scale(tensors, scale)
        hint = re.search(r"try --scale (\S+)", whole)
        assert (hint and float(hint[1])) == expected, name
        whole = whole.replace(hint[0], "") if hint else whole
    for line in whole.split("\n"):
        prose = re.search(r"utorials print|to one decimal|\]\]\.|may attend|rounds to|~0|--substitute|\[\[0|picked by hand|multiplied by|= softmax", line)
        if re.search(r"\d\.\d|\d = | = -?\d", line) and not check_equation(line, tensors, numbers) and not prose:
            raise SystemExit(f"{name}.txt: not checked: {line}")


def check_json(name, tensors):
    for line in (HERE / f"steps_{name}.json.txt").read_text().split("\n"):
        for block in json.loads(line)["blocks"] if line.startswith("{") else []:
            for one in block["tensors"]:
                values = [float(x) for x in flat(one["values"])]
                assert is_near(values, tensors[one["name"]], 1e-8), (name, one["name"])


if __name__ == "__main__":
    found = []
    for case, change in CASES.items():
        all_tensors, factor, mask = numbers_of(change)
        found.append({"name": case, "input": {**BASE, **change}, "tensors": all_tensors, "scale": factor, "hidden": mask})
    text = ",\n".join(json.dumps(plain(one)) for one in found)
    (HERE / "steps.json").write_text(f"[{text}]\n")
    for case in CASES:
        tensors, factor, _ = numbers_of(CASES[case])
        check_text(case, tensors, factor)
        if (HERE / f"steps_{case}.json.txt").exists():
            check_json(case, tensors)

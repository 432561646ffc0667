"""What is raced: shapes, masks and element types, their numbers, and the exact result to judge outputs by."""

import random
from dataclasses import dataclass, replace

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

# Operations of a pass for each of forward's: two products become five.
WORK = {"forward": 1, "backward": 2.5, "both": 3.5}

# Largest error that still counts as the right answer: rounding of inputs of size 1 in the weights and in the output.
TOLERANCE = {"f32": 2e-5, "bf16": 4e-2, "f16": 4e-3}

WINDOW = 128  # keys before a query that it sees beside its own
DOCUMENT = 512  # tokens


@dataclass(frozen=True)
class Case:
    section: str
    name: str
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    head_dim: int
    dtype: str = "f32"
    causal: bool = False
    # A quarter of the keys: "lengths" (at the end), "scattered" (a boolean mask). All but a causal "window", or all but the
    # query's own of several "documents".
    hidden: str = ""
    passes: str = "forward"  # or "backward", or "both"
    dropout: float = 0.0
    reduced: bool = False  # ours with precision = reduced; others multiply as they do anyway

    @property
    def shape(self):
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads} on {self.kv_heads}"
        lengths = f"{self.q_len}" if self.q_len == self.k_len else f"{self.q_len} x {self.k_len}"
        return f"({self.batch}, {heads}, {lengths}, {self.head_dim})"


def drawn_at_random(count, seed=20):
    """Shapes that nobody chose: log-uniform sizes, from 0.1 to 4 billion operations."""
    draw = random.Random(seed)
    cases = []
    while len(cases) < count:
        batch, heads = draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 2, 4, 6, 8, 12, 16])
        q_len = round(2 ** draw.uniform(4, 11))
        k_len = q_len if draw.random() < 0.7 else round(2 ** draw.uniform(4, 11))
        head_dim = draw.choice([24, 32, 40, 64, 64, 80, 96, 128])
        causal = q_len == k_len and draw.random() < 0.4
        if 1e8 <= 4 * batch * heads * q_len * k_len * head_dim <= 4e9:
            name = f"random {len(cases) + 1}" + (" causal" if causal else "")
            cases.append(Case("random", name, batch, heads, heads, q_len, k_len, head_dim, causal=causal))
    return cases


def all_cases():
    cases = [
        Case("models", "ViT", 1, 12, 12, 197, 197, 64),
        Case("models", "MiniLM", 8, 12, 12, 128, 128, 32),
        Case("models", "BERT", 1, 12, 12, 512, 512, 64),
        Case("models", "GPT causal", 1, 12, 12, 1024, 1024, 64, causal=True),
        Case("models", "LLM causal", 1, 8, 8, 2048, 2048, 128, causal=True),
        Case("models", "long", 1, 4, 4, 4096, 4096, 64),
    ]
    for passes in ("backward", "both"):
        section = "backward" if passes == "backward" else "training"
        cases += [replace(case, section=section, passes=passes) for case in cases if case.section == "models"]
    for name, changes in (("bf16", {"dtype": "bf16"}), ("f16", {"dtype": "f16"}), ("dropout", {"dropout": 0.1})):
        for case in [case for case in cases if case.section == "training" and case.name in ("BERT", "GPT causal")]:
            cases.append(replace(case, section="training variants", name=f"{case.name} {name}", **changes))
    cases += drawn_at_random(8)
    cases += [
        Case("masks", "padded", 4, 12, 12, 256, 256, 64, hidden="lengths"),
        Case("masks", "padded, short", 16, 12, 12, 64, 64, 32, hidden="lengths"),
        Case("masks", "scattered", 4, 12, 12, 256, 256, 64, hidden="scattered"),
        Case("masks", "causal window", 1, 4, 4, 8192, 8192, 64, hidden="window"),
        Case("masks", "documents", 1, 4, 4, 8192, 8192, 64, hidden="documents"),
    ]
    for dtype in ("bf16", "f16"):
        cases.append(Case("half types", f"BERT {dtype}", 1, 12, 12, 512, 512, 64, dtype))
        cases.append(Case("half types", f"GPT causal {dtype}", 1, 12, 12, 1024, 1024, 64, dtype, causal=True))
    for case in [case for case in cases if case.section == "half types" and case.dtype == "bf16"]:
        cases.append(replace(case, name=f"{case.name} reduced", reduced=True))
    for dtype in DTYPES:
        cases.append(Case("decode", f"decode {dtype}", 1, 32, 8, 1, 4096, 128, dtype))
    return cases


class Arrays:
    """The numbers of a case: query, key, value, and what hides keys."""

    def __init__(self, case):
        self.case = case
        draw = torch.Generator().manual_seed(1)

        def normal(heads, length):
            shape = (case.batch, heads, length, case.head_dim)
            return torch.randn(shape, generator=draw).to(DTYPES[case.dtype])

        self.query = normal(case.heads, case.q_len)
        self.key = normal(case.kv_heads, case.k_len)
        self.value = normal(case.kv_heads, case.k_len)
        self.grad_out = None if case.passes == "forward" else normal(case.heads, case.q_len)
        self.lengths = None  # [batch], the first sequence is full, the mean is three quarters
        self.window = None  # [2], keys before and after
        self.documents = None  # [q_len], the document of each token
        self.visible = None  # [batch, 1, 1 or q_len, k_len], what each way of hiding leaves
        if case.hidden == "lengths":
            steps = torch.arange(case.batch) / (2 * (case.batch - 1))
            self.lengths = torch.round(case.k_len * (1 - steps)).to(torch.int64)
            self.visible = (torch.arange(case.k_len) < self.lengths[:, None])[:, None, None, :]
        elif case.hidden == "scattered":
            self.visible = torch.rand((case.batch, 1, 1, case.k_len), generator=draw) >= 0.25
        elif case.hidden == "window":
            self.window = torch.tensor([WINDOW, 0])
            distance = torch.arange(case.q_len)[:, None] - torch.arange(case.k_len)
            self.visible = ((distance >= 0) & (distance <= WINDOW))[None, None]
        elif case.hidden == "documents":
            self.documents = torch.arange(case.q_len) // DOCUMENT
            self.visible = (self.documents[:, None] == self.documents)[None, None]

    def pairs(self):
        """Pairs of query and key that may attend, over all heads."""
        case = self.case
        if self.visible is not None:
            return case.heads * int(self.visible.sum()) * case.q_len // self.visible.shape[2]
        return case.batch * case.heads * case.q_len * case.k_len // (2 if case.causal else 1)

    def work(self):
        """Operations of the passes over many queries, bytes of keys and values of a decoding step."""
        if self.case.section == "decode":
            return 2 * self.key.numel() * self.key.element_size()
        return WORK[self.case.passes] * 4 * self.pairs() * self.case.head_dim

    def largest_error(self, output):
        """Of outputs, or of gradients of queries, against f64, for up to 256 queries of each head."""
        case = self.case
        if case.dropout > 0:  # each library drops other weights
            return 0.0
        rows = torch.arange(0, case.q_len, -(-case.q_len // 256))
        worst = 0.0
        for b in range(case.batch):
            for h in range(case.heads):
                kv = h // (case.heads // case.kv_heads)
                key, value = self.key[b, kv].double(), self.value[b, kv].double()
                logits = self.query[b, h, rows].double() @ key.T / case.head_dim**0.5
                if case.causal:
                    logits.masked_fill_(torch.arange(case.k_len) > rows[:, None], -torch.inf)
                if self.visible is not None:
                    visible = self.visible[b, 0]
                    logits.masked_fill_(~(visible if len(visible) == 1 else visible[rows]), -torch.inf)
                weights = torch.softmax(logits, -1)
                exact = weights @ value
                if self.grad_out is not None:
                    grad_out = self.grad_out[b, h, rows].double()
                    below = (grad_out * exact).sum(-1, keepdim=True)
                    exact = weights * (grad_out @ value.T - below) @ key / case.head_dim**0.5
                difference = (exact - torch.from_numpy(output[b, h])[rows].double()).abs().max().item()
                worst = difference if not difference <= worst else worst  # NaN is the worst
        return worst

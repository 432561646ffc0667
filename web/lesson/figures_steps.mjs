// The computation: the eight steps, the root of the size, the masks, the heads.
import { explain, tensor } from "./program.mjs";
import { arrow, bar, box, line, matrix, picture, shares, text, weighed } from "./svg.mjs";

export function eight_steps() {
  const steps = explain();
  const row = (name) => [tensor(steps, name)];
  const query = [tensor(steps, "query")[0]];
  const keys = tensor(steps, "key");
  const values = tensor(steps, "value");
  const weights = tensor(steps, "weights of input 1");
  const parts = tensor(steps, "weighted_values of input 1");
  const down = (y) => arrow([180, y], [180, y + 16]);
  return picture(572, [
    text(16, 24, "1 to 3", { is: "p-ink p-strong" }),
    text(60, 24, "inputs x weights: query, keys, values", {}),
    matrix(20, 54, "query 1", query, "query"),
    matrix(130, 54, "keys", keys, "key"),
    matrix(250, 54, "values", values, "value"),
    down(124),
    text(16, 166, "4", { is: "p-ink p-strong" }),
    text(60, 166, "query 1 . each key", {}),
    matrix(60, 192, "scores", row("logits of input 1"), "score", { cell: 62 }),
    down(218),
    text(16, 258, "5", { is: "p-ink p-strong" }),
    text(60, 258, "softmax: shares that sum to 1", {}),
    matrix(60, 284, "weights", [weights], "weight", { cell: 62, shade: weighed }),
    down(310),
    text(16, 350, "6", { is: "p-ink p-strong" }),
    text(60, 350, "weight x value, key by key", {}),
    matrix(60, 376, "weighted values", parts, "value", { cell: 62, shade: (_, i) => weighed(weights[i]) }),
    down(446),
    text(16, 486, "7", { is: "p-ink p-strong" }),
    text(60, 486, "the sum is output 1", {}),
    matrix(60, 512, "output", row("output of input 1"), "output", { cell: 62 }),
    text(16, 556, "8", { is: "p-ink p-strong" }),
    text(60, 556, "the same for inputs 2 and 3", {}),
  ]);
}

const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

// 64 inputs, standard normal; the weights keep the variance of an input's numbers.
export function root() {
  const measured = [16, 64, 256, 1024].map((size) => {
    const [plain, scaled] = [["--scale", 1], []].map((scale) => explain("--inputs", 64, "--dim", size, ...scale));
    const logits = tensor(plain, "logits").flat();
    const middle = mean(logits);
    const largest = (steps) => mean(tensor(steps, "weights").map((row) => Math.max(...row)));
    return {
      size,
      variance: mean(logits.map((x) => (x - middle) ** 2)),
      plain: largest(plain),
      scaled: largest(scaled),
    };
  });
  return picture(386, [
    text(16, 24, "Variance of the scores, no root", { is: "p-ink p-strong" }),
    measured.map((one, i) =>
      bar(16, 36 + i * 22, `d ${one.size}`, one.variance, (one.variance / measured.at(-1).variance) * 200, "score", one.variance.toFixed(1)),
    ),
    text(16, 154, "Largest weight of a row, no root: mean", { is: "p-ink p-strong" }),
    measured.map((one, i) => bar(16, 166 + i * 22, `d ${one.size}`, one.plain, one.plain * 200, "weight", one.plain.toFixed(2))),
    text(16, 284, "The same, scores divided by the root of d", { is: "p-ink p-strong" }),
    measured.map((one, i) => bar(16, 296 + i * 22, `d ${one.size}`, one.scaled, one.scaled * 200, "weight", one.scaled.toFixed(2))),
  ]);
}

export function masks() {
  const padding = explain("--mask", "[[1,1,0]]", "--score", "scaled-dot");
  const causal = explain("--causal", "top-left", "--score", "scaled-dot");
  const grid = (y, title, where, steps) => [
    text(16, y, title, { is: "p-ink p-strong" }),
    where.map((each, i) => text(196, y + 28 + i * 16, each, { size: 11.5 })),
    matrix(16, y + 16, "", tensor(steps, "weights"), "weight", {
      cell: 56,
      shade: weighed,
    }),
  ];
  const names = ["first", "second", "filler"];
  return picture(352, [
    grid(24, "Encoder: padding", ["key 3 is filler:", "its column is 0", "in every row"], padding),
    grid(136, "Decoder: look-ahead", ["query i sees the", "keys up to i: all", "above is 0"], causal),
    text(16, 248, "Encoder-decoder: padding of the source", { is: "p-ink p-strong" }),
    ["target 1", "target 2"].map((name, i) => text(16, 286 + i * 22, name, { role: "query", size: 11.5 })),
    names.map((name, j) => text(104 + j * 56, 266, name, { role: "key", size: 11.5, at: "middle" })),
    [0, 1].map((i) => names.map((_, j) => box(78 + j * 56, 272 + i * 22, 52, 18, "weight", j < 2 ? 0.35 : 0, 3))),
    [0, 1].map((i) => text(216, 285 + i * 22, "hidden", { size: 10.5, at: "middle", is: "p-faint" })),
    text(16, 338, "No look-ahead mask here: the source is there whole.", { size: 11.5 }),
  ]);
}

export function heads() {
  const steps = explain("--inputs", 4, "--dim", 6, "--heads", 2);
  const weights = tensor(steps, "weights");
  const merged = tensor(steps, "merged");
  return picture(506, [
    text(16, 24, "Project all heads at once, [4, 6]", { is: "p-ink p-strong" }),
    [
      ["query", 0],
      ["key", 1],
      ["value", 2],
    ].map(([role, i]) => [
      box(20 + i * 112, 36, 46, 40, role, 0.4),
      box(66 + i * 112, 36, 46, 40, role, 0.08),
      text(66 + i * 112, 92, role, { role, size: 11.5, at: "middle" }),
      text(43 + i * 112, 60, "1", { size: 11.5, at: "middle" }),
      text(89 + i * 112, 60, "2", { size: 11.5, at: "middle" }),
    ]),
    text(16, 120, "Split: [4, 6] to [4, 2, 3] to [2, 4, 3]", { is: "p-ink p-strong" }),
    arrow([95, 132], [95, 148]),
    arrow([265, 132], [265, 148]),
    [0, 1].map((head) => [
      text(30 + head * 170, 166, `head ${head + 1}: its weights`, { size: 11.5 }),
      shares(30 + head * 170, 174, weights[head], 33),
    ]),
    arrow([95, 312], [95, 328]),
    arrow([265, 312], [265, 328]),
    text(16, 348, "Merge: side by side again, [4, 6]", { is: "p-ink p-strong" }),
    matrix(16, 366, "", merged, "output", {
      cell: 55,
      size: 10.5,
      shade: (_, __, j) => (j < 3 ? 0.22 : 0.05),
    }),
    line([[179.5, 362], [179.5, 456]], "output"),
    text(98, 470, "head 1", { size: 11.5, at: "middle" }),
    text(262, 470, "head 2", { size: 11.5, at: "middle" }),
    text(16, 494, "Then w_out mixes them: [4, 6] x [6, 6]", { is: "p-ink p-strong" }),
  ]);
}

// The answers of the lesson's questions, computed anew by plain arithmetic, each from its question alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { questions_of, titles, written } from "./chapters.mjs";

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
const softmax = (logits) => logits.map((x) => Math.exp(x) / sum(logits.map(Math.exp)));
const blend = (weights, values) => values[0].map((_, d) => sum(weights.map((w, j) => w * values[j][d])));
const matmul = (a, b) => a.map((row) => b[0].map((_, j) => sum(row.map((x, i) => x * b[i][j]))));
const count = (n, holds) => Array.from({ length: n }, (_, i) => i).filter(holds).length;
// The upper left pixels of patches.
const corners = (side, patch) => count(side ** 2, (pixel) => (pixel % side) % patch === 0 && Math.floor(pixel / side) % patch === 0);

const kKeys = [[0, 1, 1], [4, 4, 0], [2, 3, 1]];
const kValues = [[1, 2, 3], [2, 8, 0], [2, 6, 3]];
const kQueries = [[1, 0, 2], [2, 2, 2], [2, 1, 3]];

// How far back causal convolutions of width 3 see, tap by tap.
function reach(dilations) {
  let seen = new Set([0]);
  for (const dilation of dilations) seen = new Set([...seen].flatMap((at) => [at, at + dilation, at + 2 * dilation]));
  return Math.max(...seen);
}

// The mean over queries of the largest of 64 weights, of random queries and keys.
function largest_weight(size) {
  let state = 1;
  const uniform = () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) + 0.5) / 2 ** 32;
  const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  const rows = () => Array.from({ length: 64 }, () => Array.from({ length: size }, normal));
  const keys = rows();
  return sum(rows().map((query) => Math.max(...softmax(keys.map((key) => dot(query, key)))))) / 64;
}

const position = (p) => [Math.sin(p), Math.cos(p), Math.sin(p / 100), Math.cos(p / 100)];

// The most probable two tokens among beginnings that `beams` kept.
function search(beams) {
  const firsts = [["A", 0.6, 0.3], ["B", 0.4, 0.9]].sort((a, b) => b[1] - a[1]).slice(0, beams);
  return Math.max(...firsts.map(([, first, second]) => first * second));
}

const loss = (logits) => -Math.log(softmax(logits)[0]);
const outputs = (order) => order.map((i) => blend(softmax(order.map((j) => dot(kQueries[i], kKeys[j]))), order.map((j) => kValues[j])));
const cache = (heads) => {
  let bytes = 0;
  for (let layer = 0; layer < 30; ++layer) for (const _ of ["keys", "values"]) bytes += heads * 64 * 4 * 1000;
  return bytes / 1e6;
};

// For each chapter its questions in turn: a number, or the text of the choice.
const kAnswers = [
  [() => reach([1, 2, 4, 8]), () => reach([1, 2, 4, 8, 16])],
  [
    () => {
      const weights = softmax(kKeys.map((key) => dot([0, 0, 1], key)));
      return weights[0] === weights[2] && weights[0] > weights[1] ? "to inputs 1 and 3 alike" : "";
    },
    () => 1 + kKeys.map((key) => dot([0, 1, 0], key)).reduce((best, score, i, all) => (score > all[best] ? i : best), 0),
  ],
  [() => (100 * count(4096, (key) => Math.abs(key - 2048) <= 64)) / 4096, () => 3000 ** 2 / 1000 ** 2],
  [() => (Math.exp(4) / Math.exp(2) > 2 ? "more than twice" : ""), () => softmax([1, 3, 3])[0]],
  [
    () => {
      const measured = [16, 1024].map(largest_weight);
      const near = (wanted) => wanted.every((x, i) => Math.abs(x - measured[i]) < 0.06);
      return ["0.05 and 0.05", "0.10 and 0.11", "0.57 and 0.94"].filter((one) => near(one.split(" and ").map(Number))).join();
    },
    () => Math.hypot(...Array(64).fill(1)),
  ],
  [() => `value 1, (${blend(softmax([dot(kQueries[0], kKeys[0])]), kValues.slice(0, 1)).join(" ")})`, () => sum(softmax([5, 5, 5]).slice(1))],
  [
    () => {
      const x = [[1, 2, 3], [4, 5, 6]], packed = [[1, 0, 2, 3], [2, 1, 0, 1], [0, 3, 1, 2]];
      const own = [0, 2].map((first) => matmul(x, packed.map((row) => row.slice(first, first + 2))));
      return Math.max(...matmul(x, packed).flatMap((row, i) => row.map((value, j) => Math.abs(value - own[j >> 1][i][j & 1]))));
    },
    () => count(512, (number) => number % 8 === 0),
  ],
  [
    () => {
      const near = (a, b) => a.every((x, i) => Math.abs(x - b[i]) < 1e-12);
      const [before, after] = [outputs([0, 1, 2]), outputs([1, 0, 2])];
      return near(before[0], after[1]) && near(before[1], after[0]) && near(before[2], after[2]) ? "outputs 1 and 2 swap, output 3 stays" : "";
    },
    () => ["encoder", "decoder", "between"].flatMap(() => Array(6).fill(8)).reduce((a, b) => a + b),
  ],
  [() => dot(position(1000), position(1001)), () => [600].filter((tokens) => tokens > 512).map((tokens) => `a text of ${tokens} tokens`)[0]],
  [
    () => [["Eres divertido", 6 * -1.158], ["Bienvenido", 5 * -1.27]].sort((a, b) => b[1] - a[1])[0][0],
    () => search(2),
    () => (256 * 4000) / 1e6,
  ],
  [
    () => {
      const [right, other] = [Math.log(0.06), Math.log(0.94)];
      return (loss([right + 1e-4, other]) - loss([right - 1e-4, other])) / 2e-4;
    },
    () => loss([1, 1]),
    () => 1 - 0.1 * (((1 + 1e-6) ** 2 - (1 - 1e-6) ** 2) / 2e-6), // w^2 has the gradient 2 at 1
  ],
  [
    () => {
      const rows = [...written[11].matchAll(/^ +\d (De|\(start\)) .* ([\d.]+)$/gm)].map(([, name, fall]) => [name, Number(fall)]);
      return rows.sort((a, b) => b[1] - a[1])[0][0] === "De" ? '"De"' : "the start mark";
    },
    () => (0.2 * 4) / (0.6 * 1),
  ],
  [() => (1 + corners(28, 4)) ** 2, () => 1 + corners(224, 16)],
  [() => cache(3), () => cache(9)],
];

for (const [i, title] of titles.entries()) {
  test(`the answers of "${title}"`, () => {
    const questions = questions_of(written[i]);
    assert.equal(questions.length, kAnswers[i].length);
    for (const [n, { kind, choices, answer }] of questions.entries()) {
      const computed = kAnswers[i][n]();
      if (kind === "choose") {
        assert.equal(computed, answer);
        assert.ok(choices.split("\n").includes(`- ${answer}`), answer);
      } else {
        const half = 0.5001 * 10 ** -(answer.split(".")[1]?.length ?? 0);
        assert.ok(Math.abs(computed - Number(answer)) <= half, `${computed} for ${answer}`);
      }
    }
  });
}

// What goes in and what comes out: positions, the way from a vector to a word, one update of what is learned.
import { readFileSync } from "node:fs";
import { explain, gradient_of, tensor, translated } from "./program.mjs";
import { arrow, bar, matrix, picture, text, weighed } from "./svg.mjs";

const kUnit = [0, 1, 2, 3].map((i) => [0, 1, 2, 3].map((j) => Number(i === j)));

// Sine and cosine of a fast and of a slow wave (Vaswani 2017, 4 numbers).
const position = (p) => [Math.sin(p), Math.cos(p), Math.sin(p / 100), Math.cos(p / 100)];

export function positions() {
  const all = Array.from({ length: 8 }, (_, p) => position(p));
  const given = ["--w-query", "--w-key", "--w-value"].flatMap((option) => [option, JSON.stringify(kUnit)]);
  const products = tensor(explain("--input", JSON.stringify(all), ...given, "--score", "dot"), "logits");
  const size = 38;
  const cells = { cell: size, height: 24, size: 10.5, show: (x) => x.toFixed(2) };
  return picture(510, [
    text(16, 24, "Positions 0 to 7, a row each", { is: "p-ink p-strong" }),
    ["sin p", "cos p", "sin p/100", "cos p/100"].map((name, j) => text(60 + j * 76, 44, name, { size: 11, at: "middle" })),
    matrix(24, 52, "", all, "input", { ...cells, cell: 76, shade: (x) => 0.05 + 0.2 * (x + 1) }),
    text(16, 272, "Dot product of each with every other", { is: "p-ink p-strong" }),
    matrix(24, 284, "", products, "score", { ...cells, shade: (x) => 0.05 + 0.25 * Math.max(0, x) }),
    text(16, 498, "Along a diagonal all numbers are alike.", { size: 11.5 }),
  ]);
}

const log_text = (x) => x.toFixed(3);

export function word() {
  const { d_model, vocab_size } = JSON.parse(readFileSync(new URL("../../models/en-es/config.json", import.meta.url), "utf8"));
  const sentence = "You are welcome";
  const { written } = explain("--text", sentence).translation;
  const beams = translated(sentence, "--beams", 4, "--nbest", 3);
  const candidates = ({ token, probability, candidates: most }, top) => [
    text(16, top, `${token}: log-probability ${log_text(Math.log(probability))}`, { is: "p-ink p-strong" }),
    most.slice(0, 4).map((one, i) => bar(16, top + 10 + i * 20, one.token, one.probability, one.probability * 200, "weight", one.probability.toFixed(3))),
  ];
  const sum = written.reduce((all, { probability }) => all + Math.log(probability), 0);
  const lower = 78 + written.length * 112;
  return picture(lower + 128, [
    text(16, 24, `${d_model} numbers x [${d_model}, ${vocab_size}]: ${vocab_size} logits`, { is: "p-ink p-strong" }),
    arrow([180, 34], [180, 50]),
    written.map((one, n) => candidates(one, 72 + n * 112)),
    text(16, lower - 4, `All ${written.length} together: ${log_text(sum)}`, { size: 11.5 }),
    text(16, lower + 28, "Four beams: the best three", { is: "p-ink p-strong" }),
    ["tokens", "sum", "mean"].map((name, j) => text(190 + j * 66, lower + 48, name, { size: 11, at: "end" })),
    beams.map((one, i) => {
      const y = lower + 68 + i * 20;
      const row = [String(one.ids.length), log_text(one.score * one.ids.length), log_text(one.score)];
      return [text(16, y, one.text, { size: 12 }), row.map((each, j) => text(190 + j * 66, y, each, { size: 11, at: "end", is: "p-ink p-number" }))];
    }),
  ]);
}

export function learned() {
  const steps = explain();
  const [vector] = tensor(steps, "query");
  const words = tensor(steps, "key");
  const weights = (one) => tensor(one, "weights of input 1");
  const before = weights(steps);
  const right = [1, 0, 0];
  const at_logits = before.map((p, i) => p - right[i]);
  const at_vector = gradient_of(vector, words, [-1 / before[0], 0, 0]);
  const updated = vector.map((x, i) => x - 0.1 * at_vector[i]);
  const after = weights(explain("--substitute", `query=${JSON.stringify([updated, ...tensor(steps, "query").slice(1)])}`));
  const wide = { cell: 62 };
  const rows = [
    ["vector", [vector], "query"],
    ["logits: vector . each word", [tensor(steps, "logits of input 1")], "score"],
    ["probabilities; the first word is right", [before], "weight", weighed],
    ["gradient at the logits: probability, right one - 1", [at_logits], "score"],
    ["gradient at the vector", [at_vector], "query"],
    ["vector - 0.1 x gradient", [updated], "query"],
    ["probabilities after the update", [after], "weight", weighed],
  ];
  return picture(548, [
    matrix(264, 30, "words", words, "key"),
    rows.map(([name, values, role, shade], i) => [
      text(16, 26 + i * 70, name, { is: "p-ink p-strong" }),
      matrix(24, 34 + i * 70, "", values, role, shade ? { ...wide, shade } : wide),
      i < rows.length - 1 && i > 0 ? arrow([12, 38 + i * 70], [12, 66 + i * 70]) : "",
    ]),
    text(16, 512, `Loss before ${(-Math.log(before[0])).toFixed(5)}`, { size: 12 }),
    text(16, 532, `Loss after  ${(-Math.log(after[0])).toFixed(5)}`, { size: 12 }),
  ]);
}

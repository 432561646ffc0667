// What each number of a walk is the sum of, by the name of its tensor.
import type { Piece } from "../explanation";
import { number_text } from "../numbers";
import { type Cell, cell_id, number_of_head, type Walk } from "./tensors";
import { count, formula, log_sum_exp, num, plain, type Term, TermsOf } from "./terms_of";

export interface Rule {
  formula: Piece[];
  terms: Term[];
  then?: string; // what happens to the sum: " x 0.5"
  result?: (sum: number) => number; // by it; otherwise the sum
  note?: string;
}

type Rules = (walk: Walk, of: TermsOf, index: readonly number[]) => Rule | null;

const of_matrix =
  (name: string, row: number) =>
  (k: number): Cell => ({ name, index: [row, k] });
const of_column =
  (name: string, column: number) =>
  (k: number): Cell => ({ name, index: [k, column] });

const embedded: Rules = ({ tensors }, of, [i = 0, j = 0]) => ({
  formula: formula("embedded = w_embed x input"),
  terms: of.products(tensors.size("inputs", 1), of_matrix("inputs", i), of_matrix("w_embed", j)),
});

// A query, key or value of all heads, or of the only one.
const projected =
  (part: string): Rules =>
  ({ tensors }, of, [i = 0, j = 0]) => {
    const base = tensors.has("embedded") ? "embedded" : "inputs";
    if (!tensors.has(base) || !tensors.has(`w_${part}`)) return null;
    const bias = of.bias(`b_${part}`, j);
    const products = of.products(tensors.size(base, 1), of_matrix(base, i), of_column(`w_${part}`, j));
    return {
      formula: formula(`${part} = ${base} x w_${part}${bias.length > 0 ? ` + b_${part}` : ""}`),
      terms: [...products, ...bias],
    };
  };

// The same of one head: its columns of all.
const split =
  (part: string): Rules =>
  (walk, of, index) => {
    if (index.length < 3) return projected(part)(walk, of, index);
    const [head = 0, i = 0, d = 0] = index;
    const all: Cell = { name: `projected ${part}`, index: [i, head * walk.tensors.size(part, -1) + d] };
    return {
      formula: formula(`${part} of head ${head + 1} = the same number of projected ${part}`),
      terms: of.copy(all),
    };
  };

function score_formula(walk: Walk): string {
  const { tensors } = walk;
  const in_two = tensors.has("score_w_query");
  if (walk.score === "additive") {
    return in_two ? "score_v . tanh(score_w_query query + score_w_key key)" : "v . tanh(query + key)";
  }
  if (walk.score === "concat") return "score_v . tanh(score_w [query; key])";
  return walk.score === "bilinear" && tensors.has("score_w") ? "query . score_w key" : "query . key";
}

const scores: Rules = (walk, of, index) => {
  const [i = 0, j = 0] = index.slice(-2);
  return { formula: formula(`score = ${score_formula(walk)}`), terms: of.score(index.slice(0, -2), i, j) };
};

const logits: Rules = (walk, of, index) => {
  const { tensors, scale, mask } = walk;
  const [i = 0, j = 0] = index.slice(-2);
  const bias = tensors.has("bias") ? tensors.at("bias", ...index) : null;
  const times = `${scale === 1 ? "" : ` x ${number_text(scale)}`}${bias === null ? "" : ` + bias ${number_text(bias)}`}`;
  const own = tensors.get("scores")?.substituted;
  const rule = {
    formula: formula(`logit = ${own ? "score" : score_formula(walk)}${times}`),
    terms: own ? of.copy({ name: "scores", index: [...index] }) : of.score(index.slice(0, -2), i, j),
    then: times,
    result: (sum: number) => sum * scale + (bias ?? 0),
  };
  const sum = rule.terms.reduce((total, term) => total + term.value, 0);
  if (tensors.at("logits", ...index) !== -Infinity || rule.result(sum) === -Infinity) return rule;
  const note = mask?.rules[(mask.hidden?.[i]?.[j] ?? 0) - 1] ?? "The mask hides this key.";
  return { ...rule, then: `${times}, hidden`, result: () => -Infinity, note };
};

const row_of_logits = ({ tensors }: Walk, lead: readonly number[]): number[] =>
  count(tensors.size("logits", -1)).map((k) => tensors.at("logits", ...lead, k));

const log_sums: Rules = (walk, of, index) => {
  const row = row_of_logits(walk, index);
  return {
    formula: formula("log_sum_exp = log of the sum of exp(logit)"),
    terms: row.map((logit, k) => ({
      label: of.row("key", k),
      factors: [plain("exp("), num(logit, "score"), plain(")")],
      value: Math.exp(logit),
      from: [cell_id("logits", [...index, k])],
    })),
    then: ", its logarithm",
    result: () => log_sum_exp(row),
  };
};

const weights: Rules = (walk, of, index) => {
  const [lead, column] = [index.slice(0, -1), index.at(-1) as number];
  const known = walk.tensors.has("log_sum_exp");
  const sum = known ? walk.tensors.at("log_sum_exp", ...lead) : log_sum_exp(row_of_logits(walk, lead));
  const logit = walk.tensors.at("logits", ...index);
  return {
    formula: formula(
      sum === -Infinity
        ? "weight = 0: all logits of the row are -inf"
        : "weight = exp(logit - log_sum_exp): its share of the sum of all exp(logit) of the row",
    ),
    terms: [
      {
        label: of.row("key", column),
        factors: [plain("exp("), num(logit, "score"), plain(" - "), num(sum, "score"), plain(")")],
        value: logit === -Infinity ? 0 : Math.exp(logit - sum),
        from: [cell_id("logits", index), ...(known ? [cell_id("log_sum_exp", lead)] : [])],
      },
    ],
  };
};

const weighted_values: Rules = (_, of, [i = 0, j = 0, d = 0]) => ({
  formula: formula("weighted value = weight x value"),
  terms: of.products(
    1,
    () => ({ name: "weights", index: [i, j] }),
    () => ({ name: "value", index: [j, d] }),
    () => of.row("value", j),
  ),
});

const sums: Rules = ({ tensors }, of, index) => {
  const lead = index.slice(0, -2);
  const [i = 0, d = 0] = index.slice(-2);
  const terms = of.products(
    tensors.size("value", -2),
    (k) => ({ name: "weights", index: [...lead, i, k] }),
    (k) => ({ name: "value", index: [...lead, k, d] }),
    (k) => of.row("value", k),
  );
  if (tensors.has("weighted_values")) terms.forEach((term, k) => term.from.push(cell_id("weighted_values", [i, k, d])));
  return { formula: formula("output = sum of weight x value"), terms };
};

const merged: Rules = ({ tensors }, of, [i = 0, j = 0]) => {
  const size = tensors.size("heads", -1);
  const head = Math.floor(j / size);
  return {
    formula: formula(`merged = the same number of head ${head + 1}`),
    terms: of.copy({ name: "heads", index: [head, i, j % size] }),
  };
};

const outputs: Rules = (walk, of, index) => {
  if (!walk.tensors.has("merged")) return sums(walk, of, index);
  const [i = 0, j = 0] = index;
  return {
    formula: formula("output = merged x w_out"),
    terms: of.products(walk.tensors.size("merged", 1), of_matrix("merged", i), of_column("w_out", j), (k) =>
      number_of_head(k, walk.tensors.size("heads", -1)),
    ),
  };
};

const kRules: Record<string, Rules> = {
  embedded,
  ...Object.fromEntries(
    ["query", "key", "value"].flatMap((part) => [
      [`projected ${part}`, projected(part)],
      [part, split(part)],
    ]),
  ),
  scores,
  logits,
  log_sum_exp: log_sums,
  weights,
  weighted_values,
  heads: sums,
  merged,
  output: outputs,
};

// Null: it was given.
export const rule_of = (walk: Walk, { name, index }: Cell): Rule | null =>
  (Object.hasOwn(kRules, name) ? kRules[name] : undefined)?.(walk, new TermsOf(walk), index) ?? null;

// The products that a number of a walk is the sum of, and where their factors come from.
import type { Piece, Role } from "./explanation";
import { number_text } from "./numbers";
import { type Cell, cell_id, type Walk } from "./tensors";

export interface Term {
  label: string; // what it belongs to: "key 2"
  factors: Piece[]; // "0.46831", " x ", "8"
  value: number;
  from: string[]; // cells that it comes from
}

export interface Derivation {
  formula: Piece[];
  terms: Term[];
  sum: number; // of the terms
  then: Piece[]; // what happens to the sum: " x 0.5"
  result: number; // of what is computed here
  rest: number; // what the number has beyond that, if it is more than rounding: a bias that is not shown
  note: string;
}

const num = (value: number, role: Role): Piece => ({ text: number_text(value), role });
const word = (text: string, role: Role = "none"): Piece => ({ text, role });
const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

// Names of what the rules below are about.
class Rules {
  constructor(private readonly walk: Walk) {}

  private get tensors() {
    return this.walk.tensors;
  }

  role(name: string): Role {
    return this.tensors.get(name)?.role ?? "none";
  }

  // The name of a row of a tensor.
  row(name: string, i: number): string {
    return this.tensors.get(name)?.rows[i] ?? `row ${i + 1}`;
  }

  // One product per k of two numbers.
  products(n: number, left: (k: number) => Cell, right: (k: number) => Cell, label: (k: number) => string): Term[] {
    return count(n).map((k) => {
      const a = left(k),
        b = right(k);
      const [x, y] = [this.tensors.at(a.name, ...a.index), this.tensors.at(b.name, ...b.index)];
      return {
        label: label(k),
        factors: [num(x, this.role(a.name)), word(" x "), num(y, this.role(b.name))],
        value: x === 0 && a.name === "weights" ? 0 : x * y, // a hidden value is left out, whatever it holds
        from: [cell_id(a.name, a.index), cell_id(b.name, b.index)],
      };
    });
  }

  // A bias that is added, if there is one.
  bias(name: string, j: number): Term[] {
    if (!this.tensors.has(name)) return [];
    const value = this.tensors.at(name, j);
    return [{ label: "bias", factors: [num(value, this.role(name))], value, from: [cell_id(name, [j])] }];
  }

  // The score of a query and a key, whose first indices are `lead`.
  score(lead: number[], i: number, j: number): Term[] {
    const { tensors } = this;
    const query = (d: number): Cell => ({ name: "query", index: [...lead, i, d] });
    const key = (d: number): Cell => ({ name: "key", index: [...lead, j, d] });
    const size = tensors.size("query", -1);
    const all = (cell: (d: number) => Cell, n: number): string[] =>
      count(n).map((d) => cell_id(cell(d).name, cell(d).index));
    const at = (cell: Cell): number => tensors.at(cell.name, ...cell.index);
    const sum = (name: string, row: number, cell: (d: number) => Cell, n: number, from = 0): number =>
      count(n).reduce((total, d) => total + tensors.at(name, row, from + d) * at(cell(d)), 0);
    const key_size = tensors.size("key", -1);
    if (this.walk.score === "bilinear" && tensors.has("score_w")) {
      return count(size).map((d) => {
        const a = at(query(d)),
          b = sum("score_w", d, key, key_size);
        return {
          label: `number ${d + 1}`,
          factors: [num(a, "query"), word(" x "), num(b, "key")],
          value: a * b,
          from: [
            cell_id("query", query(d).index),
            ...all(key, key_size),
            ...count(key_size).map((e) => cell_id("score_w", [d, e])),
          ],
        };
      });
    }
    if (this.walk.score === "additive" || this.walk.score === "concat") {
      const v = tensors.has("v") ? "v" : "score_v";
      return count(tensors.size(v, 0)).map((h) => {
        const inner = tensors.has("score_w_query")
          ? sum("score_w_query", h, query, size) + sum("score_w_key", h, key, key_size)
          : tensors.has("score_w")
            ? sum("score_w", h, query, size) + sum("score_w", h, key, key_size, size)
            : at(query(h)) + at(key(h));
        const a = tensors.at(v, h),
          b = Math.tanh(inner);
        return {
          label: `number ${h + 1}`,
          factors: [num(a, "score"), word(" x tanh("), num(inner, "score"), word(")")],
          value: a * b,
          from: [
            cell_id(v, [h]),
            ...(v === "v"
              ? [cell_id("query", query(h).index), cell_id("key", key(h).index)]
              : [...all(query, size), ...all(key, key_size)]),
          ],
        };
      });
    }
    return this.products(size, query, key, (d) => `number ${d + 1}`);
  }

  score_formula(): Piece[] {
    const q = word("query", "query"),
      k = word("key", "key");
    const w = this.tensors.has("score_w");
    switch (this.walk.score) {
      case "additive":
        return this.tensors.has("score_w_query")
          ? [word("score_v . tanh(score_w_query "), q, word(" + score_w_key "), k, word(")")]
          : [word("v . tanh("), q, word(" + "), k, word(")")];
      case "concat":
        return [word("score_v . tanh(score_w ["), q, word("; "), k, word("])")];
      case "bilinear":
        return w ? [q, word(" . score_w "), k] : [q, word(" . "), k];
      default:
        return [q, word(" . "), k];
    }
  }
}

type Rule = Pick<Derivation, "formula" | "terms"> &
  Partial<Pick<Derivation, "then" | "note">> & { result?: (sum: number) => number };

function rule_of(walk: Walk, { name, index }: Cell): Rule | null {
  const { tensors, scale } = walk;
  const rules = new Rules(walk);
  const heads = tensors.has("heads");
  const [i = 0, j = 0, d = 0] = index;
  const given = (...names: string[]): boolean => names.every((one) => tensors.has(one));
  const projected = /^(?:projected )?(query|key|value)$/.exec(name)?.[1] as Role | undefined;
  const base = tensors.has("embedded") ? "embedded" : "inputs";

  if (name === "embedded" && given("w_embed", "inputs")) {
    return {
      formula: [word("embedded", "input"), word(" = w_embed x "), word("input", "input")],
      terms: rules.products(
        tensors.size("inputs", 1),
        (k) => ({ name: "inputs", index: [i, k] }),
        (k) => ({ name: "w_embed", index: [j, k] }),
        (k) => `number ${k + 1}`,
      ),
    };
  }
  if (projected && index.length === 2 && given(base, `w_${projected}`)) {
    const bias = rules.bias(`b_${projected}`, j);
    return {
      formula: [
        word(projected, projected),
        word(` = ${base} x `),
        word(`w_${projected}`, projected),
        word(bias.length > 0 ? ` + b_${projected}` : ""),
      ],
      terms: [
        ...rules.products(
          tensors.size(base, 1),
          (k) => ({ name: base, index: [i, k] }),
          (k) => ({ name: `w_${projected}`, index: [k, j] }),
          (k) => `number ${k + 1}`,
        ),
        ...bias,
      ],
    };
  }
  if (projected && index.length === 3 && given(`projected ${projected}`)) {
    const from: Cell = { name: `projected ${projected}`, index: [j, i * tensors.size(name, -1) + d] };
    return copy(walk, from, [
      word(projected, projected),
      word(` of head ${i + 1} = the same number of `),
      word(from.name, projected),
    ]);
  }
  if ((name === "scores" || name === "logits") && given("query", "key")) {
    const lead = index.slice(0, -2),
      [row = 0, column = 0] = index.slice(-2);
    const scaled = name === "logits" && scale !== 1;
    const formula = [
      word(name === "logits" ? "logit" : "score", "score"),
      word(" = "),
      ...rules.score_formula(),
      word(scaled ? ` x ${number_text(scale)}` : ""),
    ];
    const hidden = walk.mask?.hidden[row]?.[column] ?? 0;
    const value = tensors.at(name, ...index);
    const then = scaled ? [word(` x ${number_text(scale)}`)] : [];
    const result = (sum: number): number => (scaled ? sum * scale : sum);
    if (name === "logits" && value === -Infinity) {
      const why = hidden > 0 ? walk.mask?.rules[hidden - 1] : undefined;
      return {
        formula,
        terms: rules.score(lead, row, column),
        then: [...then, word(", hidden")],
        result: () => -Infinity,
        note: why ?? "The mask hides this key.",
      };
    }
    if (name === "logits" && tensors.get("scores")?.substituted) {
      return {
        formula: [word("logit", "score"), word(" = score"), word(scaled ? ` x ${number_text(scale)}` : "")],
        terms: copy(walk, { name: "scores", index }, []).terms,
        then,
        result,
      };
    }
    return { formula, terms: rules.score(lead, row, column), then, result };
  }
  if (name === "log_sum_exp" && given("logits")) {
    const logits = count(tensors.size("logits", -1)).map((k) => tensors.at("logits", i, k));
    const most = Math.max(...logits);
    return {
      formula: [word("log_sum_exp", "score"), word(" = log of the sum of exp("), word("logit", "score"), word(")")],
      terms: logits.map((logit, k) => ({
        label: rules.row("key", k),
        factors: [word("exp("), num(logit, "score"), word(")")],
        value: Math.exp(logit),
        from: [cell_id("logits", [i, k])],
      })),
      then: [word(", its logarithm")],
      result: () => most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0)), // exp(800) is too large
    };
  }
  if (name === "weights" && given("logits")) {
    const lead = index.slice(0, -1),
      column = index.at(-1) as number;
    const logits = count(tensors.size("logits", -1)).map((k) => tensors.at("logits", ...lead, k));
    const most = Math.max(...logits);
    const log_sum = tensors.has("log_sum_exp")
      ? tensors.at("log_sum_exp", ...lead)
      : most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
    const logit = logits[column] as number;
    return {
      formula: [
        word("weight", "weight"),
        word(" = exp("),
        word("logit", "score"),
        word(" - "),
        word("log_sum_exp", "score"),
        word("): its share of the sum of all exp(logit) of the row"),
      ],
      terms: [
        {
          label: rules.row("key", column),
          factors: [word("exp("), num(logit, "score"), word(" - "), num(log_sum, "score"), word(")")],
          value: logit === -Infinity ? 0 : Math.exp(logit - log_sum),
          from: [cell_id("logits", index), ...(tensors.has("log_sum_exp") ? [cell_id("log_sum_exp", lead)] : [])],
        },
      ],
    };
  }
  if (name === "weighted_values" && given("weights", "value")) {
    return {
      formula: [
        word("weighted value", "output"),
        word(" = "),
        word("weight", "weight"),
        word(" x "),
        word("value", "value"),
      ],
      terms: rules.products(
        1,
        () => ({ name: "weights", index: [i, j] }),
        () => ({ name: "value", index: [j, d] }),
        () => rules.row("value", j),
      ),
    };
  }
  if (name === (heads ? "heads" : "output") && given("weights", "value")) {
    const lead = index.slice(0, -2),
      [row = 0, column = 0] = index.slice(-2);
    const terms = rules.products(
      tensors.size("value", -2),
      (k) => ({ name: "weights", index: [...lead, row, k] }),
      (k) => ({ name: "value", index: [...lead, k, column] }),
      (k) => rules.row("value", k),
    );
    if (tensors.has("weighted_values"))
      terms.forEach((term, k) => term.from.push(cell_id("weighted_values", [row, k, column])));
    return {
      formula: [
        word("output", "output"),
        word(" = sum of "),
        word("weight", "weight"),
        word(" x "),
        word("value", "value"),
      ],
      terms,
    };
  }
  if (name === "merged" && heads) {
    const size = tensors.size("heads", -1);
    const head = Math.floor(j / size);
    return copy(walk, { name: "heads", index: [head, i, j % size] }, [
      word("merged", "output"),
      word(` = the same number of head ${head + 1}`),
    ]);
  }
  if (name === "output" && given("merged", "w_out")) {
    return {
      formula: [word("output", "output"), word(" = merged x w_out")],
      terms: rules.products(
        tensors.size("merged", 1),
        (k) => ({ name: "merged", index: [i, k] }),
        (k) => ({ name: "w_out", index: [k, j] }),
        (k) => `number ${k + 1}`,
      ),
    };
  }
  return null;
}

// A number that is another one in a new place.
function copy(walk: Walk, from: Cell, formula: Piece[]): Rule {
  const value = walk.tensors.at(from.name, ...from.index);
  const role = walk.tensors.get(from.name)?.role ?? "none";
  return {
    formula,
    terms: [{ label: from.name, factors: [num(value, role)], value, from: [cell_id(from.name, from.index)] }],
  };
}

// Null: it was given, or put in by hand.
export function derive(walk: Walk, cell: Cell): Derivation | null {
  if (!walk.tensors.holds(cell) || walk.tensors.get(cell.name)?.substituted) return null;
  const rule = rule_of(walk, cell);
  if (!rule) return null;
  const sum = rule.terms.reduce((total, term) => total + term.value, 0);
  const result = rule.result ? rule.result(sum) : sum;
  const value = walk.tensors.at(cell.name, ...cell.index);
  const size = rule.terms.reduce((total, term) => total + Math.abs(term.value), 1);
  const rest = value - result;
  return {
    formula: rule.formula,
    terms: rule.terms,
    sum,
    then: rule.then ?? [],
    result,
    rest: Number.isFinite(rest) && Math.abs(rest) > walk.tolerance * size ? rest : 0,
    note: rule.note ?? "",
  };
}

// Up to 16 terms as they are; else the eight largest, and the others as one number.
export function shortened(terms: Term[]): { shown: Term[]; others: number; rest: number } {
  if (terms.length <= 16) return { shown: terms, others: 0, rest: 0 };
  const by_size = [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const others = by_size.slice(8);
  return { shown: by_size.slice(0, 8), others: others.length, rest: others.reduce((sum, term) => sum + term.value, 0) };
}

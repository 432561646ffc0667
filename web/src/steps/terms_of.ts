// Sums of products of numbers of a walk: what the rules of rules.ts are made of.
import type { Piece, Role } from "../explanation";
import { number_text } from "../numbers";
import { type Cell, cell_id, type Walk } from "./tensors";

export interface Term {
  label: string; // what it belongs to: "key 2"
  factors: Piece[]; // "0.46831", " x ", "8"
  value: number;
  from: string[]; // cells that it comes from
}

export const num = (value: number, role: Role): Piece => ({ text: number_text(value), role });
export const plain = (text: string): Piece => ({ text, role: "none" });
export const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const numbered = (k: number): string => `number ${k + 1}`;

const kRoleOf: Record<string, Role> = {
  ...{ input: "input", embedded: "input", query: "query", w_query: "query", key: "key", w_key: "key" },
  ...{ value: "value", w_value: "value", score: "score", logit: "score", log_sum_exp: "score" },
  ...{ weight: "weight", output: "output", merged: "output" },
};

// A formula, in which the names of roles have their colours.
export const formula = (text: string): Piece[] =>
  text.split(/(\w+)/).map((word) => ({ text: word, role: kRoleOf[word] ?? "none" }));

// The log of the sum of the exponentials: exp(800) alone is too large.
export function log_sum_exp(logits: readonly number[]): number {
  const most = Math.max(...logits);
  return most === -Infinity ? most : most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
}

export class TermsOf {
  constructor(private readonly walk: Walk) {}

  at({ name, index }: Cell): number {
    return this.walk.tensors.at(name, ...index);
  }

  private role(name: string): Role {
    return this.walk.tensors.get(name)?.role ?? "none";
  }

  // The name of a row of a tensor.
  row(name: string, i: number): string {
    return this.walk.tensors.get(name)?.rows[i] ?? `row ${i + 1}`;
  }

  // One product per k of two numbers. A hidden value is left out, whatever it holds.
  products(n: number, left: (k: number) => Cell, right: (k: number) => Cell, label = numbered): Term[] {
    return count(n).map((k) => {
      const [a, b] = [left(k), right(k)];
      const [x, y] = [this.at(a), this.at(b)];
      return {
        label: label(k),
        factors: [num(x, this.role(a.name)), plain(" x "), num(y, this.role(b.name))],
        value: x === 0 && a.name === "weights" ? 0 : x * y,
        from: [cell_id(a.name, a.index), cell_id(b.name, b.index)],
      };
    });
  }

  // A number that is another one in a new place.
  copy(cell: Cell): Term[] {
    const value = this.at(cell);
    const from = [cell_id(cell.name, cell.index)];
    return [{ label: cell.name, factors: [num(value, this.role(cell.name))], value, from }];
  }

  // A bias that is added, if there is one.
  bias(name: string, j: number): Term[] {
    if (!this.walk.tensors.has(name)) return [];
    return this.copy({ name, index: [j] }).map((term) => ({ ...term, label: "bias" }));
  }

  // The score of a query and a key, whose first indices are `lead`.
  score(lead: number[], i: number, j: number): Term[] {
    const { tensors, score } = this.walk;
    const size = tensors.size("query", -1);
    const query = (d: number): Cell => ({ name: "query", index: [...lead, i, d] });
    const key = (d: number): Cell => ({ name: "key", index: [...lead, j, d] });
    if (score === "bilinear" && tensors.has("score_w")) return this.bilinear(size, query, key);
    if (score === "additive" || score === "concat") return this.additive(query, key);
    return this.products(size, query, key);
  }

  private ids(cell: (d: number) => Cell): string[] {
    const { name } = cell(0);
    return count(this.walk.tensors.size(name, -1)).map((d) => cell_id(name, cell(d).index));
  }

  // Row `row` of a matrix, from its column `from`, times a vector.
  private times(matrix: string, row: number, cell: (d: number) => Cell, from = 0): number {
    const n = this.walk.tensors.size(cell(0).name, -1);
    return count(n).reduce((sum, d) => sum + this.walk.tensors.at(matrix, row, from + d) * this.at(cell(d)), 0);
  }

  private bilinear(size: number, query: (d: number) => Cell, key: (d: number) => Cell): Term[] {
    return count(size).map((d) => {
      const [x, y] = [this.at(query(d)), this.times("score_w", d, key)];
      const row = count(this.walk.tensors.size("score_w", 1)).map((e) => cell_id("score_w", [d, e]));
      return {
        label: numbered(d),
        factors: [num(x, "query"), plain(" x "), num(y, "key")],
        value: x * y,
        from: [cell_id("query", query(d).index), ...this.ids(key), ...row],
      };
    });
  }

  // v . tanh(query + key), each multiplied first if there are matrices for it.
  private additive(query: (d: number) => Cell, key: (d: number) => Cell): Term[] {
    const { tensors } = this.walk;
    const v = tensors.has("v") ? "v" : "score_v";
    const inner = (h: number): number => {
      if (tensors.has("score_w_query"))
        return this.times("score_w_query", h, query) + this.times("score_w_key", h, key);
      if (!tensors.has("score_w")) return this.at(query(h)) + this.at(key(h));
      return this.times("score_w", h, query) + this.times("score_w", h, key, tensors.size("query", -1));
    };
    return count(tensors.size(v, 0)).map((h) => {
      const [x, sum] = [tensors.at(v, h), inner(h)];
      const of =
        v === "v"
          ? [query(h), key(h)].map((one) => cell_id(one.name, one.index))
          : [query, key].flatMap((one) => this.ids(one));
      return {
        label: numbered(h),
        factors: [num(x, "score"), plain(" x tanh("), num(sum, "score"), plain(")")],
        value: x * Math.tanh(sum),
        from: [cell_id(v, [h]), ...of],
      };
    });
  }
}

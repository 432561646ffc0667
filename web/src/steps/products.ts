// The products that a number of a walk is the sum of.
import type { Piece } from "../explanation";
import { rule_of } from "./rules";
import type { Cell, Walk } from "./tensors";
import type { Term } from "./terms_of";

export interface Derivation {
  formula: Piece[];
  terms: Term[];
  sum: number; // of the terms
  then: string; // what happens to the sum: " x 0.5"
  rest: number; // what the number has beyond that, if it is more than rounding: a bias that is not shown
  note: string;
}

// Null: it was given, or put in by hand.
export function derive(walk: Walk, cell: Cell): Derivation | null {
  if (!walk.tensors.holds(cell) || walk.tensors.get(cell.name)?.substituted) return null;
  const rule = rule_of(walk, cell);
  if (!rule) return null;
  const sum = rule.terms.reduce((total, term) => total + term.value, 0);
  const size = rule.terms.reduce((total, term) => total + Math.abs(term.value), 1);
  const rest = walk.tensors.at(cell.name, ...cell.index) - (rule.result ? rule.result(sum) : sum);
  return {
    formula: rule.formula,
    terms: rule.terms,
    sum,
    then: rule.then ?? "",
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

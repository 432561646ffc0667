// The tensors of an explanation by name, and windows: what of them is drawn as a matrix.
import type { Nested } from "../read/check";
import type { Head, Mask, Role, Score, Steps, Tensor } from "../explanation";

// A number of a tensor. As text "query:0.1".
export interface Cell {
  name: string;
  index: number[];
}
export const cell_id = (name: string, index: readonly number[]): string => `${name}:${index.join(".")}`;

export function parse_cell(id: string): Cell | null {
  const parts = /^(.+):(\d+(?:\.\d+)*)$/s.exec(id);
  return parts ? { name: parts[1] as string, index: (parts[2] as string).split(".").map(Number) } : null;
}

// What a walk through attention is computed from.
export interface Walk {
  tensors: Tensors;
  score: Score;
  scale: number;
  mask: Mask | null;
  tolerance: number; // relative: sums of a page are in f64
}

export class Tensors {
  private readonly by_name = new Map<string, Tensor>();

  constructor(tensors: Iterable<Tensor>) {
    for (const tensor of tensors) if (!this.by_name.has(tensor.name)) this.by_name.set(tensor.name, tensor);
  }
  get(name: string): Tensor | undefined {
    return this.by_name.get(name);
  }
  // Whether its numbers are there.
  has(name: string): boolean {
    return (this.by_name.get(name)?.values ?? null) !== null;
  }
  size(name: string, dimension: number): number {
    return this.by_name.get(name)?.shape.at(dimension) ?? 0;
  }
  at(name: string, ...index: number[]): number {
    let value: Nested | undefined | null = this.by_name.get(name)?.values;
    for (const i of index) value = Array.isArray(value) ? (value[i] as Nested | undefined) : undefined;
    return typeof value === "number" ? value : NaN;
  }
  holds(cell: Cell): boolean {
    const tensor = this.by_name.get(cell.name);
    return (
      tensor !== undefined &&
      this.has(cell.name) &&
      cell.index.length === tensor.shape.length &&
      cell.index.every((i, d) => i < (tensor.shape[d] as number))
    );
  }
}

// A matrix of a tensor: all of it, or the part whose first indices are `lead`.
export interface Window {
  tensor: Tensor;
  title: string;
  role: Role;
  lead: number[];
  height: number;
  width: number;
  rows: string[];
  columns: string[];
  across?: number; // columns that each head has of all heads side by side
  down?: number; // and rows
  change?: boolean; // its numbers are differences of two runs
  index(row: number, column: number): number[];
}

const kSideBySide = /^(w_query|w_key|w_value|projected (query|key|value)|merged)$/;

// With heads: which columns, or rows, are whose.
export function with_heads(window: Window, walk: Walk): Window {
  const size = walk.tensors.size("heads", -1);
  if (size === 0) return window;
  if (kSideBySide.test(window.tensor.name)) return { ...window, across: size };
  return window.tensor.name === "w_out" ? { ...window, down: size } : window;
}

// Number k of heads of this size side by side: "head 2.1", as the program names it.
export const number_of_head = (k: number, size: number): string =>
  `head ${Math.floor(k / size) + 1}.${(k % size) + 1}`;

export function value_at(window: Window, row: number, column: number): number {
  let value: Nested | undefined | null = window.tensor.values;
  for (const i of window.index(row, column)) value = (value as readonly Nested[])[i];
  return value as number;
}

// The matrix of a tensor at `lead`; of a vector a row.
export function window_of(tensor: Tensor, lead: number[] = [], title = tensor.name): Window {
  const rest = tensor.shape.slice(lead.length);
  const [height, width] =
    rest.length === 0 ? [1, 1] : rest.length === 1 ? [1, rest[0] as number] : [rest[0] as number, rest[1] as number];
  const row = lead.at(-1);
  return {
    tensor,
    title,
    role: tensor.role,
    lead,
    height,
    width,
    rows: rest.length > 1 ? tensor.rows : row !== undefined && tensor.rows[row] ? [tensor.rows[row]] : [],
    columns: rest.length > 0 ? tensor.columns : [],
    index: (r, c) => (rest.length === 0 ? lead : rest.length === 1 ? [...lead, c] : [...lead, r, c]),
  };
}

// One window, or of rank 3 one for each of the first dimension, which `part` names: "head 1".
export function windows_of(tensor: Tensor, part: (i: number) => string): Window[] {
  if (tensor.shape.length < 3) return [window_of(tensor)];
  return Array.from({ length: tensor.shape[0] as number }, (_, i) =>
    window_of(tensor, [i], `${tensor.name}, ${part(i)}`),
  );
}

export function walk_of_steps(steps: Steps): Walk {
  const tensors = steps.sections.flatMap((section) => section.blocks.flatMap((block) => block.tensors));
  return { tensors: new Tensors(tensors), score: steps.score, scale: steps.scale, mask: steps.mask, tolerance: 1e-9 };
}

export function walk_of_head(head: Head): Walk {
  const tensor = (name: string, role: Role, values: number[][], rows: string[], columns: string[] = []): Tensor => ({
    name,
    role,
    shape: [values.length, values[0]?.length ?? 0],
    rows,
    columns,
    substituted: false,
    values,
  });
  const { tokens, keys } = head;
  const list = [
    tensor("query", "query", head.query, tokens),
    tensor("key", "key", head.key, keys),
    tensor("value", "value", head.value, keys),
    tensor("scores", "score", head.scores, tokens, keys),
    tensor("logits", "score", head.logits, tokens, keys),
    tensor("weights", "weight", head.weights, tokens, keys),
    tensor("output", "output", head.output, tokens),
  ];
  const vector = (name: string, values: number[]): Tensor => ({
    ...tensor(name, "score", [], []),
    shape: [values.length],
    values,
  });
  list.push({ ...vector("log_sum_exp", head.log_sum_exp), rows: tokens });
  if (head.v) list.push(vector("v", head.v));
  if (head.bias) list.push(tensor("bias", "score", head.bias, tokens, keys));
  return { tensors: new Tensors(list), score: head.score, scale: head.scale, mask: null, tolerance: 1e-3 };
}

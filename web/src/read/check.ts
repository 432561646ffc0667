// Checks of what JSON holds: each names the place that breaks a rule.

// What is wrong with the data, in one line.
export class Fault extends Error {}

const broken = (rule: string): Fault => new Fault(`The data are broken: ${rule}.`);
export const refuse = (rule: string): never => {
  throw broken(rule);
};

export type Json = { readonly [name: string]: unknown };

export function object_of(value: unknown, where: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw broken(`${where} must be an object`);
  return value as Json;
}

export function json_of(text: string, where: string): Json {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw broken(`${where} is cut off`);
  }
  return object_of(value, where);
}

export function list_of<T>(value: unknown, where: string, each: (entry: unknown, where: string, at: number) => T): T[] {
  if (!Array.isArray(value)) throw broken(`${where} must be a list`);
  return value.map((entry, i) => each(entry, `${where}[${i}]`, i));
}

export function text_of(value: unknown, where: string): string {
  if (typeof value !== "string") throw broken(`${where} must be text`);
  return value;
}

export function flag_of(value: unknown, where: string): boolean {
  if (typeof value !== "boolean") throw broken(`${where} must be true or false`);
  return value;
}

const kOthers: Record<string, number> = { inf: Infinity, "-inf": -Infinity, nan: NaN };

export function number_of(value: unknown, where: string): number {
  if (typeof value === "number") return value;
  const other = typeof value === "string" ? kOthers[value] : undefined;
  if (other === undefined) throw broken(`${where} must be a number`);
  return other;
}

export function count_of(value: unknown, where: string): number {
  const count = number_of(value, where);
  if (!Number.isInteger(count) || count < 0) throw broken(`${where} must be a whole number from 0`);
  return count;
}

export function choice_of<T extends string>(value: unknown, where: string, choices: readonly T[]): T {
  if (!choices.includes(value as T)) throw broken(`${where} must be one of ${choices.join(", ")}`);
  return value as T;
}

export function null_or<T>(value: unknown, where: string, of: (value: unknown, where: string) => T): T | null {
  return value === null || value === undefined ? null : of(value, where);
}

function of_length(list: readonly unknown[], length: number, where: string): void {
  if (list.length !== length) throw broken(`${where} must have ${length} entries, not ${list.length}`);
}

export function texts_of(value: unknown, where: string, length?: number): string[] {
  const list = list_of(value, where, text_of);
  if (length !== undefined) of_length(list, length, where);
  return list;
}

export function vector_of(value: unknown, where: string, length?: number): number[] {
  const list = list_of(value, where, number_of);
  if (length !== undefined) of_length(list, length, where);
  return list;
}

export function matrix_of(value: unknown, where: string, rows: number, columns: number): number[][] {
  const list = list_of(value, where, (row, at) => vector_of(row, at, columns));
  of_length(list, rows, where);
  return list;
}

export type Nested = number | readonly Nested[];

// Nested lists of these sizes.
export function nested_of(value: unknown, where: string, shape: readonly number[]): Nested {
  if (shape.length === 0) return number_of(value, where);
  const list = list_of(value, where, (entry, at) => nested_of(entry, at, shape.slice(1)));
  of_length(list, shape[0] as number, where);
  return list;
}

// One run less the other, number by number.
import type { Nested } from "../read/check";
import { largest } from "../numbers";

// What is the same in both, infinite or not a number, is 0.
function less(now: Nested, then: Nested): Nested {
  if (typeof now === "number") return Object.is(now, then) ? 0 : now - (then as number);
  return now.map((one, i) => less(one, (then as readonly Nested[])[i] as Nested));
}

const kept = new WeakMap<object, WeakMap<object, Nested>>();

// Of lists of the same sizes, made once: pictures of them are kept by their numbers.
export function difference_of<T extends Nested & object>(now: T, then: T): T {
  const of_now = kept.get(now) ?? new WeakMap<object, Nested>();
  kept.set(now, of_now);
  const made = of_now.get(then) ?? less(now, then);
  of_now.set(then, made);
  return made as T;
}

export const largest_of = (matrices: readonly (readonly number[][])[]): number =>
  Math.max(0, ...matrices.map((rows) => Math.max(0, ...rows.map((row) => largest(row)))));

export const same_names = (ours: readonly string[], theirs: readonly string[]): boolean =>
  ours.length === theirs.length && ours.every((name, i) => name === theirs[i]);

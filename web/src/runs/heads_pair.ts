// The heads of two runs: an attention whose numbers are differences.
import type { Attention, HeadEntry, Heads } from "../explanation";
import { kMeasures } from "../explanation";
import { difference_of, largest_of, same_names } from "./difference";

export interface AttentionPair {
  attention: Attention; // this run less the other
  theirs: Attention;
  most: number; // the largest change of a weight
  line: string; // why weights cannot be subtracted
}

export const entry_of = (attention: Attention, { layer, head }: HeadEntry): HeadEntry | undefined =>
  attention.all.find((one) => one.layer === layer && one.head === head);

// The share of a query's weight that went to other keys, a mean over the queries.
function moved(change: readonly number[][]): number {
  const sum = change.reduce((total, row) => total + row.reduce((part, one) => part + Math.abs(one), 0), 0);
  return sum / 2 / (change.length || 1);
}

function difference(ours: HeadEntry, theirs: HeadEntry | undefined, subtract: boolean): HeadEntry {
  const less = (a: number | undefined, b: number | undefined): number => (a ?? NaN) - (b ?? NaN);
  const measures = kMeasures.map((name) => [name, less(ours[name], theirs?.[name])] as const);
  const names = Object.keys(ours.more) as (keyof HeadEntry["more"])[];
  const more: HeadEntry["more"] = {};
  for (const name of names) if (theirs?.more[name] !== undefined) more[name] = less(ours.more[name], theirs.more[name]);
  const weights = subtract && ours.weights && theirs?.weights ? difference_of(ours.weights, theirs.weights) : null;
  if (weights) more.moved = moved(weights);
  return { ...ours, ...Object.fromEntries(measures), more, pattern: "none", weights };
}

function why_not(ours: Attention, theirs: Attention): string {
  const other = [ours.queries, ours.keys].find(
    (one, i) => !same_names(one.tokens, [theirs.queries, theirs.keys][i]?.tokens ?? []),
  );
  if (other) return "The two runs have other tokens here: their weights cannot be subtracted.";
  const has = (attention: Attention): boolean => attention.all.some((one) => one.weights !== null);
  if (has(ours) && has(theirs)) return "";
  return [ours, theirs].some(({ all }) => all.some(({ map }) => map))
    ? "Of so many tokens a report holds maps, which are not subtracted."
    : "The weights of one run were not kept (--weights keeps them).";
}

const pairs = new WeakMap<Attention, WeakMap<Attention, AttentionPair>>();

// Null: the other run has no such attention.
export function pair_of(ours: Attention, other: Heads): AttentionPair | null {
  const theirs = other.attentions.find((one) => one.name === ours.name);
  if (!theirs) return null;
  const known = pairs.get(ours) ?? new WeakMap<Attention, AttentionPair>();
  pairs.set(ours, known);
  const line = why_not(ours, theirs);
  const make = (): AttentionPair => {
    const all = ours.all.map((one) => difference(one, entry_of(theirs, one), line === ""));
    return { attention: { ...ours, all }, theirs, most: largest_of(all.flatMap((one) => (one.weights ? [one.weights] : []))), line };
  };
  const pair = known.get(theirs) ?? make();
  known.set(theirs, pair);
  return pair;
}

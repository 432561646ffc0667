// Pieces of words joined to words: as a query the mean of the pieces, as a key their sum.
import type { Sequence } from "../explanation";

export interface Group {
  label: string;
  tokens: number[];
  special: boolean;
}

// Tokens that follow each other in one word; what is of no word stays alone.
export function groups_of(sequence: Sequence, joined: boolean): Group[] {
  const groups: Group[] = [];
  sequence.tokens.forEach((token, i) => {
    const word = sequence.word_of[i] as number;
    const special = sequence.special[i] as boolean;
    const last = groups.at(-1);
    if (joined && word >= 0 && last && sequence.word_of[i - 1] === word) last.tokens.push(i);
    else groups.push({ label: joined && word >= 0 ? (sequence.words[word] as string) : token, tokens: [i], special });
  });
  return groups;
}

// The number of the group that a token is in.
export const group_with = (groups: readonly Group[], token: number): number =>
  groups.findIndex((group) => group.tokens.includes(token));

const kept = new WeakMap<number[][], number[][]>();

export function join_weights(weights: number[][], queries: readonly Group[], keys: readonly Group[]): number[][] {
  if (queries.length === weights.length && keys.length === weights[0]?.length) return weights;
  const before = kept.get(weights);
  if (before) return before;
  const joined = queries.map(({ tokens }) =>
    keys.map((key) => {
      let sum = 0;
      for (const i of tokens) for (const j of key.tokens) sum += weights[i]?.[j] ?? 0;
      return sum / tokens.length;
    }),
  );
  kept.set(weights, joined);
  return joined;
}

// Of a sentence: that of its first letter.
export const direction_of = (words: readonly string[]): "ltr" | "rtl" =>
  /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(
    words.join(" "),
  )
    ? "rtl"
    : "ltr";

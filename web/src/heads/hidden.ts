// What the masks of a model hid: which key from which query, and by which rule.
import type { Attention, Heads } from "../explanation";

export interface Hidden {
  rules: string[]; // a sentence each
  rule_of(query: number, key: number): number; // the first rule that hides the key, from 1; 0: none does
  pairs: number; // that are hidden
  all: number;
}

export function hidden_of(heads: Heads, attention: Attention): Hidden {
  const { queries, keys, name } = attention;
  const causal = attention.mask === "causal";
  const left_out = heads.left_out.keys.filter((one) => one.attention === name).map(({ key }) => key);
  const rules = [
    ...(causal ? ["No query sees a later key."] : []),
    ...left_out.map((key) => `Key ${key}, "${keys.tokens[key] ?? ""}", was left out.`),
  ];
  const rule_of = (query: number, key: number): number => {
    if (causal && key > query) return 1;
    const at = left_out.indexOf(key);
    return at < 0 ? 0 : at + (causal ? 2 : 1);
  };
  let pairs = 0;
  if (rules.length > 0) {
    queries.tokens.forEach((_, i) => keys.tokens.forEach((_key, j) => (pairs += rule_of(i, j) > 0 ? 1 : 0)));
  }
  return { rules, rule_of, pairs, all: queries.tokens.length * keys.tokens.length };
}

// Whether the run was without this head: it gave 0.
export const is_left_out = (heads: Heads, attention: string, layer: number, head: number): boolean =>
  heads.left_out.heads.some((one) => one.attention === attention && one.layer === layer && one.head === head);

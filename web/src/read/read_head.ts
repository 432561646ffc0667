// One head in full, or a picture, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import { type Head, kScores, type Picture } from "../explanation";
import { common_of, cost_of, summary_of } from "./read_common";

export function head_of(value: Json): Head {
  const tokens = check.texts_of(value.tokens, "tokens"),
    keys = check.texts_of(value.keys, "keys");
  const width = (name: string): number => {
    const rows = check.list_of(value[name], name, (row, at) => check.vector_of(row, at));
    return rows[0]?.length ?? 0;
  };
  const matrix = (name: string, rows: number, columns: number): number[][] =>
    check.matrix_of(value[name], name, rows, columns);
  const size = width("query"),
    value_size = width("value");
  return {
    kind: "head",
    ...common_of(value),
    attention: check.text_of(value.attention, "attention"),
    layer: check.count_of(value.layer, "layer"),
    head: check.count_of(value.head, "head"),
    heads: check.count_of(value.heads, "heads"),
    score: check.choice_of(value.score, "score", kScores),
    scale: check.number_of(value.scale, "scale"),
    mask: check.text_of(value.mask, "mask"),
    cost: cost_of(value.cost),
    tokens,
    keys,
    token: check.null_or(value.token, "token", check.count_of),
    query: matrix("query", tokens.length, size),
    key: matrix("key", keys.length, size),
    value: matrix("value", keys.length, value_size),
    v: check.null_or(value.v, "v", (v, at) => check.vector_of(v, at, size)),
    scores: matrix("scores", tokens.length, keys.length),
    bias: value.bias === undefined ? null : matrix("bias", tokens.length, keys.length),
    logits: matrix("logits", tokens.length, keys.length),
    log_sum_exp: check.vector_of(value.log_sum_exp, "log_sum_exp", tokens.length),
    weights: matrix("weights", tokens.length, keys.length),
    output: matrix("output", tokens.length, value_size),
    summary: summary_of(value.summary, "summary"),
  };
}

export function picture_of(value: Json): Picture {
  const sizes = check.list_of(value.grid, "grid", check.count_of);
  const [rows, columns] = sizes;
  if (sizes.length !== 2 || !rows || !columns) return check.refuse("grid must be [rows, columns]");
  const patches = (entry: unknown, at: string): number[][] => check.matrix_of(entry, at, rows, columns);
  return {
    kind: "picture",
    ...common_of(value),
    grid: [rows, columns],
    token: check.text_of(value.token, "token"),
    classes: check.list_of(value.classes ?? [], "classes", (entry, at) => {
      const one = check.object_of(entry, at);
      return { label: check.text_of(one.label, `${at}.label`), probability: check.number_of(one.probability, `${at}.probability`) };
    }),
    rollout: patches(value.rollout, "rollout"),
    heads: check.list_of(value.heads, "heads", (entry, at) => {
      const head = check.object_of(entry, at);
      return {
        layer: check.count_of(head.layer, `${at}.layer`),
        head: check.count_of(head.head, `${at}.head`),
        entropy: check.number_of(head.entropy, `${at}.entropy`),
        to_class: check.number_of(head.to_class, `${at}.to_class`),
        patches: patches(head.patches, `${at}.patches`),
      };
    }),
    pixels: check.list_of(value.pixels, "pixels", (row, at) =>
      check.list_of(row, at, (pixel, place) => check.vector_of(pixel, place, 3)),
    ),
  };
}
